"""JSON on the wire, and the forms of WebSocket messages."""

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

PREVIEW = 1
TEXT = 3
PREVIEW_WITH_METADATA = 4
IMAGE_CODES = {"jpeg": 1, "png": 2}


def _to_plain(value: Any) -> Any:
    """What a node shows may be a number of NumPy, or of a class of the node's own."""
    return value.item() if isinstance(value, np.generic) else str(value)


_encoder = msgspec.json.Encoder(enc_hook=_to_plain)


def encode_json(value: Any) -> bytes:
    """Strict JSON: NaN becomes null, which ComfyUI would send bare."""
    try:
        return _encoder.encode(value)
    except (OverflowError, UnicodeEncodeError):
        # Integers beyond 64 bits and lone surrogates come from clients' own prompts.
        return _encode_leniently(value).encode()


def list_parts(items: Iterable[bytes]) -> Iterator[bytes]:
    """A JSON list of what is JSON already."""
    opening = b"["
    for item in items:
        yield opening
        yield item
        opening = b","
    yield b"[]" if opening == b"[" else b"]"


def object_parts(members: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[bytes]:
    """A JSON object of values that are JSON already, each in parts."""
    opening = b"{"
    for key, value in members:
        yield b"%b%b:" % (opening, encode_json(key))
        yield from value
        opening = b","
    yield b"{}" if opening == b"{" else b"}"


def _encode_leniently(value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False, default=_to_plain)
    except ValueError:
        with_constants = json.dumps(value, default=_to_plain)
        return json.dumps(json.loads(with_constants, parse_constant=lambda _: None))


@dataclass(frozen=True, slots=True)
class TextMessage:
    """`droppable`: a slow client can do without it, a later one says more."""

    text: str
    droppable: bool = False

    @property
    def size(self) -> int:
        return len(self.text)


@dataclass(frozen=True, slots=True)
class PreviewMessage:
    """A picture in both forms; which one is sent depends on what the client negotiated."""

    plain: bytes
    with_metadata: bytes
    droppable: bool = True

    @property
    def size(self) -> int:
        return len(self.with_metadata)


@dataclass(frozen=True, slots=True)
class BinaryMessage:
    content: bytes
    droppable: bool = True

    @property
    def size(self) -> int:
        return len(self.content)


Message = TextMessage | PreviewMessage | BinaryMessage


def text_message(kind: str, data: Mapping[str, Any], *, droppable: bool = False) -> TextMessage:
    return TextMessage(encode_json({"type": kind, "data": data}).decode(), droppable)


def preview_message(
    image: bytes, image_format: str, metadata: Mapping[str, Any], *, droppable: bool = True
) -> PreviewMessage:
    described = encode_json({**metadata, "image_type": f"image/{image_format}"})
    return PreviewMessage(
        plain=struct.pack(">II", PREVIEW, IMAGE_CODES[image_format]) + image,
        with_metadata=struct.pack(">II", PREVIEW_WITH_METADATA, len(described)) + described + image,
        droppable=droppable,
    )


def shown_text_message(node_id: str, text: str) -> BinaryMessage:
    name = node_id.encode("utf-8", "replace")
    content = text.encode("utf-8", "replace")
    return BinaryMessage(struct.pack(">II", TEXT, len(name)) + name + content)
