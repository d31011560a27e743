"""Nodes on the images of a dataset, one by one; results as ComfyUI's."""

from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.definition import NodeDefinition, define_node
from comfyrail.engine.pixels import FloatArray, to_floats, to_picture
from comfyrail.workflow.catalog import OutputPort

_HALF = np.float32(0.5)
_SIDE = ("INT", {"default": 512, "min": 1, "max": 8192})
_FACTOR = ("FLOAT", {"default": 1.0, "min": 0.0, "max": 2.0})
SEED = ("INT", {"default": 0, "min": 0, "max": 0xFFFFFFFFFFFFFFFF})
DATASET: dict[str, Any] = {"schema": "v3", "experimental": True}

Change = Callable[..., FloatArray]


def _image_node(
    name: str, display_name: str, change: Change, *, batches: str | None = "images", **inputs: Any
) -> NodeDefinition:
    return define_node(
        name,
        change,
        required={"images": ("IMAGE", {}), **inputs},
        outputs=(OutputPort("images", "IMAGE"),),
        category="dataset/image",
        display_name=display_name,
        batches=batches,
        **DATASET,
    )


def _resize_by_shorter_edge(images: FloatArray, shorter_edge: int) -> FloatArray:
    height, width = images.shape[1:3]
    if width < height:
        return _resized(images, shorter_edge, int(height * (shorter_edge / width)))
    return _resized(images, int(width * (shorter_edge / height)), shorter_edge)


def _resize_by_longer_edge(images: FloatArray, longer_edge: int) -> FloatArray:
    height, width = images.shape[1:3]
    if width > height:
        return _resized(images, longer_edge, int(height * (longer_edge / width)))
    return _resized(images, int(width * (longer_edge / height)), longer_edge)


def _resized(images: FloatArray, width: int, height: int) -> FloatArray:
    if width < 1 or height < 1:
        raise ValueError(
            f"An image of {images.shape[2]} by {images.shape[1]} would vanish at this size. "
            "Use more."
        )
    check_room_for((len(images), height, width, images.shape[-1]))
    return np.stack([from_picture(fitted_picture(image, width, height)) for image in images])


def fitted_picture(image: FloatArray, width: int, height: int) -> Image.Image:
    """One image [H,W,C] as a picture of this size."""
    return to_picture(image).resize((width, height), Image.Resampling.LANCZOS)


def from_picture(picture: Image.Image) -> FloatArray:
    """A picture as an image [H,W,C]."""
    pixels = to_floats(picture)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _crop_center(images: FloatArray, width: int, height: int) -> FloatArray:
    top = max(0, (images.shape[1] - height) // 2)
    left = max(0, (images.shape[2] - width) // 2)
    return _cropped(images, left, top, width, height)


def _crop_randomly(images: FloatArray, width: int, height: int, seed: int) -> FloatArray:
    """A part at a place that depends on the seed and the sizes only."""
    source = seeded_source(seed)
    left, top = (
        source.randint(0, room + 1) if room > 0 else 0
        for room in (images.shape[2] - width, images.shape[1] - height)
    )
    return _cropped(images, left, top, width, height)


def _cropped(images: FloatArray, left: int, top: int, width: int, height: int) -> FloatArray:
    """A part at 8 bits: ComfyUI cuts pictures, not floats."""
    parts = images[:, top : top + height, left : left + width]
    return np.stack([from_picture(to_picture(part)) for part in parts])


def seeded_source(seed: int) -> np.random.RandomState:
    """NumPy's old kind of random numbers, which are the same in all versions."""
    return np.random.RandomState(seed % (2**32 - 1))


def _normalize(images: FloatArray, mean: float, std: float) -> FloatArray:
    return (images - np.float32(mean)) / np.float32(std)


def _adjust_brightness(images: FloatArray, factor: float) -> FloatArray:
    adjusted: FloatArray = np.clip(images * np.float32(factor), 0, 1)
    return adjusted


def _adjust_contrast(images: FloatArray, factor: float) -> FloatArray:
    adjusted: FloatArray = np.clip((images - _HALF) * np.float32(factor) + _HALF, 0, 1)
    return adjusted


NODES = (
    _image_node(
        "ResizeImagesByShorterEdge",
        "Resize Images by Shorter Edge",
        _resize_by_shorter_edge,
        shorter_edge=_SIDE,
    ),
    _image_node(
        "ResizeImagesByLongerEdge",
        "Resize Images by Longer Edge",
        _resize_by_longer_edge,
        longer_edge=("INT", {"default": 1024, "min": 1, "max": 8192}),
    ),
    _image_node("CenterCropImages", "Center Crop Images", _crop_center, width=_SIDE, height=_SIDE),
    _image_node(
        "RandomCropImages",
        "Random Crop Images",
        _crop_randomly,
        batches=None,
        width=_SIDE,
        height=_SIDE,
        seed=SEED,
    ),
    _image_node(
        "NormalizeImages",
        "Normalize Images",
        _normalize,
        mean=("FLOAT", {"default": 0.5, "min": 0.0, "max": 1.0}),
        std=("FLOAT", {"default": 0.5, "min": 0.001, "max": 1.0}),
    ),
    _image_node("AdjustBrightness", "Adjust Brightness", _adjust_brightness, factor=_FACTOR),
    _image_node("AdjustContrast", "Adjust Contrast", _adjust_contrast, factor=_FACTOR),
)
