"""Reading requests and making replies, the same way on every route."""

import json
from typing import Any

from aiohttp import web

from comfyrail.engine.prompt_errors import invalid_request, refusal
from comfyrail.engine.server.wire import encode_json
from comfyrail.errors import MalformedRequest


def json_reply(value: Any, status: int = 200) -> web.Response:
    return web.Response(
        body=encode_json(value), status=status, content_type="application/json", charset="utf-8"
    )


def refuse(message: str, status: int = 400) -> web.Response:
    """A refusal in the shape of ComfyUI's, where ComfyUI itself answers a bare 500."""
    return json_reply(refusal(invalid_request(message)), status)


def parse_json(body: bytes) -> Any:
    """Read a body as ComfyUI does: any content type, NaN allowed. Raises MalformedRequest."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedRequest(f"The body is not JSON: {error}") from error


async def read_json_object(request: web.Request, *, may_be_empty: bool = False) -> dict[str, Any]:
    """The body as an object. Raises MalformedRequest."""
    body = await request.read()
    if may_be_empty and not body.strip():
        return {}
    value = parse_json(body)
    if not isinstance(value, dict):
        raise MalformedRequest("The body is not a JSON object.")
    return value


def whole_number(request: web.Request, name: str) -> int | None:
    """A number of the query, or None. Raises MalformedRequest."""
    text = request.query.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise MalformedRequest(f"{name} must be an integer, not {text!r}.") from error


def texts_of(value: Any, name: str) -> list[str]:
    """A list of ids. Raises MalformedRequest."""
    if not isinstance(value, list):
        raise MalformedRequest(f"{name} must be a list of ids.")
    return [str(item) for item in value]
