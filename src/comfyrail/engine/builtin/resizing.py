"""The node that resizes an image or a mask in any of several ways."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.builtin.descriptions import describe_as
from comfyrail.engine.builtin.dynamic_nodes import define_dynamic_node
from comfyrail.engine.builtin.images import LARGEST_SIDE
from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.resampling import RESAMPLING_METHODS, resize, resize_cropped
from comfyrail.workflow.catalog import OutputPort
from comfyrail.workflow.dynamic_inputs import DYNAMIC_COMBO, MATCH_TYPE

_MEGAPIXEL = 1024 * 1024
_TEMPLATE = "input_type"
_SIDE = ("INT", {"default": 512, "min": 0, "max": LARGEST_SIDE, "step": 1})
_CROP = ("COMBO", {"default": "center", "multiselect": False, "options": ["disabled", "center"]})

Choice = Mapping[str, Any]


class _Size(NamedTuple):
    width: int
    height: int


def _by_multiplier(old: _Size, choice: Choice) -> _Size:
    factor = choice["multiplier"]
    return _Size(round(old.width * factor), round(old.height * factor))


def _by_sides(old: _Size, width: int, height: int) -> _Size | None:
    """A side of 0 follows the other one; both 0 change nothing."""
    if width == 0 and height == 0:
        return None
    if width == 0:
        width = max(1, round(old.width * height / old.height))
    elif height == 0:
        height = max(1, round(old.height * width / old.width))
    return _Size(width, height)


def _by_longer_side(old: _Size, choice: Choice) -> _Size:
    side = choice["longer_size"]
    if old.height > old.width:
        return _Size(round(old.width / old.height * side), side)
    if old.width > old.height:
        return _Size(side, round(old.height / old.width * side))
    return _Size(side, side)


def _by_shorter_side(old: _Size, choice: Choice) -> _Size:
    """As in ComfyUI, what is higher than wide becomes a square."""
    side = choice["shorter_size"]
    if old.height < old.width:
        return _Size(round(old.width / old.height * side), side)
    return _Size(side, side)


def _by_total(old: _Size, choice: Choice) -> _Size:
    total = int(choice["megapixels"] * _MEGAPIXEL)
    factor = math.sqrt(total / (old.width * old.height))
    return _Size(round(old.width * factor), round(old.height * factor))


def _by_example(_: _Size, choice: Choice) -> _Size:
    height, width = choice["match"].shape[1:3]
    return _Size(width, height)


_SIZES: dict[str, Callable[[_Size, Choice], _Size | None]] = {
    "scale by multiplier": _by_multiplier,
    "scale dimensions": lambda old, choice: _by_sides(old, choice["width"], choice["height"]),
    "scale longer dimension": _by_longer_side,
    "scale shorter dimension": _by_shorter_side,
    "scale width": lambda old, choice: _by_sides(old, choice["width"], 0),
    "scale height": lambda old, choice: _by_sides(old, 0, choice["height"]),
    "scale total pixels": _by_total,
    "match size": _by_example,
}
_INPUTS: dict[str, dict[str, Any]] = {
    "scale by multiplier": {
        "multiplier": ("FLOAT", {"default": 1.0, "min": 0.01, "max": 8.0, "step": 0.01})
    },
    "scale dimensions": {"width": _SIDE, "height": _SIDE, "crop": _CROP},
    "scale longer dimension": {"longer_size": _SIDE},
    "scale shorter dimension": {"shorter_size": _SIDE},
    "scale width": {"width": _SIDE},
    "scale height": {"height": _SIDE},
    "scale total pixels": {
        "megapixels": ("FLOAT", {"default": 1.0, "min": 0.01, "max": 16.0, "step": 0.01})
    },
    "match size": {"match": ("IMAGE,MASK", {}), "crop": _CROP},
}


def resize_image_or_mask(
    *,
    input: FloatArray,  # noqa: A002 - ComfyUI's name
    resize_type: Choice,
    scale_method: str,
) -> FloatArray:
    """An image [B,H,W,C] or a mask [B,H,W] at another size."""
    is_mask = input.ndim == 3
    image = input[..., None] if is_mask else input
    way = resize_type["resize_type"]
    size = _SIZES[way](_Size(image.shape[2], image.shape[1]), resize_type)
    if size is None:
        return input
    if size.width < 1 or size.height < 1:
        raise ValueError(
            f"{image.shape[2]} by {image.shape[1]} pixels would vanish at this size. Use more."
        )
    check_room_for((len(image), size.height, size.width, image.shape[-1]))
    change = resize_cropped if resize_type.get("crop") == "center" else resize
    resized = change(image, size.width, size.height, scale_method)
    return resized[..., 0] if is_mask else resized


resize_node = describe_as(
    define_dynamic_node(
        "ResizeImageMaskNode",
        resize_image_or_mask,
        required={
            "input": (
                MATCH_TYPE,
                {"template": {"template_id": _TEMPLATE, "allowed_types": "IMAGE,MASK"}},
            ),
            "resize_type": (
                DYNAMIC_COMBO,
                {
                    "options": [
                        {"key": key, "inputs": {"required": inputs}}
                        for key, inputs in _INPUTS.items()
                    ]
                },
            ),
            "scale_method": (
                "COMBO",
                {"default": "area", "multiselect": False, "options": list(RESAMPLING_METHODS)},
            ),
        },
        outputs=(OutputPort("resized", MATCH_TYPE),),
        category="transform",
        display_name="Resize Image/Mask",
        schema="v3",
        batches="input",
    ),
    output_matchtypes=[_TEMPLATE],
)

NODES = (resize_node,)
