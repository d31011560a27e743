"""The node that divides latents into other batches."""

from typing import Any, NamedTuple

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.builtin.latent_sizes import PIXELS_OF_ONE
from comfyrail.engine.builtin.mask_channels import repeat_to_length
from comfyrail.engine.definition import node
from comfyrail.engine.latent_values import Latent
from comfyrail.engine.pixels import FloatArray
from comfyrail.workflow.catalog import OutputPort


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
        "latents": ("LATENT", {}),
        "batch_size": ("INT", {"default": 1, "min": 1, "max": 4096}),
    },
    outputs=(OutputPort("LATENT", "LATENT", is_list=True),),
    category="latent/batch",
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
    count = len(samples)
    masks: FloatArray | None = latent.get("noise_mask")
    if masks is None:
        sides = tuple(side * PIXELS_OF_ONE for side in samples.shape[2:4])
        check_room_for((count, *sides))
        masks = np.ones((count, 1, *sides), np.float32)
    if len(masks) < count:
        masks = repeat_to_length(masks, count)
    known = latent.get("batch_index")
    indices = list(range(offset, offset + count)) if known is None else list(known)
    return _Batch(samples, masks, indices)


NODES = (rebatch_latents,)
