"""Latents: mappings with `samples` [B,C,…,H,W], and at times `noise_mask` and `batch_index`."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.resampling import resize, resize_cropped
from comfyrail.engine.slerp import resize_bislerp

LATENT_METHODS = ("nearest-exact", "bilinear", "area", "bicubic", "bislerp")

Latent: TypeAlias = Mapping[str, Any]


def empty_latent(*shape: int, **about: Any) -> dict[str, Any]:
    """Zeros of this shape."""
    check_room_for(shape)
    return {"samples": np.zeros(shape, np.float32), **about}


def with_samples(latent: Latent, samples: FloatArray) -> dict[str, Any]:
    """The latent with other samples, and all else as it is."""
    return {**latent, "samples": samples}


def batch_indices(latent: Latent) -> list[int]:
    """The place of each of its samples among those that its noise is made for."""
    known = latent.get("batch_index")
    return list(range(len(latent["samples"]))) if known is None else list(known)


def resize_samples(
    samples: FloatArray, width: int, height: int, method: str, *, crop: bool
) -> FloatArray:
    """Samples at another size; `method` is one of LATENT_METHODS."""
    if samples.ndim < 4:
        raise ValueError(f"A latent of {samples.ndim} axes has no width and height to change.")
    if width < 1 or height < 1:
        columns, rows = samples.shape[-1], samples.shape[-2]
        raise ValueError(f"A latent of {columns} by {rows} would vanish at this size. Use more.")
    frames = np.moveaxis(samples, 1, -3)
    shape = frames.shape[:-2]
    check_room_for((*shape, height, width))
    images = np.moveaxis(frames.reshape(-1, *frames.shape[-3:]), 1, -1)
    if method == "bislerp":
        resized = resize_bislerp(images, width, height, crop=crop)
    else:
        resized = (resize_cropped if crop else resize)(images, width, height, method)
    planes = np.moveaxis(resized, -1, 1).reshape(*shape, height, width)
    return np.ascontiguousarray(np.moveaxis(planes, -3, 1))


def fitted_to(samples: FloatArray, like: FloatArray) -> FloatArray:
    """Samples at the size of others; what does not fit their aspect ratio is cut off."""
    if samples.shape[1:] == like.shape[1:]:
        return samples
    return resize_samples(samples, like.shape[-1], like.shape[-2], "bilinear", crop=True)
