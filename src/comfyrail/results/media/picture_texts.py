"""The graphs that ComfyUI writes into pictures: read from one format, written to another."""

import mmap
from collections.abc import Mapping
from typing import Any, BinaryIO

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from comfyrail.results.media.embedded_texts import NAMES, graphs
from comfyrail.workflow.editor.png_text import png_texts
from comfyrail.workflow.editor.webp_text import exif_texts

LONGEST_JPEG_EXIF = 60_000
"""A segment of a JPEG has 64 KiB at most."""
_MODEL_TAG = 0x0110
"""ComfyUI's: the prompt is in this tag of EXIF, what else there is in the tags below it."""


def texts_of_picture(picture: Image.Image, file: BinaryIO) -> dict[str, str]:
    """The graphs in a picture."""
    if picture.format == "PNG":
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return graphs(png_texts(content, NAMES))  # type: ignore[arg-type] # as bytes
    exif = picture.info.get("exif")
    return graphs(exif_texts(exif, NAMES)) if isinstance(exif, bytes) else {}


def options_with(texts: Mapping[str, str], format_name: str) -> dict[str, Any]:
    """How Pillow is told to write the texts into a picture of this format, as far as it can hold
    them.
    """
    if not texts:
        return {}
    if format_name == "PNG":
        info = PngInfo()
        for name, text in texts.items():
            info.add_text(name, text)
        return {"pnginfo": info}
    content = _exif(texts)
    if format_name == "JPEG" and len(content) > LONGEST_JPEG_EXIF:
        # The one by which it can be run again, if only one fits.
        content = _exif({name: text for name, text in texts.items() if name == "prompt"})
        if len(content) > LONGEST_JPEG_EXIF:
            return {}
    return {"exif": content}


def _exif(texts: Mapping[str, str]) -> bytes:
    exif = Image.Exif()
    for index, (name, text) in enumerate(sorted(texts.items())):
        exif[_MODEL_TAG - index] = f"{name}:{text}"
    return exif.tobytes()
