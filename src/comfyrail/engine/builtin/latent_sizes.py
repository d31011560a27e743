"""Nodes that change the size and the place of latents; results as ComfyUI's.

Sizes and places are given in pixels of the image, of which a latent holds one for each eight.
"""

from typing import Any

import numpy as np

from comfyrail.engine.builtin.images import LARGEST_SIDE
from comfyrail.engine.definition import node
from comfyrail.engine.latent_values import (
    LATENT_METHODS,
    Latent,
    resize_samples,
    with_samples,
)
from comfyrail.engine.pixels import FloatArray

PIXELS_OF_ONE = 8
_SMALLEST_SIDE = 64
_SMALLEST_CROP = 8
_METHODS = (list(LATENT_METHODS),)
_TRANSFORM = "latent/transform"
_ROTATIONS = ("none", "90 degrees", "180 degrees", "270 degrees")
_FLIPS = {"x-axis: vertically": 2, "y-axis: horizontally": 3}


def _pixels(default: int, least: int) -> tuple[str, dict[str, Any]]:
    return ("INT", {"default": default, "min": least, "max": LARGEST_SIDE, "step": 8})


@node(
    "LatentUpscale",
    required={
        "samples": ("LATENT",),
        "upscale_method": _METHODS,
        "width": _pixels(512, 0),
        "height": _pixels(512, 0),
        "crop": (["disabled", "center"],),
    },
    outputs=("LATENT",),
    category="latent",
    display_name="Upscale Latent",
)
def upscale_latent(
    samples: Latent, upscale_method: str, width: int, height: int, crop: str
) -> Latent:
    """A side of 0 follows the other one; both 0 leave the latent as it is."""
    if width == 0 and height == 0:
        return samples
    old: FloatArray = samples["samples"]
    rows, columns = old.shape[-2:]
    if width == 0:
        height = max(_SMALLEST_SIDE, height)
        width = round(columns * height / rows)
    elif height == 0:
        width = max(_SMALLEST_SIDE, width)
        height = round(rows * width / columns)
    new = resize_samples(
        old,
        max(_SMALLEST_SIDE, width) // PIXELS_OF_ONE,
        max(_SMALLEST_SIDE, height) // PIXELS_OF_ONE,
        upscale_method,
        crop=crop == "center",
    )
    return with_samples(samples, new)


@node(
    "LatentUpscaleBy",
    required={
        "samples": ("LATENT",),
        "upscale_method": _METHODS,
        "scale_by": ("FLOAT", {"default": 1.5, "min": 0.01, "max": 8.0, "step": 0.01}),
    },
    outputs=("LATENT",),
    category="latent",
    display_name="Upscale Latent By",
)
def upscale_latent_by(samples: Latent, upscale_method: str, scale_by: float) -> Latent:
    old: FloatArray = samples["samples"]
    height, width = (round(side * scale_by) for side in old.shape[-2:])
    return with_samples(samples, resize_samples(old, width, height, upscale_method, crop=False))


@node(
    "LatentRotate",
    required={"samples": ("LATENT",), "rotation": (list(_ROTATIONS),)},
    outputs=("LATENT",),
    category=_TRANSFORM,
    display_name="Rotate Latent",
)
def rotate_latent(samples: Latent, rotation: str) -> Latent:
    """Turn clockwise."""
    turned = np.rot90(samples["samples"], k=_ROTATIONS.index(rotation), axes=(3, 2))
    return with_samples(samples, turned.copy())


@node(
    "LatentFlip",
    required={"samples": ("LATENT",), "flip_method": (list(_FLIPS),)},
    outputs=("LATENT",),
    category=_TRANSFORM,
    display_name="Flip Latent",
)
def flip_latent(samples: Latent, flip_method: str) -> Latent:
    return with_samples(samples, np.flip(samples["samples"], axis=_FLIPS[flip_method]).copy())


@node(
    "LatentCrop",
    required={
        "samples": ("LATENT",),
        "width": _pixels(512, 64),
        "height": _pixels(512, 64),
        "x": _pixels(0, 0),
        "y": _pixels(0, 0),
    },
    outputs=("LATENT",),
    category=_TRANSFORM,
    display_name="Crop Latent",
)
def crop_latent(samples: Latent, width: int, height: int, x: int, y: int) -> Latent:
    """Cut out a part, which starts early enough to be 64 pixels wide and high."""
    old: FloatArray = samples["samples"]
    rows = _part(old.shape[2], y, height)
    columns = _part(old.shape[3], x, width)
    return with_samples(samples, old[:, :, rows, columns].copy())


def _part(length: int, place: int, size: int) -> slice:
    # In a latent that is too small this is negative and counts from the end, as in ComfyUI.
    start = min(place // PIXELS_OF_ONE, length - _SMALLEST_CROP)
    return slice(start, start + size // PIXELS_OF_ONE)


@node(
    "LatentCut",
    required={
        "samples": ("LATENT", {}),
        "dim": ("COMBO", {"multiselect": False, "options": ["x", "y", "t"]}),
        "index": (
            "INT",
            {"default": 0, "min": -LARGEST_SIDE, "max": LARGEST_SIDE, "step": 1},
        ),
        "amount": ("INT", {"default": 1, "min": 1, "max": LARGEST_SIDE, "step": 1}),
    },
    outputs=("LATENT",),
    category="latent/advanced",
    schema="v3",
)
def cut_latent(samples: Latent, dim: str, index: int, amount: int) -> Latent:
    """A part along one axis; a negative place counts from the end."""
    old: FloatArray = samples["samples"]
    lines = np.moveaxis(old, latent_axis(old, dim), 0)
    start = min(index, len(lines) - 1) if index >= 0 else max(index + len(lines), 0)
    part = lines[start : start + amount]
    return with_samples(samples, np.moveaxis(part, 0, latent_axis(old, dim)).copy())


def latent_axis(samples: FloatArray, name: str) -> int:
    """The axis that x, y or t means. Raises ValueError where there is none."""
    axis = samples.ndim - 1 - "xyt".index(name)
    if axis < 0:
        raise ValueError(f"A latent of {samples.ndim} axes has no axis {name}.")
    return axis


NODES = (
    upscale_latent,
    upscale_latent_by,
    rotate_latent,
    flip_latent,
    crop_latent,
    cut_latent,
)
