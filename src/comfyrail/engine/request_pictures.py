"""Pictures made for one request: previews, single channels, masks put into an image."""

import io
from pathlib import Path
from typing import IO

from PIL import Image, UnidentifiedImageError

from comfyrail.errors import MalformedRequest

PREVIEW_FORMATS = ("webp", "jpeg")
DEFAULT_QUALITY = 90
WEBP_EFFORT = 1
LONGEST_QUALITY = 4


def make_preview(path: Path, wish: str) -> tuple[bytes, str]:
    """The image as `webp` or `jpeg`, quality after a semicolon: `webp;80`. And its type."""
    wanted, _, quality_text = wish.partition(";")
    image_format = wanted if wanted in PREVIEW_FORMATS else "webp"
    quality = _read_quality(quality_text)
    picture = _open(path)
    if image_format == "jpeg":
        picture = picture.convert("RGB")
    content = _encode(picture, image_format, quality=quality, method=WEBP_EFFORT)
    return content, f"image/{image_format}"


def _read_quality(text: str) -> int:
    if not text.isdecimal():
        return DEFAULT_QUALITY
    # Python refuses to read thousands of digits.
    return min(int(text[:LONGEST_QUALITY]), 100)


def make_channel(path: Path, channel: str) -> tuple[bytes, str]:
    """The image without its alpha (`rgb`), or nothing but its alpha (`a`), as PNG."""
    picture = _open(path)
    if channel == "rgb":
        return _encode(picture.convert("RGB"), "png"), "image/png"
    if channel != "a":
        raise MalformedRequest("channel must be rgb, a or rgba.")
    alone = Image.new("RGBA", picture.size)
    alone.putalpha(picture.convert("RGBA").getchannel("A"))
    return _encode(alone, "png"), "image/png"


def put_mask(original: Path, mask_file: IO[bytes]) -> bytes:
    """The original as PNG with the mask's alpha for its own. The two must have one size."""
    picture = _open(original).convert("RGBA")
    mask = _open(mask_file).convert("RGBA")
    if mask.size != picture.size:
        raise MalformedRequest(
            f"The mask is {mask.size}, the image {picture.size}: make them equal."
        )
    picture.putalpha(mask.getchannel("A"))
    return _encode(picture, "png", compress_level=4)


def _open(source: Path | IO[bytes]) -> Image.Image:
    try:
        with Image.open(source) as picture:
            picture.load()
            return picture.copy()
    except (UnidentifiedImageError, OSError, ValueError, Image.DecompressionBombError) as error:
        raise MalformedRequest("This is no picture that can be read.") from error


def _encode(picture: Image.Image, image_format: str, **options: int) -> bytes:
    encoded = io.BytesIO()
    try:
        picture.save(encoded, image_format, **options)
    except (OSError, ValueError) as error:
        raise MalformedRequest(f"The picture cannot be shown as {image_format}.") from error
    return encoded.getvalue()
