"""Resize latents so that vectors keep their length: by turning from one to the next."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.resampling import crop_to_aspect, resize

_ONE = np.float32(1)
_NEARLY = np.float32(1e-5)


def resize_bislerp(image: FloatArray, width: int, height: int, *, crop: bool) -> FloatArray:
    """The image [B,H,W,C] at another size, first across and then down.

    Sines are as exact as floats can be; torch's may be off by some units in the last place.
    """
    if crop:
        image = crop_to_aspect(image, width, height)
    across = _turn_along(image, width, axis=2)
    return _turn_along(across, height, axis=1)


def _turn_along(image: FloatArray, length: int, axis: int) -> FloatArray:
    old = image.shape[axis]
    places = np.arange(old, dtype=np.float32)
    low = _stretched(places, length)
    high = _stretched(np.minimum(places + _ONE, np.float32(old - 1)), length)
    shape = [1] * image.ndim
    shape[axis] = length
    share = (low - np.floor(low)).reshape(shape)
    first = np.take(image, low.astype(np.intp), axis)
    second = np.take(image, high.astype(np.intp), axis)
    return _slerp(first, second, share)


def _stretched(places: FloatArray, length: int) -> FloatArray:
    stretched: FloatArray = resize(places[None, None, :, None], length, 1, "bilinear").ravel()
    return stretched


def _slerp(first: FloatArray, second: FloatArray, share: FloatArray) -> FloatArray:
    first_norm, second_norm = _norm(first), _norm(second)
    first_unit, second_unit = _unit(first, first_norm), _unit(second, second_norm)
    dot = _sum(first_unit * second_unit)
    angle = _rounded(np.arccos, np.clip(dot, -_ONE, _ONE))
    rest = _ONE - share
    sine = _rounded(np.sin, angle)
    with np.errstate(divide="ignore", invalid="ignore"):
        from_first = _rounded(np.sin, rest * angle) / sine
        from_second = _rounded(np.sin, share * angle) / sine
        turned = from_first * first_unit + from_second * second_unit
        turned *= first_norm * rest + second_norm * share
    straight = first * rest + second * share
    result = np.where(dot > _ONE - _NEARLY, first, turned)
    return np.where(dot < _NEARLY - _ONE, straight, result)


def _norm(vectors: FloatArray) -> FloatArray:
    norm: FloatArray = np.sqrt(_sum(vectors * vectors))
    return norm


def _unit(vectors: FloatArray, norm: FloatArray) -> FloatArray:
    divisor: FloatArray = np.where(norm == 0, _ONE, norm)
    return vectors / divisor


def _sum(values: FloatArray) -> FloatArray:
    """One by one along the last axis."""
    total = values[..., :1].copy()
    for index in range(1, values.shape[-1]):
        total += values[..., index : index + 1]
    return total


def _rounded(function: Callable[[npt.NDArray[np.float64]], Any], values: FloatArray) -> FloatArray:
    """A function of each value, as near as a float can be."""
    result: FloatArray = function(values.astype(np.float64)).astype(np.float32)
    return result
