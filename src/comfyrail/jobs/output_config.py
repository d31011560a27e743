"""What a submission wants done with its outputs [8.2-8.4]."""

from enum import StrEnum
from typing import Annotated, Literal

import msgspec

ImageFormat = Literal["png", "jpeg", "webp", "avif"]
MOST_UPLOADS = 100
LONGEST_URL = 8192
"""Presigned URLs have their signature in them."""


class Tier(StrEnum):
    """Where an output is in its life; each begins when the one before is over."""

    IMMEDIATE = "immediate"
    STANDARD = "standard"
    ARCHIVE = "archive"
    GLACIER = "glacier"


class UploadTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A URL of the caller's own storage, to which one output is sent.

    `node_id` and `index`: which output it is, as counted among those of that node, or among all.
    """

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_URL)]
    node_id: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    index: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    method: Literal["PUT", "POST"] = "PUT"
    headers: Annotated[dict[str, str], msgspec.Meta(max_length=20)] = {}


class OutputConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`format` and `quality`: into what images are made, as far as they can be. `retention`: the
    last tier that its outputs see; None: as the server is set up. `uploads`: where copies go.
    """

    format: ImageFormat | None = None
    quality: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    retention: Tier | None = None
    uploads: Annotated[list[UploadTarget], msgspec.Meta(max_length=MOST_UPLOADS)] = []


AS_IT_IS = OutputConfig()

encode_output_config = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(OutputConfig).decode


def read_output_config(content: bytes | None) -> OutputConfig:
    """As it was stored."""
    return AS_IT_IS if content is None else _decode(content)
