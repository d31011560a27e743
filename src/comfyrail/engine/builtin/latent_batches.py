"""Nodes that take batches and videos of latents apart and put them together."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.builtin.images import LARGEST_SIDE
from comfyrail.engine.builtin.latent_sizes import latent_axis
from comfyrail.engine.builtin.mask_channels import repeat_to_length
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import node
from comfyrail.engine.latent_values import Latent, batch_indices, fitted_to, with_samples
from comfyrail.engine.pixels import FloatArray

_CATEGORY = "latent/batch"
_LATENT: tuple[str, dict[str, Any]] = ("LATENT", {})


@node(
    "LatentFromBatch",
    required={
        "samples": ("LATENT",),
        "batch_index": ("INT", {"default": 0, "min": 0, "max": 63}),
        "length": ("INT", {"default": 1, "min": 1, "max": 64}),
    },
    outputs=("LATENT",),
    category=_CATEGORY,
    display_name="Latent From Batch",
)
def latent_from_batch(samples: Latent, batch_index: int, length: int) -> Latent:
    """Some latents of a batch; a place beyond its end means the last one."""
    old: FloatArray = samples["samples"]
    start = min(batch_index, len(old) - 1)
    part = slice(start, start + length)
    taken = with_samples(samples, old[part].copy())
    mask: FloatArray | None = samples.get("noise_mask")
    if mask is not None and len(mask) > 1:
        longer = repeat_to_length(mask, len(old)) if len(mask) < len(old) else mask
        taken["noise_mask"] = longer[part].copy()
    return {**taken, "batch_index": batch_indices(samples)[part]}


@node(
    "RepeatLatentBatch",
    required={
        "samples": ("LATENT",),
        "amount": ("INT", {"default": 1, "min": 1, "max": 64}),
    },
    outputs=("LATENT",),
    category=_CATEGORY,
    display_name="Repeat Latent Batch",
)
def repeat_latent_batch(samples: Latent, amount: int) -> Latent:
    old: FloatArray = samples["samples"]
    check_room_for((len(old) * amount, *old.shape[1:]))
    repeated = with_samples(samples, _repeated(old, amount))
    mask: FloatArray | None = samples.get("noise_mask")
    if mask is not None and len(mask) > 1:
        check_room_for((len(mask) * amount, *mask.shape[1:]))
        repeated["noise_mask"] = _repeated(mask, amount)
    if "batch_index" in samples:
        indices = batch_indices(samples)
        offset = max(indices) - min(indices) + 1
        repeated["batch_index"] = [
            index + round_ * offset for round_ in range(amount) for index in indices
        ]
    return repeated


def _repeated(values: FloatArray, amount: int) -> FloatArray:
    return np.tile(values, (amount, *(1 for _ in values.shape[1:])))


@node(
    "LatentBatch",
    required={"samples1": _LATENT, "samples2": _LATENT},
    outputs=("LATENT",),
    category=_CATEGORY,
    schema="v3",
    deprecated=True,
)
def batch_two_latents(samples1: Latent, samples2: Latent) -> Latent:
    """One batch of both; the second takes the size of the first."""
    return batch_latents([samples1, samples2])


def batch_latents(latents: Sequence[Latent]) -> Latent:
    """One batch of all; the others take the size of the first, and what else it holds is kept."""
    first: FloatArray = latents[0]["samples"]
    check_room_for((sum(len(each["samples"]) for each in latents), *first.shape[1:]))
    samples = np.concatenate([fitted_to(each["samples"], first) for each in latents])
    indices = [index for each in latents for index in batch_indices(each)]
    return {**with_samples(latents[0], samples), "batch_index": indices}


@node(
    "LatentBatchSeedBehavior",
    required={
        "samples": _LATENT,
        "seed_behavior": (
            "COMBO",
            {"default": "fixed", "multiselect": False, "options": ["random", "fixed"]},
        ),
    },
    outputs=("LATENT",),
    category="latent/advanced",
    schema="v3",
)
def set_seed_behavior(samples: Latent, seed_behavior: str) -> Latent:
    """Whether all latents of a batch get the same noise."""
    if seed_behavior == "random":
        return {key: value for key, value in samples.items() if key != "batch_index"}
    index = samples["batch_index"][0] if "batch_index" in samples else 0
    return {**samples, "batch_index": [index] * len(samples["samples"])}


@node(
    "LatentCutToBatch",
    required={
        "samples": _LATENT,
        "dim": ("COMBO", {"multiselect": False, "options": ["t", "x", "y"]}),
        "slice_size": ("INT", {"default": 1, "min": 1, "max": LARGEST_SIDE, "step": 1}),
    },
    outputs=("LATENT",),
    category="latent/advanced",
    schema="v3",
)
def cut_latent_to_batch(samples: Latent, dim: str, slice_size: int) -> Latent:
    """Slices along an axis, one behind the other as a batch; a rest is left off."""
    old: FloatArray = samples["samples"]
    axis = latent_axis(old, dim)
    if axis < 2:
        return samples
    lines = np.moveaxis(old, axis, 1)
    size = min(slice_size, lines.shape[1])
    whole = lines[:, : lines.shape[1] // size * size]
    slices = whole.reshape(-1, size, *whole.shape[2:])
    return with_samples(samples, np.ascontiguousarray(np.moveaxis(slices, 1, axis)))


@node(
    "ReplaceVideoLatentFrames",
    required={
        "destination": _LATENT,
        "index": (
            "INT",
            {"default": 0, "min": -LARGEST_SIDE, "max": LARGEST_SIDE, "step": 1},
        ),
    },
    optional={"source": _LATENT},
    outputs=("LATENT",),
    category=_CATEGORY,
    schema="v3",
)
def replace_video_frames(
    destination: Latent, index: int, context: NodeContext, source: Latent | None = None
) -> Latent:
    """The source's frames in place of some of the destination's, if all of them fit in.

    As in ComfyUI, the result holds what else the source holds, not the destination.
    """
    if source is None:
        return destination
    old: FloatArray = destination["samples"]
    new: FloatArray = source["samples"]
    start = index + old.shape[2] if index < 0 else index
    if not 0 <= start <= old.shape[2] - new.shape[2]:
        context.logger.warning(
            "frames_do_not_fit", index=index, frames=new.shape[2], room=old.shape[2]
        )
        return destination
    replaced = old.copy()
    replaced[:, :, start : start + new.shape[2]] = new
    return with_samples(source, replaced)


@node(
    "TrimVideoLatent",
    required={
        "samples": _LATENT,
        "trim_amount": ("INT", {"default": 0, "min": 0, "max": 99999}),
    },
    outputs=("LATENT",),
    category="latent/video",
    schema="v3",
)
def trim_video(samples: Latent, trim_amount: int) -> Latent:
    """Leave off frames at the start."""
    return with_samples(samples, samples["samples"][:, :, trim_amount:].copy())


NODES = (
    latent_from_batch,
    repeat_latent_batch,
    batch_two_latents,
    set_seed_behavior,
    cut_latent_to_batch,
    replace_video_frames,
    trim_video,
)
