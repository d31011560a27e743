"""Nodes that put any number of images, masks or latents together into one batch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.builtin.dynamic_nodes import define_dynamic_node
from comfyrail.engine.builtin.latent_batches import batch_latents
from comfyrail.engine.builtin.mixing import with_channels
from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.resampling import resize_cropped
from comfyrail.workflow.dynamic_inputs import AUTOGROW


def batch_images(images: Sequence[FloatArray]) -> FloatArray:
    """All images at the size of the first, with the channels of the one that has most."""
    channels = max(image.shape[-1] for image in images)
    height, width = images[0].shape[1:3]
    check_room_for((sum(map(len, images)), height, width, channels))
    fitted = []
    for image in images:
        whole = with_channels(image, channels)
        if whole.shape[1:3] != (height, width):
            whole = resize_cropped(whole, width, height, "bilinear")
        fitted.append(whole)
    return np.concatenate(fitted)


def batch_masks(masks: Sequence[FloatArray]) -> FloatArray:
    """All masks at the size of the first."""
    return batch_images([mask[..., None] for mask in masks])[..., 0]


def _growing(kind: str, batch: Callable[[Sequence[Any]], Any], *, category: str) -> NodeDefinition:
    item = kind.lower()
    listed = f"{item}s"
    template = {
        "input": {"required": {item: (kind, {})}},
        "prefix": item,
        "min": 2,
        "max": 50,
    }

    def run(**inputs: Mapping[str, Any]) -> Any:
        values = list(inputs.get(listed, {}).values())
        if not values:
            raise ValueError(f"No {listed} were given. Link some to {listed}.{item}0 and so on.")
        return batch(values)

    word = listed.capitalize()
    return define_dynamic_node(
        f"Batch{word}Node",
        run,
        required={listed: (AUTOGROW, {"template": template})},
        outputs=(kind,),
        category=category,
        display_name=f"Batch {word}",
        schema="v3",
    )


NODES = (
    _growing("IMAGE", batch_images, category="image"),
    _growing("MASK", batch_masks, category="mask"),
    _growing("LATENT", batch_latents, category="latent"),
)
