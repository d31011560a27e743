"""JSON on the wire, and the forms of WebSocket messages."""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

PREVIEW = 1
PREVIEW_WITH_METADATA = 4
IMAGE_CODES = {"jpeg": 1, "png": 2}

_encoder = msgspec.json.Encoder()


def encode_json(value: Any) -> bytes:
    """Strict JSON: NaN becomes null, which ComfyUI would send bare."""
    try:
        return _encoder.encode(value)
    except (OverflowError, UnicodeEncodeError):
        # Integers beyond 64 bits and lone surrogates come from clients' own prompts.
        return json.dumps(value).encode()


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


Message = TextMessage | PreviewMessage


def text_message(kind: str, data: Mapping[str, Any], *, droppable: bool = False) -> TextMessage:
    return TextMessage(encode_json({"type": kind, "data": data}).decode(), droppable)


def preview_message(image: bytes, image_format: str, metadata: Mapping[str, Any]) -> PreviewMessage:
    described = encode_json({**metadata, "image_type": f"image/{image_format}"})
    return PreviewMessage(
        plain=struct.pack(">II", PREVIEW, IMAGE_CODES[image_format]) + image,
        with_metadata=struct.pack(">II", PREVIEW_WITH_METADATA, len(described)) + described + image,
    )
