"""Nodes that filter images, and their luminance and colour apart."""

from collections.abc import Callable

import numpy as np

from comfyrail.engine.blurring import sharpen
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import node
from comfyrail.engine.morphology import largest_in_rectangle
from comfyrail.engine.pixels import FloatArray
from comfyrail.workflow.catalog import OutputPort

_SHARPEN_FACTOR = 10
_HALF = np.float32(0.5)
_RED, _GREEN, _BLUE = 0.299, 0.587, 0.114
_TO_BLUE, _TO_RED = 0.564, 0.713
_GREEN_OF_RED = np.float32(_RED / _TO_RED / _GREEN)
_GREEN_OF_BLUE = np.float32(_BLUE / _TO_BLUE / _GREEN)

Filter = Callable[[FloatArray, int], FloatArray]


@node(
    "ImageSharpen",
    required={
        "image": ("IMAGE", {}),
        "sharpen_radius": ("INT", {"default": 1, "min": 1, "max": 31, "step": 1}),
        "sigma": ("FLOAT", {"default": 1.0, "min": 0.1, "max": 10.0, "step": 0.01}),
        "alpha": ("FLOAT", {"default": 1.0, "min": 0.0, "max": 5.0, "step": 0.01}),
    },
    outputs=("IMAGE",),
    category="image/postprocessing",
    schema="v3",
    batches="image",
)
def sharpen_image(
    *, image: FloatArray, sharpen_radius: int, sigma: float, alpha: float, context: NodeContext
) -> FloatArray:
    strength = alpha * _SHARPEN_FACTOR
    return np.clip(sharpen(image, sharpen_radius, sigma, strength, context.progress), 0, 1)


def _dilate(image: FloatArray, size: int) -> FloatArray:
    before = (size - 1) // 2
    return _in_planes(image, before, size - 1 - before)


def _erode(image: FloatArray, size: int) -> FloatArray:
    after = (size - 1) // 2
    return -_in_planes(-image, size - 1 - after, after)


def _in_planes(image: FloatArray, before: int, after: int) -> FloatArray:
    planes = largest_in_rectangle(np.moveaxis(image, -1, 1), before, after)
    return np.ascontiguousarray(np.moveaxis(planes, 1, -1))


MORPHOLOGY: dict[str, Filter] = {
    "erode": _erode,
    "dilate": _dilate,
    "open": lambda image, size: _dilate(_erode(image, size), size),
    "close": lambda image, size: _erode(_dilate(image, size), size),
    "gradient": lambda image, size: _dilate(image, size) - _erode(image, size),
    "bottom_hat": lambda image, size: _erode(_dilate(image, size), size) - image,
    "top_hat": lambda image, size: image - _dilate(_erode(image, size), size),
}


@node(
    "Morphology",
    required={
        "image": ("IMAGE", {}),
        "operation": ("COMBO", {"multiselect": False, "options": list(MORPHOLOGY)}),
        "kernel_size": ("INT", {"default": 3, "min": 3, "max": 999, "step": 1}),
    },
    outputs=("IMAGE",),
    category="image/postprocessing",
    display_name="ImageMorphology",
    schema="v3",
    batches="image",
)
def morph_image(image: FloatArray, operation: str, kernel_size: int) -> FloatArray:
    return MORPHOLOGY[operation](image, kernel_size)


@node(
    "ImageRGBToYUV",
    required={"image": ("IMAGE", {})},
    outputs=tuple(OutputPort(name, "IMAGE") for name in "YUV"),
    category="image/batch",
    schema="v3",
    batches="image",
)
def rgb_to_yuv(image: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Luminance and the two differences of colour (those of YCbCr), each as a grey image."""
    red, green, blue = image[..., 0], image[..., 1], image[..., 2]
    luminance = np.float32(_RED) * red + np.float32(_GREEN) * green + np.float32(_BLUE) * blue
    to_blue = (blue - luminance) * np.float32(_TO_BLUE) + _HALF
    to_red = (red - luminance) * np.float32(_TO_RED) + _HALF
    return _as_grey(luminance), _as_grey(to_blue), _as_grey(to_red)


def _as_grey(values: FloatArray) -> FloatArray:
    return np.repeat(values[..., None], 3, axis=-1)


@node(
    "ImageYUVToRGB",
    required={name: ("IMAGE", {}) for name in "YUV"},
    outputs=("IMAGE",),
    category="image/batch",
    schema="v3",
)
def yuv_to_rgb(Y: FloatArray, U: FloatArray, V: FloatArray) -> FloatArray:  # noqa: N803 - ComfyUI's names
    luminance, to_blue, to_red = (each.mean(axis=-1) for each in (Y, U, V))
    to_blue, to_red = to_blue - _HALF, to_red - _HALF
    red = luminance + to_red * np.float32(1 / _TO_RED)
    green = luminance - to_red * _GREEN_OF_RED - to_blue * _GREEN_OF_BLUE
    blue = luminance + to_blue * np.float32(1 / _TO_BLUE)
    image: FloatArray = np.clip(np.stack((red, green, blue), axis=-1), 0, 1)
    return image


NODES = (sharpen_image, morph_image, rgb_to_yuv, yuv_to_rgb)
