"""Between arrays of floats [B,H,W,C] in 0..1 and 8-bit pictures."""

import io
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image
from PIL.PngImagePlugin import PngInfo

FloatArray: TypeAlias = npt.NDArray[np.float32]
ByteArray: TypeAlias = npt.NDArray[np.uint8]


def to_bytes(values: npt.NDArray[Any]) -> ByteArray:
    """Floats to 8 bits by truncation, not rounding: ComfyUI's results are made so."""
    scaled = np.multiply(values, np.float32(255.0), dtype=np.float32)
    np.clip(scaled, 0.0, 255.0, out=scaled)
    pixels: ByteArray = scaled.astype(np.uint8)
    return pixels


def to_floats(picture: Image.Image) -> FloatArray:
    return np.asarray(picture, dtype=np.float32) / np.float32(255.0)


def to_picture(image: npt.NDArray[Any]) -> Image.Image:
    """One image [H,W,C] as a picture; a single channel is shown as grey."""
    pixels = to_bytes(image)
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


def encode_png(image: npt.NDArray[Any], texts: Mapping[str, str], compress_level: int) -> bytes:
    """One image [H,W,C] as PNG with these text chunks."""
    info = PngInfo()
    for key, text in texts.items():
        info.add_text(key, text)
    encoded = io.BytesIO()
    to_picture(image).save(encoded, "PNG", pnginfo=info, compress_level=compress_level)
    return encoded.getvalue()
