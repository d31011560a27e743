"""Nodes that bring images to a size and keep their proportions."""

import math

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.builtin.images import LARGEST_SIDE
from comfyrail.engine.definition import node
from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.resampling import RESAMPLING_METHODS, resize, resize_cropped

_MEGAPIXEL = 1024 * 1024
_PADDING_COLOURS = {"white": np.float32(1), "black": np.float32(0)}


@node(
    "ImageScaleToTotalPixels",
    required={
        "image": ("IMAGE", {}),
        "upscale_method": (
            "COMBO",
            {"multiselect": False, "options": list(RESAMPLING_METHODS)},
        ),
        "megapixels": ("FLOAT", {"default": 1.0, "min": 0.01, "max": 16.0, "step": 0.01}),
        "resolution_steps": ("INT", {"default": 1, "min": 1, "max": 256}),
    },
    outputs=("IMAGE",),
    category="image/upscaling",
    schema="v3",
    batches="image",
)
def scale_to_total_pixels(
    image: FloatArray, upscale_method: str, megapixels: float, resolution_steps: int
) -> FloatArray:
    """About so many megapixels (of 1024 by 1024), each side a multiple of the steps."""
    height, width = image.shape[1:3]
    factor = math.sqrt(megapixels * _MEGAPIXEL / (width * height))
    new_width, new_height = (
        round(side * factor / resolution_steps) * resolution_steps for side in (width, height)
    )
    return _resized(image, new_width, new_height, upscale_method)


@node(
    "ImageScaleToMaxDimension",
    required={
        "image": ("IMAGE", {}),
        "upscale_method": (
            "COMBO",
            {
                "multiselect": False,
                "options": ["area", "lanczos", "bilinear", "nearest-exact", "bilinear", "bicubic"],
            },
        ),
        "largest_size": ("INT", {"default": 512, "min": 0, "max": LARGEST_SIDE, "step": 1}),
    },
    outputs=("IMAGE",),
    category="image/upscaling",
    schema="v3",
    batches="image",
)
def scale_to_max_dimension(image: FloatArray, upscale_method: str, largest_size: int) -> FloatArray:
    """The longer side gets this length."""
    height, width = image.shape[1:3]
    if height > width:
        return _resized(image, round(width / height * largest_size), largest_size, upscale_method)
    if width > height:
        return _resized(image, largest_size, round(height / width * largest_size), upscale_method)
    return _resized(image, largest_size, largest_size, upscale_method)


@node(
    "ResizeAndPadImage",
    required={
        "image": ("IMAGE", {}),
        "target_width": ("INT", {"default": 512, "min": 1, "max": LARGEST_SIDE, "step": 1}),
        "target_height": ("INT", {"default": 512, "min": 1, "max": LARGEST_SIDE, "step": 1}),
        "padding_color": ("COMBO", {"multiselect": False, "options": list(_PADDING_COLOURS)}),
        "interpolation": (
            "COMBO",
            {
                "multiselect": False,
                "options": ["area", "bicubic", "nearest-exact", "bilinear", "lanczos"],
            },
        ),
    },
    outputs=("IMAGE",),
    category="image/transform",
    schema="v3",
    batches="image",
)
def resize_and_pad_image(
    *,
    image: FloatArray,
    target_width: int,
    target_height: int,
    padding_color: str,
    interpolation: str,
) -> FloatArray:
    """The whole image in the middle of this size, padding around it where it does not fit."""
    count, height, width, channels = image.shape
    check_room_for((count, target_height, target_width, channels))
    factor = min(target_width / width, target_height / height)
    new_width, new_height = int(width * factor), int(height * factor)
    padded = np.full(
        (count, target_height, target_width, channels),
        _PADDING_COLOURS[padding_color],
        np.float32,
    )
    left, top = (target_width - new_width) // 2, (target_height - new_height) // 2
    padded[:, top : top + new_height, left : left + new_width] = _resized(
        image, new_width, new_height, interpolation
    )
    return padded


_KONTEXT_WIDTHS = (672, 688, 720, 752, 800, 832, 880, 944, 1024)
_KONTEXT_HEIGHTS = (1568, 1504, 1456, 1392, 1328, 1248, 1184, 1104, 1024)
KONTEXT_SIZES = tuple(
    sorted(
        {
            size
            for low, high in zip(_KONTEXT_WIDTHS, _KONTEXT_HEIGHTS, strict=True)
            for size in ((low, high), (high, low))
        }
    )
)
"""Sizes of about a megapixel, in steps of 16, that the model FLUX Kontext was trained with."""


@node(
    "FluxKontextImageScale",
    required={"image": ("IMAGE", {})},
    outputs=("IMAGE",),
    category="advanced/conditioning/flux",
    schema="v3",
    batches="image",
)
def scale_for_kontext(image: FloatArray) -> FloatArray:
    """The size of nearest proportions out of KONTEXT_SIZES; what does not fit is cut off."""
    height, width = image.shape[1:3]
    _, new_width, new_height = min(
        (abs(width / height - wide / high), wide, high) for wide, high in KONTEXT_SIZES
    )
    check_room_for((len(image), new_height, new_width, image.shape[-1]))
    return resize_cropped(image, new_width, new_height, "lanczos")


def _resized(image: FloatArray, width: int, height: int, method: str) -> FloatArray:
    if width < 1 or height < 1:
        raise ValueError(
            f"An image of {image.shape[2]} by {image.shape[1]} would vanish at this size. Use more."
        )
    check_room_for((len(image), height, width, image.shape[-1]))
    return resize(image, width, height, method)


NODES = (
    scale_to_total_pixels,
    scale_to_max_dimension,
    resize_and_pad_image,
    scale_for_kontext,
)
