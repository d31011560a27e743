"""Opening pictures that may be made to do harm: as what they are, and none that is too large."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from PIL import Image, ImageFile, ImageOps, PngImagePlugin

from comfyrail.results.image_sizes import size_of_image
from comfyrail.results.media.unusable import Unusable

MOST_PIXELS = 1 << 28
FORMATS = {
    "image/png": "PNG",
    "image/apng": "PNG",
    "image/jpeg": "JPEG",
    "image/webp": "WEBP",
    "image/gif": "GIF",
    "image/bmp": "BMP",
    "image/tiff": "TIFF",
    "image/avif": "AVIF",
}
"""Pillow's words for what is read at all. It knows formats that call other programs."""
_WHITE = (255, 255, 255)

Image.MAX_IMAGE_PIXELS = MOST_PIXELS


def _bear_long_texts(name: str) -> None:
    """Pillow gives up a PNG whose texts are long. They are not read by it here: it leaves them."""
    read: Callable[[Any, int, int], bytes] = getattr(PngImagePlugin.PngStream, name)

    def read_or_leave(stream: Any, position: int, length: int) -> bytes:
        start = stream.fp.tell()
        try:
            return read(stream, position, length)
        except ValueError:
            stream.fp.seek(start)
            return bytes(ImageFile._safe_read(stream.fp, length))  # noqa: SLF001 - as Pillow does

    setattr(PngImagePlugin.PngStream, name, read_or_leave)


for _name in ("chunk_tEXt", "chunk_zTXt", "chunk_iTXt"):
    _bear_long_texts(_name)


@contextmanager
def opened(path: Path, content_type: str) -> Iterator[Image.Image]:
    """The picture, with its header read. Raises Unusable."""
    format_name = FORMATS.get(content_type)
    if format_name is None or format_name not in _known_formats():
        raise Unusable(f"Pictures of the type {content_type} cannot be read here.")
    with path.open("rb") as file:
        if not file.read(1):
            raise Unusable("It is empty.")
        file.seek(0)
        _check_size(size_of_image(content_type, file))
        file.seek(0)
        with Image.open(file, formats=[format_name]) as picture:
            _check_size(picture.size)
            yield picture


def _known_formats() -> frozenset[str]:
    """An older Pillow has no AVIF."""
    Image.init()
    return frozenset(Image.OPEN)


def _check_size(size: tuple[int, int] | None) -> None:
    if size is not None and size[0] * size[1] > MOST_PIXELS:
        raise Unusable(
            f"It says that it is {size[0]} by {size[1]} pixels large: that is more than is "
            "unpacked here."
        )


def upright(picture: Image.Image) -> Image.Image:
    """Turned as its EXIF says."""
    return ImageOps.exif_transpose(picture)


def plain(picture: Image.Image) -> Image.Image:
    """The picture in 8 bits a channel, as RGB or RGBA."""
    if picture.mode.startswith("I") or picture.mode == "F":
        picture = _eight_bits(picture)
    wanted = "RGBA" if picture.has_transparency_data else "RGB"
    if picture.mode == wanted:
        return picture
    # By way of RGBA: Pillow warns of the straight one where a palette's colours have alpha.
    return (
        picture.convert("RGBA").convert(wanted) if picture.mode == "P" else picture.convert(wanted)
    )


def on_white(picture: Image.Image) -> Image.Image:
    """The picture without alpha: what is transparent is white."""
    picture = plain(picture)
    if picture.mode == "RGB":
        return picture
    ground = Image.new("RGB", picture.size, _WHITE)
    ground.paste(picture, mask=picture.getchannel("A"))
    return ground


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Greys of more than 8 bits. Pillow's own way cuts off what is brighter than 255."""
    wide = picture.convert("F")
    _, brightest = cast("tuple[float, float]", wide.getextrema())
    if picture.mode.startswith("I;16") or brightest > 255:
        scale = 1 / 257
    else:
        scale = 255.0 if picture.mode == "F" and brightest <= 1 else 1.0
    return wide.point(lambda value: value * scale + 0.0).convert("L")
