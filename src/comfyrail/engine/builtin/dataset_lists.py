"""Nodes on all images and texts of a dataset at once: order, doubles, overview."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.builtin.dataset_images import (
    DATASET,
    SEED,
    fitted_picture,
    from_picture,
    seeded_source,
)
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import node
from comfyrail.engine.pixels import FloatArray, to_picture
from comfyrail.workflow.catalog import OutputPort

_CATEGORY = "dataset/image"
_HASH_SIDE = 8
_IMAGES = OutputPort("images", "IMAGE", is_list=True)
_TEXTS = OutputPort("texts", "STRING", is_list=True)


@node(
    "ShuffleDataset",
    required={"images": ("IMAGE", {}), "seed": SEED},
    outputs=(_IMAGES,),
    category=_CATEGORY,
    display_name="Shuffle Image Dataset",
    takes_lists=True,
    **DATASET,
)
def shuffle_images(images: list[FloatArray], seed: list[int]) -> tuple[list[FloatArray]]:
    return ([images[index] for index in _shuffled(len(images), seed[0])],)


@node(
    "ShuffleImageTextDataset",
    required={"images": ("IMAGE", {}), "texts": ("STRING", {"multiline": False}), "seed": SEED},
    outputs=(_IMAGES, _TEXTS),
    category=_CATEGORY,
    display_name="Shuffle Image-Text Dataset",
    takes_lists=True,
    **DATASET,
)
def shuffle_images_and_texts(
    images: list[FloatArray], texts: list[str], seed: list[int]
) -> tuple[list[FloatArray], list[str]]:
    """Both in the same new order. Texts beyond the images are left off."""
    if len(texts) < len(images):
        raise ValueError(f"{len(images)} images have only {len(texts)} texts.")
    order = _shuffled(len(images), seed[0])
    return [images[index] for index in order], [texts[index] for index in order]


def _shuffled(count: int, seed: int) -> list[int]:
    order: list[int] = seeded_source(seed).permutation(count).tolist()
    return order


@node(
    "ImageDeduplication",
    required={
        "images": ("IMAGE", {}),
        "similarity_threshold": ("FLOAT", {"default": 0.95, "min": 0.0, "max": 1.0}),
    },
    outputs=(_IMAGES,),
    category=_CATEGORY,
    display_name="Image Deduplication",
    takes_lists=True,
    **DATASET,
)
def leave_out_doubles(
    images: list[FloatArray], similarity_threshold: list[float], context: NodeContext
) -> tuple[list[FloatArray]]:
    """Images that are not too much like one before them, by what is brighter than the mean."""
    threshold = similarity_threshold[0]
    kept: list[FloatArray] = []
    patterns = np.empty((len(images), _HASH_SIDE**2), np.bool_)
    for image in images:
        context.check_interrupt()
        pattern = _pattern_of(image)
        differences = np.count_nonzero(patterns[: len(kept)] != pattern, axis=1)
        if not np.any(1.0 - differences / _HASH_SIDE**2 >= threshold):
            patterns[len(kept)] = pattern
            kept.append(image)
    return (kept,)


def _pattern_of(image: FloatArray) -> npt.NDArray[np.bool_]:
    small = fitted_picture(_single(image), _HASH_SIDE, _HASH_SIDE).convert("L")
    greys = np.asarray(small).ravel()
    pattern: npt.NDArray[np.bool_] = greys > greys.mean()
    return pattern


def _single(image: FloatArray) -> FloatArray:
    """The first image of a batch."""
    return image[0] if image.ndim == 4 else image


@node(
    "ImageGrid",
    required={
        "images": ("IMAGE", {}),
        "columns": ("INT", {"default": 4, "min": 1, "max": 20}),
        "cell_width": ("INT", {"default": 256, "min": 32, "max": 2048}),
        "cell_height": ("INT", {"default": 256, "min": 32, "max": 2048}),
        "padding": ("INT", {"default": 4, "min": 0, "max": 50}),
    },
    outputs=(OutputPort("images", "IMAGE"),),
    category=_CATEGORY,
    display_name="Image Grid",
    takes_lists=True,
    **DATASET,
)
def arrange_in_grid(
    *,
    images: list[FloatArray],
    columns: list[int],
    cell_width: list[int],
    cell_height: list[int],
    padding: list[int],
    context: NodeContext,
) -> FloatArray:
    """One image with all of them in rows, each stretched to the size of a cell."""
    singles = [single for image in images for single in (image if image.ndim == 4 else [image])]
    if not singles:
        raise ValueError("There are no images to arrange.")
    across, width, height, gap = columns[0], cell_width[0], cell_height[0], padding[0]
    rows = -(-len(singles) // across)
    size = (across * (width + gap) - gap, rows * (height + gap) - gap)
    check_room_for((size[1], size[0], 3))
    grid = Image.new("RGB", size)
    for index, single in enumerate(singles):
        context.check_interrupt()
        row, column = divmod(index, across)
        cell = to_picture(single).resize((width, height), Image.Resampling.LANCZOS)
        grid.paste(cell, (column * (width + gap), row * (height + gap)))
    return from_picture(grid)[None]


@node(
    "MergeImageLists",
    required={"images": ("IMAGE", {})},
    outputs=(_IMAGES,),
    category=_CATEGORY,
    display_name="Merge Image Lists",
    takes_lists=True,
    **DATASET,
)
def merge_image_lists(images: Sequence[FloatArray]) -> tuple[list[FloatArray]]:
    """The list that comes in; ComfyUI's node does no more."""
    return (list(images),)


NODES = (
    shuffle_images,
    shuffle_images_and_texts,
    leave_out_doubles,
    arrange_in_grid,
    merge_image_lists,
)
