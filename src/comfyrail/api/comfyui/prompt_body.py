"""The body of POST /prompt: hostile, and as large as anybody likes.

Each part is cut out first and read only when it is known to be small enough.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from comfyrail.api.comfyui.origin import OriginData
from comfyrail.api.comfyui.refusals import Refusal
from comfyrail.api.comfyui.requests import LONGEST_ID
from comfyrail.api.comfyui.words import priority_of
from comfyrail.api.messages import decode_json, encode
from comfyrail.engine import prompt_errors as say
from comfyrail.errors import MalformedRequest, MalformedWorkflow
from comfyrail.jobs.job import Origin
from comfyrail.usecases.checks import WorkflowRequest
from comfyrail.usecases.comfyui_records import SURFACE
from comfyrail.usecases.submit import Submission
from comfyrail.workflow.editor.strict_json import read_json

SECRETS = frozenset({"auth_token_comfy_org", "api_key_comfy_org"})
"""For the worker alone: never on disk."""
OWN_NAMES = frozenset({"comfyrail", "client_id", "create_time"})
PREVIEW_METHODS = frozenset({"default", "none", "auto", "latent2rgb", "taesd"})
LARGEST_FIELD = 1 << 16
LARGEST_TARGETS = 1 << 20
LARGEST_EXTRA_DATA = 4 << 20
MOST_VALUES = 200_000
LARGEST_WITH_NAN = 4 << 20
EMPTY = 100
"""A longer text is no empty object, whatever spaces it has."""

_PROMPT_ID = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_NO_NUMBERS = (b"NaN", b"Infinity")


class _Body(msgspec.Struct):
    """As it comes: ComfyUI takes nearly everything, and passes over names that it does not know."""

    prompt: msgspec.Raw = msgspec.Raw()
    client_id: msgspec.Raw = msgspec.Raw()
    prompt_id: msgspec.Raw = msgspec.Raw()
    number: msgspec.Raw = msgspec.Raw()
    front: msgspec.Raw = msgspec.Raw()
    extra_data: msgspec.Raw = msgspec.Raw()
    partial_execution_targets: msgspec.Raw = msgspec.Raw()


_body = msgspec.json.Decoder(_Body)
_anything: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a client would like to be run."""

    prompt: bytes
    targets: Sequence[str] | None
    submission: Submission


def read_wanted(content: bytes) -> Wanted | Refusal:
    """Raises MalformedRequest for what ComfyUI answers with a bare 500."""
    if len(content) < EMPTY and content.strip() == b"[]":
        return Refusal(say.refusal(say.no_prompt()))
    body = _read_body(content)
    prompt = bytes(body.prompt).strip()
    if not prompt:
        return Refusal(say.refusal(say.no_prompt()))
    if len(prompt) < EMPTY and prompt.translate(None, b" \t\r\n") in {b"[]", b"{}"}:
        return Refusal(say.refusal(say.no_outputs()))
    if not prompt.startswith(b"{"):
        return Refusal(say.refusal(say.invalid_request("The prompt is not a JSON object.")))
    number = _number(body.number)
    is_front = number is None and bool(_field(body.front, "front"))
    given = _given_extra_data(body.extra_data)
    extra_data = _extra_data(given)
    client_id = _field(body.client_id, "client_id")
    submission = Submission(
        WorkflowRequest(),
        priority=priority_of(number, is_front=is_front),
        origin=Origin(
            SURFACE,
            _client_id(given.get("client_id") if client_id is None else client_id),
            encode(OriginData(number, is_front, _workflow_id(extra_data))),
            alias=_prompt_id(_field(body.prompt_id, "prompt_id")),
        ),
        extra_data=encode(extra_data) if extra_data else None,
        secrets={
            key: value for key, value in given.items() if key in SECRETS and isinstance(value, str)
        },
    )
    return Wanted(prompt, _targets(body.partial_execution_targets), submission)


def _read_body(content: bytes) -> _Body:
    try:
        return decode_json(content, _body)
    except MalformedRequest:
        if not any(each in content for each in _NO_NUMBERS) or _is_much(content):
            raise
    return decode_json(_without_nan(content), _body)


def _is_much(content: bytes) -> bool:
    return len(content) > LARGEST_WITH_NAN or _count_values(content) > MOST_VALUES


def _count_values(content: bytes) -> int:
    """About."""
    return content.count(b",") + content.count(b"[") + content.count(b"{")


def _without_nan(content: bytes) -> bytes:
    """Python writes NaN and infinities as they are; the editor, and JSON, have null for them."""
    try:
        return encode(read_json(content, allow_nan=True))
    except MalformedWorkflow as error:
        raise MalformedRequest(f"The request body cannot be read. {error.message}") from error


def _field(raw: msgspec.Raw, name: str, most: int = LARGEST_FIELD) -> Any:
    """None where it is not given."""
    content = bytes(raw)
    if len(content) > most:
        raise MalformedRequest(f"{name} has {len(content):,} bytes; {most:,} at most.")
    return decode_json(content, _anything) if content else None


def _number(raw: msgspec.Raw) -> float | None:
    given = _field(raw, "number")
    if not bytes(raw):
        return None
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise MalformedRequest("number must be a number.") from error
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


def _targets(raw: msgspec.Raw) -> Sequence[str] | None:
    given = _field(raw, "partial_execution_targets", LARGEST_TARGETS)
    if given is None:
        return None
    if not isinstance(given, list):
        raise MalformedRequest("partial_execution_targets must be a list of node ids.")
    return [str(each) for each in given]


def _given_extra_data(raw: msgspec.Raw) -> Mapping[str, Any]:
    content = bytes(raw)
    if not content:
        return {}
    values = _count_values(content)
    if len(content) <= LARGEST_EXTRA_DATA and values > MOST_VALUES:
        raise MalformedRequest(f"extra_data has about {values:,} values; {MOST_VALUES:,} at most.")
    given = _field(raw, "extra_data", LARGEST_EXTRA_DATA)
    if not isinstance(given, dict):
        raise MalformedRequest("extra_data must be a JSON object.")
    return given


def _extra_data(given: Mapping[str, Any]) -> dict[str, Any]:
    method = given.get("preview_method", "default")
    if not isinstance(method, str) or method not in PREVIEW_METHODS:
        raise MalformedRequest(
            f"extra_data.preview_method is one of {', '.join(sorted(PREVIEW_METHODS))}."
        )
    if not isinstance(given.get("extra_pnginfo"), dict | None):
        raise MalformedRequest("extra_data.extra_pnginfo must be a JSON object.")
    left_out = SECRETS | OWN_NAMES | ({"preview_method"} if method == "default" else set())
    return {key: value for key, value in given.items() if key not in left_out}


def _workflow_id(extra_data: Mapping[str, Any]) -> str | None:
    """The id that the editor gave the workflow; clients may send anything in its place."""
    info = extra_data.get("extra_pnginfo")
    workflow = info.get("workflow") if isinstance(info, dict) else None
    found = workflow.get("id") if isinstance(workflow, dict) else None
    return str(found)[:LONGEST_ID] if isinstance(found, str | int) else None
