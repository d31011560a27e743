"""Nodes that turn images and put them side by side."""

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.definition import node
from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.resampling import resize

_CATEGORY = "image/transform"
_FLIPS = {"x-axis: vertically": 1, "y-axis: horizontally": 2}
_ROTATIONS = ("none", "90 degrees", "180 degrees", "270 degrees")
_DIRECTIONS = ("right", "down", "left", "up")
_SPACING_COLOURS = {
    "white": (1, 1, 1),
    "black": (0, 0, 0),
    "red": (1, 0, 0),
    "green": (0, 1, 0),
    "blue": (0, 0, 1),
}


@node(
    "ImageFlip",
    required={
        "image": ("IMAGE", {}),
        "flip_method": ("COMBO", {"multiselect": False, "options": list(_FLIPS)}),
    },
    outputs=("IMAGE",),
    category=_CATEGORY,
    schema="v3",
    batches="image",
)
def flip_image(image: FloatArray, flip_method: str) -> FloatArray:
    return np.flip(image, axis=_FLIPS[flip_method]).copy()


@node(
    "ImageRotate",
    required={
        "image": ("IMAGE", {}),
        "rotation": ("COMBO", {"multiselect": False, "options": list(_ROTATIONS)}),
    },
    outputs=("IMAGE",),
    category=_CATEGORY,
    schema="v3",
    batches="image",
)
def rotate_image(image: FloatArray, rotation: str) -> FloatArray:
    """Turn clockwise."""
    return np.rot90(image, k=_ROTATIONS.index(rotation), axes=(2, 1)).copy()


@node(
    "ImageStitch",
    required={
        "image1": ("IMAGE", {}),
        "direction": (
            "COMBO",
            {"default": "right", "multiselect": False, "options": list(_DIRECTIONS)},
        ),
        "match_image_size": ("BOOLEAN", {"default": True}),
        "spacing_width": ("INT", {"default": 0, "min": 0, "max": 1024, "step": 2}),
        "spacing_color": (
            "COMBO",
            {"default": "white", "multiselect": False, "options": list(_SPACING_COLOURS)},
        ),
    },
    optional={"image2": ("IMAGE", {})},
    outputs=("IMAGE",),
    category=_CATEGORY,
    display_name="Image Stitch",
    schema="v3",
)
def stitch_images(
    *,
    image1: FloatArray,
    direction: str,
    match_image_size: bool,
    spacing_width: int,
    spacing_color: str,
    image2: FloatArray | None = None,
) -> FloatArray:
    """The second image on a side of the first."""
    if image2 is None:
        return image1
    count = max(len(image1), len(image2))
    first, second = _repeat_last(image1, count), _repeat_last(image2, count)
    along = 2 if direction in ("left", "right") else 1
    across = 3 - along
    second = _matched(second, first, across) if match_image_size else second
    side = max(first.shape[across], second.shape[across])
    channels = max(first.shape[-1], second.shape[-1])
    ground = np.float32(spacing_color == "white")
    parts = [
        _with_channels(_padded(each, across, side, ground), channels) for each in (first, second)
    ]
    if spacing_width:
        parts.insert(1, _spacing(parts[0].shape, along, spacing_width, spacing_color))
    return np.concatenate(parts if direction in ("right", "down") else parts[::-1], axis=along)


def _repeat_last(batch: FloatArray, count: int) -> FloatArray:
    return batch[np.minimum(np.arange(count), len(batch) - 1)]


def _matched(image: FloatArray, like: FloatArray, axis: int) -> FloatArray:
    """The image at the other one's height or width, its aspect ratio kept."""
    ratio = image.shape[2] / image.shape[1]
    if axis == 1:
        width, height = int(like.shape[1] * ratio), like.shape[1]
    else:
        width, height = like.shape[2], int(like.shape[2] / ratio)
    check_room_for((len(image), height, width, image.shape[-1]))
    return resize(image, width, height, "lanczos")


def _padded(image: FloatArray, axis: int, side: int, ground: np.float32) -> FloatArray:
    """The image in the middle of the ground up to this side."""
    shape = list(image.shape)
    start, shape[axis] = (side - shape[axis]) // 2, side
    padded = np.full(shape, ground, np.float32)
    np.moveaxis(padded, axis, 0)[start : start + image.shape[axis]] = np.moveaxis(image, axis, 0)
    return padded


def _with_channels(image: FloatArray, channels: int) -> FloatArray:
    missing = channels - image.shape[-1]
    opaque = np.ones((*image.shape[:-1], missing), np.float32)
    return np.concatenate((image, opaque), axis=-1)


def _spacing(shape: tuple[int, ...], axis: int, width: int, colour: str) -> FloatArray:
    sides = list(shape)
    sides[axis] = width + width % 2
    spacing = np.ones(sides, np.float32)
    spacing[..., :3] = _SPACING_COLOURS[colour]
    return spacing


NODES = (flip_image, rotate_image, stitch_images)
