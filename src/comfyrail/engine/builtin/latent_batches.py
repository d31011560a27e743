"""Nodes that take batches and videos of latents apart and put them together."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.builtin.images import LARGEST_SIDE
from comfyrail.engine.builtin.latent_sizes import PIXELS_OF_ONE, latent_axis
from comfyrail.engine.builtin.mask_channels import repeat_to_length
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import node
from comfyrail.engine.latent_values import Latent, batch_indices, fitted_to, with_samples
from comfyrail.engine.pixels import FloatArray
from comfyrail.workflow.catalog import OutputPort

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


class _Batch(NamedTuple):
    samples: FloatArray
    masks: FloatArray
    indices: list[int]

    def part(self, start: int, stop: int | None = None) -> "_Batch":
        chosen = slice(start, stop)
        return _Batch(self.samples[chosen], self.masks[chosen], self.indices[chosen])

    def joined(self, other: "_Batch") -> "_Batch":
        return _Batch(
            np.concatenate((self.samples, other.samples)),
            np.concatenate((self.masks, other.masks)),
            self.indices + other.indices,
        )

    def as_latent(self) -> dict[str, Any]:
        latent = {"samples": self.samples.copy(), "batch_index": list(self.indices)}
        is_plain = self.masks.mean() == 1.0
        return latent if is_plain else {**latent, "noise_mask": self.masks.copy()}


@node(
    "RebatchLatents",
    required={
        "latents": _LATENT,
        "batch_size": ("INT", {"default": 1, "min": 1, "max": 4096}),
    },
    outputs=(OutputPort("LATENT", "LATENT", is_list=True),),
    category=_CATEGORY,
    display_name="Rebatch Latents",
    schema="v3",
    takes_lists=True,
)
def rebatch_latents(latents: list[Latent], batch_size: list[int]) -> tuple[list[Any]]:
    """All latents of a list of batches, in batches of this size; other sizes start a new batch.

    As in ComfyUI, of the latents before a change of size only one batch is kept.
    """
    size = batch_size[0]
    made: list[_Batch] = []
    held: _Batch | None = None
    count = 0
    for latent in latents:
        batch = _as_batch(latent, count)
        count += len(batch.indices)
        if held is None:
            held = batch
        elif batch.samples.shape[-2:] != held.samples.shape[-2:]:
            made.append(held.part(0, size))
            held = batch
        else:
            held = held.joined(batch)
        if len(held.samples) > size:
            whole = len(held.samples) // size * size
            made += [held.part(start, start + size) for start in range(0, whole, size)]
            held = held.part(whole) if whole < len(held.samples) else None
    if held is not None:
        made.append(held.part(0, size))
    return ([batch.as_latent() for batch in made],)


def _as_batch(latent: Latent, offset: int) -> _Batch:
    samples: FloatArray = latent["samples"]
    count, _, height, width = samples.shape
    masks: FloatArray | None = latent.get("noise_mask")
    if masks is None:
        sides = (height * PIXELS_OF_ONE, width * PIXELS_OF_ONE)
        check_room_for((count, *sides))
        masks = np.ones((count, 1, *sides), np.float32)
    if len(masks) < count:
        masks = repeat_to_length(masks, count)
    known = latent.get("batch_index")
    indices = list(range(offset, offset + count)) if known is None else list(known)
    return _Batch(samples, masks, indices)


NODES = (
    latent_from_batch,
    repeat_latent_batch,
    batch_two_latents,
    set_seed_behavior,
    cut_latent_to_batch,
    replace_video_frames,
    trim_video,
    rebatch_latents,
)
