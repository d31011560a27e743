"""Nodes that take batches apart and put them together."""

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.builtin.marks import CHEAP
from comfyrail.engine.definition import node
from comfyrail.engine.pixels import FloatArray
from comfyrail.workflow.catalog import OutputPort

_CATEGORY = "image/batch"


@node(
    "ImageFromBatch",
    required={
        "image": ("IMAGE", {}),
        "batch_index": ("INT", {"default": 0, "min": 0, "max": 4095}),
        "length": ("INT", {"default": 1, "min": 1, "max": 4096}),
    },
    outputs=("IMAGE",),
    category=_CATEGORY,
    schema="v3",
)
def image_from_batch(image: FloatArray, batch_index: int, length: int) -> FloatArray:
    """Some images of a batch; a place beyond its end means the last one."""
    start = min(batch_index, len(image) - 1)
    return image[start : start + length].copy()


@node(
    "RepeatImageBatch",
    required={
        "image": ("IMAGE", {}),
        "amount": ("INT", {"default": 1, "min": 1, "max": 4096}),
    },
    outputs=("IMAGE",),
    category=_CATEGORY,
    schema="v3",
)
def repeat_image_batch(image: FloatArray, amount: int) -> FloatArray:
    check_room_for((len(image) * amount, *image.shape[1:]))
    return np.tile(image, (amount, 1, 1, 1))


@node(
    "RebatchImages",
    required={
        "images": ("IMAGE", {}),
        "batch_size": ("INT", {"default": 1, "min": 1, "max": 4096}),
    },
    outputs=(OutputPort("IMAGE", "IMAGE", is_list=True),),
    category=_CATEGORY,
    display_name="Rebatch Images",
    schema="v3",
    takes_lists=True,
)
def rebatch_images(images: list[FloatArray], batch_size: list[int]) -> tuple[list[FloatArray]]:
    """All images of a list of batches, in batches of this size; the last may have fewer."""
    singles = [image[index : index + 1] for image in images for index in range(len(image))]
    size = batch_size[0]
    batches = [
        np.concatenate(singles[start : start + size]) for start in range(0, len(singles), size)
    ]
    return (batches,)


@node(
    "GetImageSize",
    required={"image": ("IMAGE", {})},
    hidden={"unique_id": "UNIQUE_ID"},
    outputs=(
        OutputPort("width", "INT"),
        OutputPort("height", "INT"),
        OutputPort("batch_size", "INT"),
    ),
    category="image",
    display_name="Get Image Size",
    schema="v3",
    **CHEAP,
)
def get_image_size(image: FloatArray, unique_id: str) -> tuple[int, int, int]:  # noqa: ARG001 - a port of ComfyUI's
    count, height, width = image.shape[:3]
    return width, height, count


NODES = (image_from_batch, repeat_image_batch, rebatch_images, get_image_size)
