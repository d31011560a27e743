"""POST /prompt: a graph becomes a job. GET /prompt: how many are open."""

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.principal import Principal
from comfyrail.api.comfyui.refusals import Refusal, outputs_of, part_of, refusal_of
from comfyrail.api.comfyui.requests import LARGEST_PROMPT, LONGEST_ID
from comfyrail.api.comfyui.words import priority_of
from comfyrail.api.idempotency import idempotency_key
from comfyrail.api.messages import decode_json, encode, json_response, read_limited
from comfyrail.api.services import Services, principal_of, services_of
from comfyrail.engine import prompt_errors as say
from comfyrail.errors import InvalidWorkflow, MalformedRequest
from comfyrail.jobs.job import Origin
from comfyrail.usecases.checks import WorkflowRequest
from comfyrail.usecases.comfyui_records import SURFACE
from comfyrail.usecases.submit import Accepted, Submission
from comfyrail.workflow.editor.strict_json import read_json

SECRETS = frozenset({"auth_token_comfy_org", "api_key_comfy_org"})
"""For the worker alone: never on disk."""
OWN_NAMES = frozenset({"comfyrail", "client_id", "create_time"})
PREVIEW_METHODS = frozenset({"default", "none", "auto", "latent2rgb", "taesd"})
SMALL = 1 << 16

_PROMPT_ID = re.compile(r"[A-Za-z0-9._:-]{1,200}")

router = APIRouter(tags=["ComfyUI"])


class PromptBody(msgspec.Struct):
    """As it comes: ComfyUI takes nearly everything, and passes over names that it does not know."""

    prompt: msgspec.Raw = msgspec.Raw()
    client_id: Any = None
    prompt_id: Any = None
    number: Any = msgspec.UNSET
    front: Any = False
    extra_data: Any = msgspec.field(default_factory=dict)
    partial_execution_targets: Any = None


class OriginData(msgspec.Struct, omit_defaults=True):
    """What this surface remembers of a job."""

    number: float | None = None
    front: bool = False
    workflow_id: str | None = None


_prompt_body = msgspec.json.Decoder(PromptBody)
_origin_data = msgspec.json.Decoder(OriginData)


@router.post("/prompt")
async def submit_prompt(request: Request) -> Response:
    content = await read_limited(request, LARGEST_PROMPT)
    wanted = _read(content)
    if isinstance(wanted, Refusal):
        return json_response(wanted.body, 400)
    wanted = replace(
        wanted, submission=replace(wanted.submission, idempotency=idempotency_key(request, content))
    )
    services, principal = services_of(request), principal_of(request)
    outcome = await _submit(services, principal, wanted)
    if isinstance(outcome, Refusal):
        return json_response(outcome.body, 400)
    accepted, node_errors = outcome
    client_id = wanted.submission.origin.key
    if client_id is not None:
        services.comfyui.feeds.announce(principal.tenant, client_id)
    origin = wanted.submission.origin
    reply = {
        "prompt_id": origin.alias or accepted.job_id,
        "number": number_of(read_origin(origin.data), accepted.submitted_at),
        "node_errors": node_errors,
    }
    return json_response(reply)


@router.get("/prompt")
async def count_prompts(request: Request) -> Response:
    count = await services_of(request).comfyui.records.count_open(principal_of(request))
    return json_response({"exec_info": {"queue_remaining": count}})


def read_origin(data: bytes | None) -> OriginData:
    """Of any job: those of other surfaces have nothing that is read here."""
    try:
        return _origin_data.decode(data or b"{}")
    except msgspec.MsgspecError:
        return OriginData()


def number_of(origin: OriginData, submitted_at: int) -> float:
    """The number that the client gave, or the time: it goes up as ComfyUI's count does."""
    if origin.number is not None:
        return origin.number
    return -submitted_at if origin.front else submitted_at


@dataclass(frozen=True, slots=True)
class _Wanted:
    prompt: bytes
    targets: Sequence[str] | None
    submission: Submission


async def _submit(
    services: Services, principal: Principal, wanted: _Wanted
) -> tuple[Accepted, Any] | Refusal:
    """The job, and what is wrong with the outputs that it goes without."""
    if wanted.targets is not None:
        prompt = await _read_prompt(wanted.prompt)
        if isinstance(prompt, Refusal):
            return prompt
        outputs = outputs_of(prompt, services.comfyui.fleet.catalog, wanted.targets)
        if not outputs:
            return Refusal(say.refusal(say.no_outputs()))
        wanted = replace(wanted, prompt=encode(part_of(prompt, outputs)))
    first = await _try(services, principal, wanted)
    if not isinstance(first, Refusal) or not first.good:
        return first if isinstance(first, Refusal) else (first, {})
    # As ComfyUI does: the good outputs are made, and the bad ones left out.
    prompt = await _read_prompt(wanted.prompt)
    if isinstance(prompt, Refusal):
        return prompt
    part = replace(wanted, prompt=encode(part_of(prompt, first.good)))
    second = await _try(services, principal, part)
    return second if isinstance(second, Refusal) else (second, first.node_errors)


async def _try(services: Services, principal: Principal, wanted: _Wanted) -> Accepted | Refusal:
    submission = replace(wanted.submission, request=WorkflowRequest(wanted.prompt))
    try:
        return await services.submit(principal, submission)
    except InvalidWorkflow as error:
        prompt = await _read_prompt(wanted.prompt)
        if isinstance(prompt, Refusal):
            return prompt
        catalog = services.comfyui.fleet.catalog
        if len(wanted.prompt) <= SMALL:
            return refusal_of(error, prompt, catalog, wanted.targets)
        return await asyncio.to_thread(refusal_of, error, prompt, catalog, wanted.targets)


async def _read_prompt(text: bytes) -> dict[str, Any] | Refusal:
    try:
        prompt = read_json(text) if len(text) <= SMALL else await asyncio.to_thread(read_json, text)
    except InvalidWorkflow as error:
        return Refusal(say.refusal(say.invalid_request(error.message)))
    if not isinstance(prompt, dict):
        return Refusal(say.refusal(say.invalid_request("The prompt is not a JSON object.")))
    return prompt


def _read(content: bytes) -> _Wanted | Refusal:
    """Raises MalformedRequest for what ComfyUI answers with a bare 500."""
    if content.strip() == b"[]":
        return Refusal(say.refusal(say.no_prompt()))
    body = decode_json(content, _prompt_body)
    prompt = bytes(body.prompt).strip()
    if not prompt:
        return Refusal(say.refusal(say.no_prompt()))
    if prompt.translate(None, b" \t\r\n") in {b"[]", b"{}"}:
        return Refusal(say.refusal(say.no_outputs()))
    if not prompt.startswith(b"{"):
        return Refusal(say.refusal(say.invalid_request("The prompt is not a JSON object.")))
    number = _number(body.number)
    is_front = number is None and bool(body.front)
    extra_data = _extra_data(body.extra_data)
    client_id = body.client_id if body.client_id is not None else body.extra_data.get("client_id")
    origin = OriginData(number, is_front, _workflow_id(extra_data))
    submission = Submission(
        WorkflowRequest(),
        priority=priority_of(number, is_front=is_front),
        origin=Origin(
            SURFACE,
            _client_id(client_id),
            encode(origin),
            alias=_prompt_id(body.prompt_id),
        ),
        extra_data=encode(extra_data) if extra_data else None,
        secrets={
            key: value
            for key, value in body.extra_data.items()
            if key in SECRETS and isinstance(value, str)
        },
    )
    return _Wanted(prompt, _targets(body.partial_execution_targets), submission)


def _number(given: Any) -> float | None:
    if given is msgspec.UNSET:
        return None
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise MalformedRequest(f"number must be a number: {error}.") from error
    if not math.isfinite(number):
        raise MalformedRequest(f"number must be a finite number, not {number}.")
    return number


def _client_id(given: Any) -> str | None:
    if given is None or given == "":
        return None
    text = str(given)
    if len(text) > LONGEST_ID or not text.isprintable():
        raise MalformedRequest(f"client_id has {LONGEST_ID} printable characters at most.")
    return text


def _prompt_id(given: Any) -> str | None:
    if given is None:
        return None
    text = str(given)
    if not _PROMPT_ID.fullmatch(text):
        raise MalformedRequest(
            "prompt_id has 1 to 200 letters, digits and signs of '._:-', such as a UUID."
        )
    return text


def _targets(given: Any) -> Sequence[str] | None:
    if given is None:
        return None
    if not isinstance(given, list):
        raise MalformedRequest("partial_execution_targets must be a list of node ids.")
    return [str(each) for each in given]


def _extra_data(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise MalformedRequest("extra_data must be a JSON object.")
    method = given.get("preview_method", "default")
    if not isinstance(method, str) or method not in PREVIEW_METHODS:
        raise MalformedRequest(
            f"extra_data.preview_method is one of {', '.join(sorted(PREVIEW_METHODS))}."
        )
    if not isinstance(given.get("extra_pnginfo"), dict | None):
        raise MalformedRequest("extra_data.extra_pnginfo must be a JSON object.")
    left_out = SECRETS | OWN_NAMES | ({"preview_method"} if method == "default" else set())
    return {key: value for key, value in given.items() if key not in left_out}


def _workflow_id(extra_data: dict[str, Any]) -> str | None:
    """The id that the editor gave the workflow; clients may send anything in its place."""
    info = extra_data.get("extra_pnginfo")
    workflow = info.get("workflow") if isinstance(info, dict) else None
    found = workflow.get("id") if isinstance(workflow, dict) else None
    return str(found)[:LONGEST_ID] if isinstance(found, str | int) else None
