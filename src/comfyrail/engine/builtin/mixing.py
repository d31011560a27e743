"""Nodes that filter images and put two of them together."""

from collections.abc import Callable

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.blurring import blur
from comfyrail.engine.builtin.images import LARGEST_SIDE
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import node
from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.resampling import resize_cropped

_ONE = np.float32(1)
_TWO = np.float32(2)

Blend = Callable[[FloatArray, FloatArray], FloatArray]


@node(
    "ImageBlur",
    required={
        "image": ("IMAGE", {}),
        "blur_radius": ("INT", {"default": 1, "min": 1, "max": 31, "step": 1}),
        "sigma": ("FLOAT", {"default": 1.0, "min": 0.1, "max": 10.0, "step": 0.1}),
    },
    outputs=("IMAGE",),
    category="image/postprocessing",
    schema="v3",
    batches="image",
)
def blur_image(
    image: FloatArray, blur_radius: int, sigma: float, context: NodeContext
) -> FloatArray:
    """Blur with a kernel over -1..1, so that `sigma` is in radiuses; borders are mirrored."""
    return blur(image, blur_radius, sigma, context.progress)


@node(
    "ImageCrop",
    required={
        "image": ("IMAGE", {}),
        "width": ("INT", {"default": 512, "min": 1, "max": LARGEST_SIDE, "step": 1}),
        "height": ("INT", {"default": 512, "min": 1, "max": LARGEST_SIDE, "step": 1}),
        "x": ("INT", {"default": 0, "min": 0, "max": LARGEST_SIDE, "step": 1}),
        "y": ("INT", {"default": 0, "min": 0, "max": LARGEST_SIDE, "step": 1}),
    },
    outputs=("IMAGE",),
    category="image/transform",
    display_name="Image Crop",
    schema="v3",
    batches="image",
)
def crop_image(image: FloatArray, width: int, height: int, x: int, y: int) -> FloatArray:
    """Cut out a part; what lies outside of the image is left off, one pixel at least is kept."""
    left = min(x, image.shape[2] - 1)
    top = min(y, image.shape[1] - 1)
    # A copy, so that a small part does not keep the whole image in memory.
    return image[:, top : top + height, left : left + width].copy()


@node(
    "ImageBatch",
    required={"image1": ("IMAGE",), "image2": ("IMAGE",)},
    outputs=("IMAGE",),
    category="image",
    display_name="Batch Images",
    deprecated=True,
)
def batch_images(image1: FloatArray, image2: FloatArray) -> FloatArray:
    """One batch of both; the second takes the size of the first."""
    channels = max(image1.shape[-1], image2.shape[-1])
    first = with_channels(image1, channels)
    second = with_channels(image2, channels)
    if first.shape[1:3] != second.shape[1:3]:
        second = resize_cropped(second, first.shape[2], first.shape[1], "bilinear")
    check_room_for((len(first) + len(second), *first.shape[1:]))
    return np.concatenate((first, second), axis=0)


def _overlay(below: FloatArray, above: FloatArray) -> FloatArray:
    dark = _TWO * below * above
    return np.where(below <= 0.5, dark, _ONE - _TWO * (_ONE - below) * (_ONE - above))


def _soft_light(below: FloatArray, above: FloatArray) -> FloatArray:
    darker = below - (_ONE - _TWO * above) * below * (_ONE - below)
    brighter = below + (_TWO * above - _ONE) * (_soft_light_curve(below) - below)
    return np.where(above <= 0.5, darker, brighter)


def _soft_light_curve(x: FloatArray) -> FloatArray:
    sixteen, twelve, four = np.float32(16), np.float32(12), np.float32(4)
    return np.where(x <= 0.25, ((sixteen * x - twelve) * x + four) * x, np.sqrt(np.abs(x)))


BLEND_MODES: dict[str, Blend] = {
    "normal": lambda _, above: above,
    "multiply": lambda below, above: below * above,
    "screen": lambda below, above: _ONE - (_ONE - below) * (_ONE - above),
    "overlay": _overlay,
    "soft_light": _soft_light,
    "difference": lambda below, above: below - above,
}


@node(
    "ImageBlend",
    required={
        "image1": ("IMAGE", {}),
        "image2": ("IMAGE", {}),
        "blend_factor": ("FLOAT", {"default": 0.5, "min": 0.0, "max": 1.0, "step": 0.01}),
        "blend_mode": ("COMBO", {"multiselect": False, "options": list(BLEND_MODES)}),
    },
    outputs=("IMAGE",),
    category="image/postprocessing",
    schema="v3",
)
def blend_images(
    image1: FloatArray, image2: FloatArray, blend_factor: float, blend_mode: str
) -> FloatArray:
    """The second image over the first, at the first one's size and channels."""
    above = with_channels(image2, image1.shape[-1])
    if image1.shape[1:3] != above.shape[1:3]:
        above = resize_cropped(above, image1.shape[2], image1.shape[1], "bicubic")
    blended = BLEND_MODES[blend_mode](image1, above)
    mixed = image1 * np.float32(1 - blend_factor) + blended * np.float32(blend_factor)
    return np.clip(mixed, 0, 1)


def with_channels(image: FloatArray, channels: int) -> FloatArray:
    """The image with so many channels; added ones are opaque."""
    missing = channels - image.shape[-1]
    if missing <= 0:
        return image[..., :channels]
    opaque = np.ones((*image.shape[:-1], missing), np.float32)
    return np.concatenate((image, opaque), axis=-1)


NODES = (blur_image, crop_image, batch_images, blend_images)
