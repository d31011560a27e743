"""Reading and writing JSON bodies."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.errors import MalformedRequest, PayloadTooLarge, UnsupportedMediaType

BODY_LIMIT = 10 << 20

Body = TypeVar("Body")

_encode = msgspec.json.Encoder().encode


def encode(value: Any) -> bytes:
    return _encode(value)


def json_response(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(_encode(value), status, headers, "application/json")


async def read_json(request: Request, decoder: msgspec.json.Decoder[Body]) -> Body:
    """The request's body, checked against its type. Raises what the client should be told."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise UnsupportedMediaType(
            f"Send JSON with the header 'Content-Type: application/json' (got {kind or 'none'})."
        )
    content = await _read_limited(request)
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise MalformedRequest(f"The request body is not right: {error}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedRequest(f"The request body is not JSON: {error}.") from error
    except RecursionError as error:
        raise MalformedRequest("The request body is nested too deeply.") from error


def announced_size(request: Request) -> int | None:
    """The size of the body as its header says, None where it does not."""
    announced = request.headers.get("content-length", "")
    return int(announced) if announced.isascii() and announced.isdigit() else None


async def _read_limited(request: Request) -> bytes:
    announced = announced_size(request)
    if announced is not None and announced > BODY_LIMIT:
        raise _too_large()
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > BODY_LIMIT:
            raise _too_large()
    return bytes(content)


def _too_large() -> PayloadTooLarge:
    return PayloadTooLarge(
        f"The request body is larger than {BODY_LIMIT >> 20} MiB.", details={"limit": BODY_LIMIT}
    )
