"""The node that reduces an image to a few colours."""

import numpy as np
import numpy.typing as npt
from PIL import Image

from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import node
from comfyrail.engine.pixels import ByteArray, FloatArray, to_floats

_SPREAD = 512
"""How far ordered dithering reaches with one colour, in 8-bit steps; with more, the less."""

_FAR = 2**31 - 256
_BAYER_ORDERS = {"bayer-2": 2, "bayer-4": 4, "bayer-8": 8, "bayer-16": 16}
DITHERINGS = ("none", "floyd-steinberg", *_BAYER_ORDERS)


@node(
    "ImageQuantize",
    required={
        "image": ("IMAGE", {}),
        "colors": ("INT", {"default": 256, "min": 1, "max": 256, "step": 1}),
        "dither": ("COMBO", {"multiselect": False, "options": list(DITHERINGS)}),
    },
    outputs=("IMAGE",),
    category="image/postprocessing",
    schema="v3",
    batches="image",
)
def quantize_image(image: FloatArray, colors: int, dither: str, context: NodeContext) -> FloatArray:
    """Each image of a batch with a palette of its own."""
    quantized = []
    for index, each in enumerate(image):
        picture = Image.fromarray(_wrapped(each[..., :3]))
        quantized.append(to_floats(_quantize(picture, colors, dither).convert("RGB")))
        context.progress(index + 1, len(image))
    return np.stack(quantized)


def _wrapped(image: FloatArray) -> ByteArray:
    """At 8 bits, where values beyond 0..1 come in again at the other end, as in ComfyUI."""
    levels = np.nan_to_num(image * np.float32(255), posinf=0, neginf=0)
    wrapped: ByteArray = np.clip(levels, -_FAR, _FAR).astype(np.int64).astype(np.uint8)
    return wrapped


def _quantize(picture: Image.Image, colors: int, dither: str) -> Image.Image:
    palette = picture.quantize(colors=colors)
    if dither == "floyd-steinberg":
        return picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)
    if dither in _BAYER_ORDERS:
        picture = _ordered(picture, _BAYER_ORDERS[dither], _count_colours(palette))
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


def _count_colours(picture: Image.Image) -> int:
    return len(picture.getpalette() or ()) // 3


def _ordered(picture: Image.Image, order: int, colours: int) -> Image.Image:
    """The picture with a pattern laid over it, so that near colours come to alternate."""
    pattern = (_bayer_matrix(order) + 0.5) / order**2 - 0.5
    rows, columns = np.arange(picture.height) % order, np.arange(picture.width) % order
    offsets = pattern[rows[:, None], columns] * (_SPREAD / colours)
    shifted = np.clip(np.asarray(picture) + offsets[..., None], 0, 255)
    return Image.fromarray(np.round(shifted).astype(np.uint8))


def _bayer_matrix(order: int) -> npt.NDArray[np.int64]:
    """Bayer's order of thresholds, 0 to order² - 1: each quarter repeats the next smaller one."""
    matrix = np.zeros((1, 1), np.int64)
    while len(matrix) < order:
        finer = 4 * matrix
        matrix = np.block([[finer, finer + 2], [finer + 3, finer + 1]])
    return matrix


NODES = (quantize_image,)
