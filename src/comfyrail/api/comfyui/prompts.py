"""POST /prompt: a graph becomes a job. GET /prompt: how many are open."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.principal import Principal
from comfyrail.api.comfyui.off_loop import off_loop
from comfyrail.api.comfyui.origin import number_of, read_origin
from comfyrail.api.comfyui.prompt_body import Wanted, read_wanted
from comfyrail.api.comfyui.refusals import (
    Refusal,
    outputs_of,
    part_of,
    refusal_of,
    refusal_of_all,
)
from comfyrail.api.comfyui.requests import LARGEST_PROMPT
from comfyrail.api.idempotency import REPLAYED, idempotency_key
from comfyrail.api.messages import encode, json_response, read_limited
from comfyrail.api.services import Services, principal_of, services_of
from comfyrail.engine import prompt_errors as say
from comfyrail.errors import InvalidWorkflow
from comfyrail.usecases.checks import WorkflowRequest
from comfyrail.usecases.submit import Accepted
from comfyrail.validation.limits import EXAMINED_NODES
from comfyrail.workflow.editor.strict_json import read_json
from comfyrail.workflow.node_count import count_many_nodes

LARGEST_KEPT_ERRORS = 1 << 18

router = APIRouter(tags=["ComfyUI"])


@router.post("/prompt")
async def submit_prompt(request: Request) -> Response:
    content = await read_limited(request, LARGEST_PROMPT)
    wanted = await off_loop(len(content), read_wanted, content)
    if isinstance(wanted, Refusal):
        return json_response(wanted.body, 400)
    key = await off_loop(len(content), idempotency_key, request, content)
    wanted = replace(wanted, submission=replace(wanted.submission, idempotency=key))
    services, principal = services_of(request), principal_of(request)
    outcome = await _submit(services, principal, wanted)
    if isinstance(outcome, Refusal):
        return json_response(outcome.body, 400)
    accepted, node_errors = outcome
    origin = wanted.submission.origin
    if origin.key is not None:
        services.comfyui.feeds.announce(principal.tenant, origin.key)
    if accepted.is_replay:
        node_errors = await _errors_of_then(services, principal, accepted)
    reply = {
        "prompt_id": origin.alias or accepted.job_id,
        "number": number_of(read_origin(origin.data), accepted.submitted_at),
        "node_errors": node_errors,
    }
    return json_response(reply, 200, {REPLAYED: "true"} if accepted.is_replay else {})


@router.get("/prompt")
async def count_prompts(request: Request) -> Response:
    count = await services_of(request).comfyui.records.count_open(principal_of(request))
    return json_response({"exec_info": {"queue_remaining": count}})


async def _submit(
    services: Services, principal: Principal, wanted: Wanted
) -> tuple[Accepted, Any] | Refusal:
    """The job, and what is wrong with the outputs that it goes without."""
    if wanted.targets is not None:
        nodes = await off_loop(len(wanted.prompt), count_many_nodes, wanted.prompt, EXAMINED_NODES)
        if nodes is not None:
            return Refusal(say.refusal(say.invalid_request(f"{nodes:,} nodes are too many.")))
        prompt = await _read_prompt(wanted.prompt)
        if isinstance(prompt, Refusal):
            return prompt
        outputs = outputs_of(prompt, services.comfyui.fleet.catalog, frozenset(wanted.targets))
        if not outputs:
            return Refusal(say.refusal(say.no_outputs()))
        wanted = await off_loop(len(wanted.prompt), _part, wanted, prompt, outputs)
    first = await _try(services, principal, wanted)
    if not isinstance(first, Refusal) or not first.good:
        return first if isinstance(first, Refusal) else (first, {})
    # As ComfyUI does: the good outputs are made, and the bad ones left out.
    prompt = await _read_prompt(wanted.prompt)
    if isinstance(prompt, Refusal):
        return prompt
    part = await off_loop(len(wanted.prompt), _part, wanted, prompt, first.good)
    second = await _try(services, principal, _remembering(part, first.node_errors))
    return second if isinstance(second, Refusal) else (second, first.node_errors)


def _part(wanted: Wanted, prompt: Mapping[str, Any], outputs: Sequence[str]) -> Wanted:
    return replace(wanted, prompt=encode(part_of(prompt, outputs)))


def _remembering(wanted: Wanted, node_errors: Any) -> Wanted:
    """For whoever sends the same prompt under the same key again."""
    if len(encode(node_errors)) > LARGEST_KEPT_ERRORS:
        return wanted
    origin = wanted.submission.origin
    data = msgspec.structs.replace(read_origin(origin.data), node_errors=node_errors)
    submission = replace(wanted.submission, origin=replace(origin, data=encode(data)))
    return replace(wanted, submission=submission)


async def _errors_of_then(services: Services, principal: Principal, accepted: Accepted) -> Any:
    found = await services.comfyui.records.submitted(principal, [accepted.job_id])
    submitted = found.get(accepted.job_id)
    return {} if submitted is None else read_origin(submitted.origin).node_errors or {}


async def _try(services: Services, principal: Principal, wanted: Wanted) -> Accepted | Refusal:
    submission = replace(wanted.submission, request=WorkflowRequest(wanted.prompt))
    try:
        return await services.submit(principal, submission)
    except InvalidWorkflow as error:
        too_long = refusal_of_all(error)
        if too_long is not None:
            return too_long
        prompt = await _read_prompt(wanted.prompt)
        if isinstance(prompt, Refusal):
            return prompt
        catalog = services.comfyui.fleet.catalog
        return await off_loop(
            len(wanted.prompt), refusal_of, error, prompt, catalog, wanted.targets
        )


async def _read_prompt(text: bytes) -> dict[str, Any] | Refusal:
    try:
        prompt = await off_loop(len(text), read_json, text)
    except InvalidWorkflow as error:
        return Refusal(say.refusal(say.invalid_request(error.message)))
    if not isinstance(prompt, dict):
        return Refusal(say.refusal(say.invalid_request("The prompt is not a JSON object.")))
    return prompt
