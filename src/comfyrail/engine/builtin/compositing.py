"""Nodes that lay one image over another, or an image on a larger ground."""

import numpy as np
import numpy.typing as npt

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.builtin.images import LARGEST_SIDE
from comfyrail.engine.builtin.mask_channels import repeat_to_length
from comfyrail.engine.definition import node
from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.resampling import resize

_ONE = np.float32(1)
_GREY = np.float32(0.5)
_PLACE = ("INT", {"default": 0, "min": 0, "max": LARGEST_SIDE, "step": 1})
_PADDING = ("INT", {"default": 0, "min": 0, "max": LARGEST_SIDE, "step": 8})


@node(
    "ImageCompositeMasked",
    required={
        "destination": ("IMAGE", {}),
        "source": ("IMAGE", {}),
        "x": _PLACE,
        "y": _PLACE,
        "resize_source": ("BOOLEAN", {"default": False}),
    },
    optional={"mask": ("MASK", {})},
    outputs=("IMAGE",),
    category="image",
    schema="v3",
)
def composite_masked(
    *,
    destination: FloatArray,
    source: FloatArray,
    x: int,
    y: int,
    resize_source: bool,
    mask: FloatArray | None = None,
) -> FloatArray:
    """The source at a place of the destination, where the mask (at the source's size) is set."""
    below, above = _with_equal_channels(destination, source)
    if resize_source:
        above = resize(above, below.shape[2], below.shape[1], "bilinear")
    above = repeat_to_length(above, len(below))
    result = below.copy()
    part = result[:, y : y + above.shape[1], x : x + above.shape[2]]
    rows, columns = part.shape[1:3]
    if rows and columns:
        strength = _strength(mask, above)[:, :rows, :columns]
        part[...] = above[:, :rows, :columns] * strength + part * (_ONE - strength)
    return result


def _with_equal_channels(below: FloatArray, above: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The source takes the destination's channels; alpha that it lacks is opaque."""
    missing = below.shape[-1] - above.shape[-1]
    if missing <= 0:
        return below, above[..., : below.shape[-1]]
    opaque = np.ones((*above.shape[:-1], missing), np.float32)
    return below, np.concatenate((above, opaque), axis=-1)


def _strength(mask: FloatArray | None, above: FloatArray) -> FloatArray:
    if mask is None:
        return np.ones((1, *above.shape[1:3], 1), np.float32)
    resized = resize(mask[..., None], above.shape[2], above.shape[1], "bilinear")
    return repeat_to_length(resized, len(above))


@node(
    "ImagePadForOutpaint",
    required={
        "image": ("IMAGE",),
        "left": _PADDING,
        "top": _PADDING,
        "right": _PADDING,
        "bottom": _PADDING,
        "feathering": ("INT", {"default": 40, "min": 0, "max": LARGEST_SIDE, "step": 1}),
    },
    outputs=("IMAGE", "MASK"),
    category="image",
    display_name="Pad Image for Outpainting",
)
def pad_image_for_outpaint(
    *, image: FloatArray, left: int, top: int, right: int, bottom: int, feathering: int
) -> tuple[FloatArray, FloatArray]:
    """The image on a larger grey ground, and a mask of what was added, faded into the image."""
    count, rows, columns, channels = image.shape
    height, width = rows + top + bottom, columns + left + right
    check_room_for((count, height, width, channels))
    padded = np.full((count, height, width, channels), _GREY, np.float32)
    padded[:, top : top + rows, left : left + columns] = image
    mask = np.ones((height, width), np.float32)
    mask[top : top + rows, left : left + columns] = _fading(
        _distances(rows, top, bottom), _distances(columns, left, right), feathering
    )
    return padded, mask[None]


def _distances(length: int, before: int, after: int) -> npt.NDArray[np.int64]:
    """How far each line is from the nearer side that something was added to."""
    steps = np.arange(length)
    unreached = np.full(length, np.iinfo(np.int64).max)
    return np.minimum(steps if before else unreached, length - steps if after else unreached)


def _fading(
    down: npt.NDArray[np.int64], across: npt.NDArray[np.int64], feathering: int
) -> FloatArray:
    if feathering == 0 or 2 * feathering >= min(len(down), len(across)):
        return np.zeros((len(down), len(across)), np.float32)
    distance = np.minimum(np.minimum(down[:, None], across), feathering)
    strength = (feathering - distance) / feathering
    return (strength * strength).astype(np.float32)


NODES = (composite_masked, pad_image_for_outpaint)
