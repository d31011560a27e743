"""Pictures that nodes show while they run, encoded."""

import io
from typing import Any, NamedTuple

import structlog
from PIL import Image, ImageOps

from comfyrail.engine.events import PreviewFormat

log = structlog.get_logger(__name__)

JPEG_QUALITY = 95
PNG_EFFORT = 1


class EncodedPicture(NamedTuple):
    content: bytes
    format: PreviewFormat
    is_result: bool
    """Whether it is a finished picture in full size rather than a preview."""


def encode_picture(shown: Any) -> EncodedPicture | None:
    """ComfyUI's form of a picture: its format, the image, and the longest side that it may have.

    None for what cannot be shown: a preview is never worth an error.
    """
    try:
        name, image, longest = shown
        return EncodedPicture(*_encode(str(name), image, longest), is_result=_is_result(shown))
    except (TypeError, ValueError, AttributeError, OSError) as error:
        log.debug("preview_not_encoded", error=str(error))
        return None


def _encode(name: str, image: Image.Image, longest: int | None) -> tuple[bytes, PreviewFormat]:
    if longest is not None:
        image = ImageOps.contain(image, (longest, longest), Image.Resampling.BILINEAR)
    encoded = io.BytesIO()
    if name.upper() == "PNG":
        image.save(encoded, "PNG", compress_level=PNG_EFFORT)
        return encoded.getvalue(), "png"
    image.convert("RGB").save(encoded, "JPEG", quality=JPEG_QUALITY)
    return encoded.getvalue(), "jpeg"


def _is_result(shown: Any) -> bool:
    return str(shown[0]).upper() == "PNG" and shown[2] is None
