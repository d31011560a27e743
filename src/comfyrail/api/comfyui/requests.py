"""Bodies of requests as ComfyUI reads them: JSON of any content type, sometimes none at all."""

from typing import Any

import msgspec
from starlette.requests import Request

from comfyrail.api.messages import decode_json, read_limited
from comfyrail.errors import MalformedRequest

LARGEST_PROMPT = 32 << 20
LARGEST_COMMAND = 4 << 20
LONGEST_ID = 255

_decode_object = msgspec.json.Decoder(dict[str, Any])


async def read_object(request: Request, *, may_be_empty: bool = False) -> dict[str, Any]:
    """Raises MalformedRequest for what is no JSON object."""
    content = await read_limited(request, LARGEST_COMMAND)
    if may_be_empty and not content.strip():
        return {}
    return decode_json(content, _decode_object)


def ids_in(body: dict[str, Any], name: str) -> list[str]:
    """A list of ids; none where it is not given."""
    given = body.get(name, [])
    if not isinstance(given, list):
        raise MalformedRequest(f"{name} must be a list of ids.")
    return [str(each)[: LONGEST_ID + 1] for each in given]


def index_in(request: Request, name: str) -> int | None:
    """A whole number of the query; None where it is not given."""
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        return max(-(1 << 31), min(int(text[:20]), 1 << 31))
    except ValueError as error:
        raise MalformedRequest(f"{name} must be an integer, not {text[:40]!r}.") from error
