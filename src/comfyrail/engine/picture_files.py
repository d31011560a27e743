"""Read pictures from files, as far as they can be read, with the results of ComfyUI's loaders."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from PIL import Image, ImageFile, ImageOps, ImageSequence

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

# Pillow has one such switch for the whole process.
_tolerance = threading.Lock()


def open_picture(path: Path) -> Image.Image:
    """The picture; its pixels are read when they are needed. The caller closes it."""
    return _tolerating_gaps(Image.open, path)


def upright(picture: Image.Image) -> Image.Image:
    """The picture turned as its EXIF says. What a file cut short lacks is black or grey."""
    return _tolerating_gaps(ImageOps.exif_transpose, picture)


def frames_of(picture: Image.Image) -> Iterator[Image.Image]:
    """The frames of an animation, one after the other; each is valid until the next is taken."""
    if picture.format == "MPO":
        # It holds other views of the same picture, not an animation.
        yield picture
    else:
        yield from ImageSequence.Iterator(picture)


def to_mode(picture: Image.Image, mode: str) -> Image.Image:
    """The picture as RGB or RGBA; 32-bit greys are taken for 16-bit ones."""
    if picture.mode == "I":
        picture = picture.point(lambda value: value * (1 / 255))
    elif picture.mode == "P" and isinstance(picture.info.get("transparency"), bytes):
        # The same colours; Pillow warns of the straight way.
        picture = picture.convert("RGBA")
    return picture.convert(mode)


def _tolerating_gaps(read: Callable[[_Given], _Made], given: _Given) -> _Made:
    try:
        return read(given)
    except (OSError, ValueError):
        with _tolerance:
            before = ImageFile.LOAD_TRUNCATED_IMAGES
            ImageFile.LOAD_TRUNCATED_IMAGES = True
            try:
                return read(given)
            finally:
                ImageFile.LOAD_TRUNCATED_IMAGES = before
