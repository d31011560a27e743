"""Nodes that combine two latents; results as ComfyUI's."""

from collections.abc import Callable
from typing import Any

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.builtin.latent_sizes import latent_axis
from comfyrail.engine.builtin.mask_channels import repeat_to_length
from comfyrail.engine.definition import NodeDefinition, define_node, node
from comfyrail.engine.latent_values import Latent, fitted_to, resize_samples, with_samples
from comfyrail.engine.pixels import FloatArray

_CATEGORY = "latent/advanced"
_LATENT: tuple[str, dict[str, Any]] = ("LATENT", {})
_PAIR = {"samples1": _LATENT, "samples2": _LATENT}


def _combination(
    name: str, combine: Callable[[FloatArray, FloatArray], FloatArray]
) -> NodeDefinition:
    def run(samples1: Latent, samples2: Latent) -> Latent:
        first, second = _matched(samples1, samples2)
        return with_samples(samples1, combine(first, second))

    return define_node(
        name, run, required=_PAIR, outputs=("LATENT",), category=_CATEGORY, schema="v3"
    )


def _matched(samples1: Latent, samples2: Latent) -> tuple[FloatArray, FloatArray]:
    """The samples of both, the second at the size and in the number of the first."""
    first: FloatArray = samples1["samples"]
    return first, repeat_to_length(fitted_to(samples2["samples"], first), len(first))


@node(
    "LatentMultiply",
    required={
        "samples": _LATENT,
        "multiplier": ("FLOAT", {"default": 1.0, "min": -10.0, "max": 10.0, "step": 0.01}),
    },
    outputs=("LATENT",),
    category=_CATEGORY,
    schema="v3",
)
def multiply_latent(samples: Latent, multiplier: float) -> Latent:
    return with_samples(samples, samples["samples"] * np.float32(multiplier))


@node(
    "LatentInterpolate",
    required={
        **_PAIR,
        "ratio": ("FLOAT", {"default": 1.0, "min": 0.0, "max": 1.0, "step": 0.01}),
    },
    outputs=("LATENT",),
    category=_CATEGORY,
    schema="v3",
)
def interpolate_latents(samples1: Latent, samples2: Latent, ratio: float) -> Latent:
    """A mixture of directions and of lengths; 1 gives the first latent, 0 the second."""
    first, second = _matched(samples1, samples2)
    share, rest = np.float32(ratio), np.float32(1 - ratio)
    first_length, second_length = _lengths(first), _lengths(second)
    mixed = _directions(first, first_length) * share + _directions(second, second_length) * rest
    direction = _directions(mixed, _lengths(mixed))
    return with_samples(samples1, direction * (first_length * share + second_length * rest))


def _lengths(samples: FloatArray) -> FloatArray:
    """[B,H,W]: as in ComfyUI, batches of several fit their latents only by chance."""
    total = np.zeros((len(samples), *samples.shape[2:]), np.float32)
    for channel in range(samples.shape[1]):
        total += samples[:, channel] * samples[:, channel]
    return np.sqrt(total)


def _directions(samples: FloatArray, lengths: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        directions: FloatArray = np.nan_to_num(samples / lengths)
    return directions


@node(
    "LatentConcat",
    required={
        **_PAIR,
        "dim": ("COMBO", {"multiselect": False, "options": ["x", "-x", "y", "-y", "t", "-t"]}),
    },
    outputs=("LATENT",),
    category=_CATEGORY,
    schema="v3",
)
def concatenate_latents(samples1: Latent, samples2: Latent, dim: str) -> Latent:
    """Side by side along an axis; with a minus the second comes first."""
    first: FloatArray = samples1["samples"]
    second = repeat_to_length(samples2["samples"], len(first))
    check_room_for((2, *first.shape))
    pair = (second, first) if dim.startswith("-") else (first, second)
    return with_samples(samples1, np.concatenate(pair, axis=latent_axis(first, dim[-1])))


@node(
    "LatentBlend",
    required={
        "samples1": ("LATENT",),
        "samples2": ("LATENT",),
        "blend_factor": ("FLOAT", {"default": 0.5, "min": 0, "max": 1, "step": 0.01}),
    },
    outputs=("LATENT",),
    category="_for_testing",
    display_name="Latent Blend",
)
def blend_latents(samples1: Latent, samples2: Latent, blend_factor: float) -> Latent:
    """1 gives the first latent, 0 the second."""
    first: FloatArray = samples1["samples"]
    second: FloatArray = samples2["samples"]
    if first.shape != second.shape:
        second = resize_samples(second, first.shape[3], first.shape[2], "bicubic", crop=True)
    mixed = first * np.float32(blend_factor) + second * np.float32(1 - blend_factor)
    return with_samples(samples1, mixed)


NODES = (
    _combination("LatentAdd", lambda first, second: first + second),
    _combination("LatentSubtract", lambda first, second: first - second),
    multiply_latent,
    interpolate_latents,
    concatenate_latents,
    blend_latents,
)
