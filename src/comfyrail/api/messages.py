"""Reading and writing JSON bodies."""

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.body_faults import explain
from comfyrail.errors import MalformedRequest, PayloadTooLarge, UnsupportedMediaType

BODY_LIMIT = 10 << 20

# What the decoder takes for the end of the text.
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")

Body = TypeVar("Body")

_encode = msgspec.json.Encoder().encode


def encode(value: Any) -> bytes:
    return _encode(value)


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(_encode(value), status, headers, "application/json")


async def read_json(
    request: Request, decoder: msgspec.json.Decoder[Body], limit: int = BODY_LIMIT
) -> Body:
    """The request's body, checked against its type. Raises what the client should be told."""
    return decode_json(await read_json_text(request, limit), decoder)


async def read_optional_json(
    request: Request, decoder: msgspec.json.Decoder[Body], default: Body
) -> tuple[bytes, Body]:
    """As `read_json`, with the text; the default where the request has no body."""
    if not content_type(request) and not (content := await read_limited(request, BODY_LIMIT)):
        return content, default
    content = await read_json_text(request)
    return content, decode_json(content, decoder)


async def read_json_text(request: Request, limit: int = BODY_LIMIT) -> bytes:
    """The body of a request that says that it is JSON."""
    kind = content_type(request)
    if kind != "application/json" and not kind.endswith("+json"):
        raise UnsupportedMediaType(
            f"Send JSON with the header 'Content-Type: application/json' (got {kind or 'none'})."
        )
    return await read_limited(request, limit)


def decode_json(content: bytes, decoder: msgspec.json.Decoder[Body]) -> Body:
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        message, details = explain(error, decoder.type)
        raise MalformedRequest(message, details=details) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedRequest(f"The request body is not JSON: {_why(error, content)}.") from error
    except RecursionError as error:
        raise MalformedRequest("The request body is nested too deeply.") from error


def _why(error: Exception, content: bytes) -> str:
    said = str(error).rstrip(".")
    if "truncated" in said and _HALF_CHARACTER.search(content):
        return "it has half a character (a lone surrogate)"
    return said


def announced_size(request: Request) -> int | None:
    """The size of the body as its header says, None where it does not."""
    announced = request.headers.get("content-length", "")
    return int(announced) if announced.isascii() and announced.isdigit() else None


def content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_content_type(request: Request, *wanted: str) -> None:
    """Raise UnsupportedMediaType unless the body is announced as one of these."""
    kind = content_type(request)
    if kind not in wanted:
        raise UnsupportedMediaType(
            f"Send the header 'Content-Type: {' or '.join(wanted)}' (got {kind or 'none'})."
        )


async def read_body(request: Request, limit: int, *wanted: str) -> bytes:
    """A body that is no JSON. Raises what the client should be told."""
    check_content_type(request, *wanted)
    return await read_limited(request, limit)


async def read_limited(request: Request, limit: int) -> bytes:
    announced = announced_size(request)
    if announced is not None and announced > limit:
        raise _too_large(limit)
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > limit:
            raise _too_large(limit)
    return bytes(content)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"The request body is larger than {limit >> 20} MiB.", details={"limit": limit}
    )
