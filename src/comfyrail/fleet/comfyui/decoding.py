"""JSON as workers write it."""

import json
from typing import Any

import msgspec

from comfyrail.errors import WorkerProtocolError

TEXT_LIMIT = 4000
"""Texts from a worker that are kept and shown are cut to this many characters."""


def decode_reply(content: bytes | str) -> Any:
    """Decode JSON; Python's bare NaN and Infinity, which ComfyUI sends, become null, and halves of
    characters question marks.

    Raises WorkerProtocolError when it is no JSON at all.
    """
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    try:
        value = json.loads(content, parse_constant=lambda _name: None)
        # Halves of characters, which Python's reader takes: nothing could be written with them.
        text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WorkerProtocolError("The worker did not answer JSON.") from error


def shorten(text: str, limit: int = TEXT_LIMIT) -> str:
    return text if len(text) <= limit else text[:limit] + "…"
