"""Nodes that make and change images; results as ComfyUI's."""

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.definition import node
from comfyrail.engine.pixels import FloatArray

LARGEST_SIDE = 16384


@node(
    "EmptyImage",
    required={
        "width": ("INT", {"default": 512, "min": 1, "max": LARGEST_SIDE, "step": 1}),
        "height": ("INT", {"default": 512, "min": 1, "max": LARGEST_SIDE, "step": 1}),
        "batch_size": ("INT", {"default": 1, "min": 1, "max": 4096}),
        "color": (
            "INT",
            {"default": 0, "min": 0, "max": 0xFFFFFF, "step": 1, "display": "color"},
        ),
    },
    outputs=("IMAGE",),
    category="image",
)
def empty_image(width: int, height: int, batch_size: int, color: int) -> FloatArray:
    check_room_for((batch_size, height, width, 3))
    channels = np.array([color >> 16 & 0xFF, color >> 8 & 0xFF, color & 0xFF], np.float32)
    image = np.empty((batch_size, height, width, 3), np.float32)
    image[...] = channels / np.float32(255)
    return image


@node(
    "ImageInvert",
    required={"image": ("IMAGE",)},
    outputs=("IMAGE",),
    category="image",
    display_name="Invert Image",
    batches="image",
)
def invert_image(image: FloatArray) -> FloatArray:
    return np.float32(1.0) - image


NODES = (empty_image, invert_image)
