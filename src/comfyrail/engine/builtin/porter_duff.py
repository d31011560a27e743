"""The node of the Porter-Duff modes, which put two images with transparency together."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from comfyrail.engine.definition import node
from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.resampling import resize_cropped

_ONE = np.float32(1)
_TWO = np.float32(2)
_SMALLEST_ALPHA = 1e-5


class Layers(NamedTuple):
    """Both images with their colours multiplied by their alpha."""

    source: FloatArray
    source_alpha: FloatArray
    destination: FloatArray
    destination_alpha: FloatArray


Composed = tuple[FloatArray, FloatArray]


def _joint_alpha(on: Layers) -> FloatArray:
    return on.source_alpha + on.destination_alpha - on.source_alpha * on.destination_alpha


def _uncovered(on: Layers) -> FloatArray:
    """What each image shows where the other one does not cover it."""
    return (_ONE - on.destination_alpha) * on.source + (_ONE - on.source_alpha) * on.destination


def _add(on: Layers) -> Composed:
    colours = np.clip(on.source + on.destination, 0, 1)
    return colours, np.clip(on.source_alpha + on.destination_alpha, 0, 1)


def _clear(on: Layers) -> Composed:
    return np.zeros_like(on.destination), np.zeros_like(on.destination_alpha)


def _destination_atop(on: Layers) -> Composed:
    beside = (_ONE - on.destination_alpha) * on.source
    return on.source_alpha * on.destination + beside, on.source_alpha


def _destination_in(on: Layers) -> Composed:
    return on.source_alpha * on.destination, on.source_alpha * on.destination_alpha


def _destination_out(on: Layers) -> Composed:
    left = _ONE - on.source_alpha
    return left * on.destination, left * on.destination_alpha


def _destination_over(on: Layers) -> Composed:
    left = _ONE - on.destination_alpha
    return on.destination + left * on.source, on.destination_alpha + left * on.source_alpha


def _overlay(on: Layers) -> Composed:
    dark = _TWO * on.source * on.destination
    bright = on.source_alpha * on.destination_alpha - _TWO * (on.destination_alpha - on.source) * (
        on.source_alpha - on.destination
    )
    is_dark = _TWO * on.destination < on.destination_alpha
    return np.where(is_dark, dark, bright), _joint_alpha(on)


def _screen(on: Layers) -> Composed:
    colours = on.source + on.destination - on.source * on.destination
    return colours, _joint_alpha(on)


def _source_atop(on: Layers) -> Composed:
    beside = (_ONE - on.source_alpha) * on.destination
    return on.destination_alpha * on.source + beside, on.destination_alpha


def _source_in(on: Layers) -> Composed:
    return on.source * on.destination_alpha, on.source_alpha * on.destination_alpha


def _source_out(on: Layers) -> Composed:
    left = _ONE - on.destination_alpha
    return left * on.source, left * on.source_alpha


def _source_over(on: Layers) -> Composed:
    left = _ONE - on.source_alpha
    return on.source + left * on.destination, on.source_alpha + left * on.destination_alpha


def _exclusive(on: Layers) -> Composed:
    alpha = (_ONE - on.destination_alpha) * on.source_alpha
    return _uncovered(on), alpha + (_ONE - on.source_alpha) * on.destination_alpha


PORTER_DUFF_MODES: dict[str, Callable[[Layers], Composed]] = {
    "ADD": _add,
    "CLEAR": _clear,
    "DARKEN": lambda on: (
        _uncovered(on) + np.minimum(on.source, on.destination),
        _joint_alpha(on),
    ),
    "DST": lambda on: (on.destination, on.destination_alpha),
    "DST_ATOP": _destination_atop,
    "DST_IN": _destination_in,
    "DST_OUT": _destination_out,
    "DST_OVER": _destination_over,
    "LIGHTEN": lambda on: (
        _uncovered(on) + np.maximum(on.source, on.destination),
        _joint_alpha(on),
    ),
    "MULTIPLY": lambda on: (
        on.source * on.destination,
        on.source_alpha * on.destination_alpha,
    ),
    "OVERLAY": _overlay,
    "SCREEN": _screen,
    "SRC": lambda on: (on.source, on.source_alpha),
    "SRC_ATOP": _source_atop,
    "SRC_IN": _source_in,
    "SRC_OUT": _source_out,
    "SRC_OVER": _source_over,
    "XOR": _exclusive,
}


@node(
    "PorterDuffImageComposite",
    required={
        "source": ("IMAGE", {}),
        "source_alpha": ("MASK", {}),
        "destination": ("IMAGE", {}),
        "destination_alpha": ("MASK", {}),
        "mode": (
            "COMBO",
            {"default": "DST", "multiselect": False, "options": list(PORTER_DUFF_MODES)},
        ),
    },
    outputs=("IMAGE", "MASK"),
    category="mask/compositing",
    display_name="Porter-Duff Image Composite",
    schema="v3",
)
def porter_duff_composite(
    *,
    source: FloatArray,
    source_alpha: FloatArray,
    destination: FloatArray,
    destination_alpha: FloatArray,
    mode: str,
) -> tuple[FloatArray, FloatArray]:
    """Both at the destination's size; masks say what is left out. The shortest batch counts."""
    if source.shape[-1] != destination.shape[-1]:
        raise ValueError(
            f"The source has {source.shape[-1]} channels, the destination "
            f"{destination.shape[-1]}: split off or join the alpha of one."
        )
    count = min(map(len, (source, source_alpha, destination, destination_alpha)))
    height, width = destination.shape[1:3]
    source_cover = _ONE - _fitted(source_alpha[:count, ..., None], width, height)
    cover = _ONE - _fitted(destination_alpha[:count, ..., None], width, height)
    layers = Layers(
        _fitted(source[:count], width, height) * source_cover,
        source_cover,
        destination[:count] * cover,
        cover,
    )
    colours, alpha = PORTER_DUFF_MODES[mode](layers)
    visible = alpha > np.float32(_SMALLEST_ALPHA)
    plain = np.where(visible, colours / np.where(visible, alpha, _ONE), np.float32(0))
    return np.clip(plain, 0, 1), _ONE - alpha[..., 0]


def _fitted(image: FloatArray, width: int, height: int) -> FloatArray:
    if image.shape[1:3] == (height, width):
        return image
    return resize_cropped(image, width, height, "bicubic")


NODES = (porter_duff_composite,)
