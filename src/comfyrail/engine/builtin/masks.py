"""Nodes that make and change masks [B,H,W]; results as ComfyUI's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.builtin.images import LARGEST_SIDE
from comfyrail.engine.definition import node
from comfyrail.engine.morphology import grow
from comfyrail.engine.pixels import FloatArray

_CATEGORY = "mask"
_MASK: tuple[str, dict[str, Any]] = ("MASK", {})
_SIDE = ("INT", {"default": 512, "min": 1, "max": LARGEST_SIDE, "step": 1})
_PLACE = ("INT", {"default": 0, "min": 0, "max": LARGEST_SIDE, "step": 1})
_ONE = np.float32(1)

Operation = Callable[[FloatArray, FloatArray], FloatArray]


@node(
    "SolidMask",
    required={
        "value": ("FLOAT", {"default": 1.0, "min": 0.0, "max": 1.0, "step": 0.01}),
        "width": _SIDE,
        "height": _SIDE,
    },
    outputs=("MASK",),
    category=_CATEGORY,
    schema="v3",
)
def solid_mask(value: float, width: int, height: int) -> FloatArray:
    check_room_for((1, height, width))
    return np.full((1, height, width), value, np.float32)


@node(
    "InvertMask",
    required={"mask": _MASK},
    outputs=("MASK",),
    category=_CATEGORY,
    schema="v3",
    batches="mask",
)
def invert_mask(mask: FloatArray) -> FloatArray:
    return _ONE - mask


@node(
    "CropMask",
    required={"mask": _MASK, "x": _PLACE, "y": _PLACE, "width": _SIDE, "height": _SIDE},
    outputs=("MASK",),
    category=_CATEGORY,
    schema="v3",
    batches="mask",
)
def crop_mask(mask: FloatArray, x: int, y: int, width: int, height: int) -> FloatArray:
    """Cut out a part; what lies outside of the mask is left off."""
    rows, columns = mask.shape[1:]
    if x >= columns or y >= rows:
        raise ValueError(
            f"The part at {x}, {y} lies outside of the mask of {columns} by {rows}. "
            "Nothing would be left of it."
        )
    # A copy, so that a small part does not keep the whole mask in memory.
    return mask[:, y : y + height, x : x + width].copy()


@node(
    "ThresholdMask",
    required={
        "mask": _MASK,
        "value": ("FLOAT", {"default": 0.5, "min": 0.0, "max": 1.0, "step": 0.01}),
    },
    outputs=("MASK",),
    category=_CATEGORY,
    schema="v3",
    batches="mask",
)
def threshold_mask(mask: FloatArray, value: float) -> FloatArray:
    return (mask > np.float32(value)).astype(np.float32)


@node(
    "FeatherMask",
    required={"mask": _MASK, "left": _PLACE, "top": _PLACE, "right": _PLACE, "bottom": _PLACE},
    outputs=("MASK",),
    category=_CATEGORY,
    schema="v3",
    batches="mask",
)
def feather_mask(mask: FloatArray, left: int, top: int, right: int, bottom: int) -> FloatArray:
    """Fade out towards the sides.

    As in ComfyUI, the fading on the right and at the bottom is one pixel off: its faintest step
    falls on the first column or row instead of the last.
    """
    feathered = mask.copy()
    for axis, from_start, from_end in ((2, left, right), (1, top, bottom)):
        lines = np.moveaxis(feathered, axis, 0)
        near, far = min(from_start, len(lines)), min(from_end, len(lines))
        for step in range(near):
            lines[step] *= np.float32((step + 1) / near)
        for step in range(far):
            lines[-step] *= np.float32((step + 1) / far)
    return feathered


@node(
    "GrowMask",
    required={
        "mask": _MASK,
        "expand": ("INT", {"default": 0, "min": -LARGEST_SIDE, "max": LARGEST_SIDE, "step": 1}),
        "tapered_corners": ("BOOLEAN", {"default": True}),
    },
    outputs=("MASK",),
    category=_CATEGORY,
    display_name="Grow Mask",
    schema="v3",
    batches="mask",
)
def grow_mask(mask: FloatArray, expand: int, tapered_corners: bool) -> FloatArray:
    """Grow by pixels, or shrink by a negative number; untapered corners stay square."""
    return grow(mask, expand, diagonally=not tapered_corners)


def _as_bits(mask: FloatArray) -> npt.NDArray[np.bool_]:
    """What counts as set: values that round up, where a half rounds down."""
    bits: npt.NDArray[np.bool_] = np.round(mask).astype(np.bool_)
    return bits


MASK_OPERATIONS: dict[str, Operation] = {
    "multiply": lambda below, above: below * above,
    "add": lambda below, above: below + above,
    "subtract": lambda below, above: below - above,
    "and": lambda below, above: (_as_bits(below) & _as_bits(above)).astype(np.float32),
    "or": lambda below, above: (_as_bits(below) | _as_bits(above)).astype(np.float32),
    "xor": lambda below, above: (_as_bits(below) ^ _as_bits(above)).astype(np.float32),
}


@node(
    "MaskComposite",
    required={
        "destination": _MASK,
        "source": _MASK,
        "x": _PLACE,
        "y": _PLACE,
        "operation": ("COMBO", {"multiselect": False, "options": list(MASK_OPERATIONS)}),
    },
    outputs=("MASK",),
    category=_CATEGORY,
    schema="v3",
)
def composite_masks(
    destination: FloatArray, source: FloatArray, x: int, y: int, operation: str
) -> FloatArray:
    """The source put at a place of the destination; what reaches over the border is left off."""
    if len(source) not in (1, len(destination)):
        raise ValueError(
            f"{len(source)} masks do not fit onto {len(destination)}: give one, or as many."
        )
    result = destination.copy()
    rows, columns = source.shape[1:]
    part = result[:, y : y + rows, x : x + columns]
    above = source[:, : part.shape[1], : part.shape[2]]
    part[...] = MASK_OPERATIONS[operation](part, above)
    return np.clip(result, 0, 1)


NODES = (
    solid_mask,
    invert_mask,
    crop_mask,
    threshold_mask,
    feather_mask,
    grow_mask,
    composite_masks,
)
