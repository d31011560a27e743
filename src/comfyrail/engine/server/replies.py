"""Reading requests and making replies, the same way on every route."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from aiohttp import web

from comfyrail.engine.prompt_errors import invalid_request, refusal
from comfyrail.engine.server.wire import encode_json
from comfyrail.errors import MalformedRequest

LARGEST_BODY_READ_AT_ONCE = 64 << 10
LARGEST_COMMAND = 8 << 20
LARGEST_REPLY_AT_ONCE = 256 << 10
DEEPEST_VALUE = 500
LONGEST_ID = 1_000
SPARE_LEVELS = 200


def json_reply(value: Any, status: int = 200) -> web.Response:
    return encoded_reply(encode_json(value), status)


def encoded_reply(content: bytes, status: int = 200) -> web.Response:
    """A reply that is JSON already."""
    return web.Response(
        body=content, status=status, content_type="application/json", charset="utf-8"
    )


async def long_reply(
    request: web.Request, build: Callable[[], Iterable[bytes]]
) -> web.StreamResponse:
    """A reply that may be long: JSON put together in a thread, and sent a piece at a time."""
    pieces = await asyncio.to_thread(lambda: list(_even_pieces(build())))
    if len(pieces) == 1:
        return encoded_reply(pieces[0])
    response = web.StreamResponse()
    response.content_type = "application/json"
    response.charset = "utf-8"
    response.content_length = sum(map(len, pieces))
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    await response.write_eof()
    return response


def refuse(message: str, status: int = 400) -> web.Response:
    """A refusal in the shape of ComfyUI's, where ComfyUI itself answers a bare 500."""
    return json_reply(refusal(invalid_request(message)), status)


def parse_json(body: bytes) -> Any:
    """Read a body as ComfyUI does: any content type, NaN allowed. Raises MalformedRequest."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedRequest(f"The body is not JSON: {error}") from error
    if body.count(b"[") + body.count(b"{") > DEEPEST_VALUE:
        _check_depth(value)
    return value


async def read_json_object(request: web.Request, *, may_be_empty: bool = False) -> dict[str, Any]:
    """The body as an object. Raises MalformedRequest."""
    body = await request.read()
    if may_be_empty and not body.strip():
        return {}
    if len(body) > LARGEST_COMMAND:
        raise MalformedRequest(f"The body has {len(body)} bytes, {LARGEST_COMMAND} are allowed.")
    if len(body) > LARGEST_BODY_READ_AT_ONCE:
        value = await asyncio.to_thread(parse_json, body)
    else:
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
        return as_index(text)
    except ValueError as error:
        raise MalformedRequest(f"{name} must be an integer, not {text!r}.") from error


def as_index(text: str) -> int:
    """A whole number, brought into the range of what can be a place in a list."""
    return max(-sys.maxsize, min(int(text), sys.maxsize))


def texts_of(value: Any, name: str) -> list[str]:
    """A list of ids. Raises MalformedRequest."""
    if not isinstance(value, list):
        raise MalformedRequest(f"{name} must be a list of ids.")
    return [str(item) for item in value]


def _check_depth(value: Any) -> None:
    """What can just be read cannot be put into a reply, which has levels of its own."""
    for _ in range(SPARE_LEVELS):
        value = [value]
    try:
        encode_json(value)
    except RecursionError as error:
        raise MalformedRequest("The body is nested too deeply.") from error


def _even_pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of about one size, and at least one piece."""
    gathered = bytearray()
    for part in parts:
        for start in range(0, len(part), LARGEST_REPLY_AT_ONCE):
            gathered += part[start : start + LARGEST_REPLY_AT_ONCE]
            if len(gathered) >= LARGEST_REPLY_AT_ONCE:
                yield bytes(gathered)
                gathered.clear()
    yield bytes(gathered)
