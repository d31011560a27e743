"""Nodes that lay one latent over another; results as ComfyUI's."""

import numpy as np

from comfyrail.engine.builtin.images import LARGEST_SIDE
from comfyrail.engine.builtin.latent_sizes import PIXELS_OF_ONE
from comfyrail.engine.builtin.mask_channels import repeat_to_length
from comfyrail.engine.definition import node
from comfyrail.engine.latent_values import Latent, resize_samples, with_samples
from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.resampling import resize

_ONE = np.float32(1)
_PLACE = ("INT", {"default": 0, "min": 0, "max": LARGEST_SIDE, "step": 8})


@node(
    "LatentComposite",
    required={
        "samples_to": ("LATENT",),
        "samples_from": ("LATENT",),
        "x": _PLACE,
        "y": _PLACE,
        "feather": _PLACE,
    },
    outputs=("LATENT",),
    category="latent",
    display_name="Latent Composite",
)
def composite_latents(
    samples_to: Latent, samples_from: Latent, x: int, y: int, feather: int
) -> Latent:
    """One latent at a place of another, faded out on the sides that lie within it."""
    result: FloatArray = samples_to["samples"].copy()
    above: FloatArray = samples_from["samples"]
    left, top = x // PIXELS_OF_ONE, y // PIXELS_OF_ONE
    part = result[:, :, top : top + above.shape[2], left : left + above.shape[3]]
    above = above[:, :, : part.shape[2], : part.shape[3]]
    if part.size == 0:
        return with_samples(samples_to, result)
    steps = feather // PIXELS_OF_ONE
    if steps == 0:
        part[...] = above
        return with_samples(samples_to, result)
    rows, columns, *others = above.shape[2:]
    strength = np.ones((rows, columns, *(1 for _ in others)), np.float32)
    for step in range(steps):
        factor = np.float32((1.0 / steps) * (step + 1))
        if top:
            strength[step : step + 1] *= factor
        if top + rows < result.shape[2]:
            strength[rows - 1 - step : rows - step] *= factor
        if left:
            strength[:, step : step + 1] *= factor
        if left + columns < result.shape[3]:
            strength[:, columns - 1 - step : columns - step] *= factor
    part[...] = above * strength + part * (_ONE - strength)
    return with_samples(samples_to, result)


@node(
    "LatentCompositeMasked",
    required={
        "destination": ("LATENT", {}),
        "source": ("LATENT", {}),
        "x": _PLACE,
        "y": _PLACE,
        "resize_source": ("BOOLEAN", {"default": False}),
    },
    optional={"mask": ("MASK", {})},
    outputs=("LATENT",),
    category="latent",
    schema="v3",
)
def composite_latents_masked(
    *,
    destination: Latent,
    source: Latent,
    x: int,
    y: int,
    resize_source: bool,
    mask: FloatArray | None = None,
) -> Latent:
    """The source at a place of the destination, where the mask (at the source's size) is set."""
    result: FloatArray = destination["samples"].copy()
    above: FloatArray = source["samples"]
    if resize_source:
        above = resize_samples(above, result.shape[-1], result.shape[-2], "bilinear", crop=False)
    above = repeat_to_length(above, len(result))
    left, top = x // PIXELS_OF_ONE, y // PIXELS_OF_ONE
    part = result[..., top : top + above.shape[-2], left : left + above.shape[-1]]
    rows, columns = part.shape[-2:]
    if rows and columns:
        strength = _strength(mask, above)[..., :rows, :columns]
        part[...] = strength * above[..., :rows, :columns] + (_ONE - strength) * part
    return with_samples(destination, result)


def _strength(mask: FloatArray | None, above: FloatArray) -> FloatArray:
    height, width = above.shape[-2:]
    if mask is None:
        return np.ones((height, width), np.float32)
    resized = resize(mask.reshape(-1, *mask.shape[-2:], 1), width, height, "bilinear")
    strength = repeat_to_length(resized[..., 0], len(above))
    return strength.reshape(len(above), *(1 for _ in above.shape[1:-2]), height, width)


@node(
    "SetLatentNoiseMask",
    required={"samples": ("LATENT",), "mask": ("MASK",)},
    outputs=("LATENT",),
    category="latent/inpaint",
    display_name="Set Latent Noise Mask",
)
def set_noise_mask(samples: Latent, mask: FloatArray) -> Latent:
    """Noise, and with it change, only where the mask is set."""
    return {**samples, "noise_mask": mask.reshape(-1, 1, *mask.shape[-2:])}


NODES = (composite_latents, composite_latents_masked, set_noise_mask)
