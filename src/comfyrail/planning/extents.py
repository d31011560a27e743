"""Sizes of pictures on their way through a graph, as far as the inputs tell. All are bounded."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import isfinite, sqrt
from typing import Any, NamedTuple

MOST_PIXELS_A_SIDE = 65536
MOST_PICTURES = 65536
PIXELS_PER_MEGAPIXEL = 1_000_000
DEFAULT_FACTOR_OF_MODEL = 4
"""Most upscale models make a picture four times as wide."""

_SIDES = (("width", "height"), ("target_width", "target_height"), ("resize_width", "resize_height"))
_FACTORS = ("scale_by", "upscale_by", "upscale_factor", "multiplier", "scale_factor", "scale")
_COUNTS = ("length", "video_frames", "num_frames", "frames", "frame_count")


class Extent(NamedTuple):
    """Width and height in pixels (of the picture, for a latent too), and how many: a batch, the
    frames of a video.
    """

    width: int
    height: int
    pictures: int

    @property
    def megapixels(self) -> float:
        return self.width * self.height * self.pictures / PIXELS_PER_MEGAPIXEL


class _Habits(NamedTuple):
    """What a node type does to sizes, by its name."""

    scales: bool
    pads: bool
    joins: bool
    stitches: bool


def number_of(value: Any) -> float | None:
    """A finite number, also one given as a text; None for all else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if len(value) > 32:
            return None
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, int):
        return float(value) if value.bit_length() <= 64 else None
    return value if isinstance(value, float) and isfinite(value) else None


def make_extent(width: float, height: float, count: float) -> Extent:
    return Extent(
        int(min(max(width, 1), MOST_PIXELS_A_SIDE)),
        int(min(max(height, 1), MOST_PIXELS_A_SIDE)),
        int(min(max(count, 1), MOST_PICTURES)),
    )


def extent_after(
    class_type: str, incoming: Sequence[Extent], numbers: Mapping[str, float]
) -> Extent | None:
    """The size of what a node gives, from the sizes of what it takes and its numeric inputs."""
    habits = _habits(class_type)
    start = _start(habits, incoming)
    if start is None and "width" not in numbers and "height" not in numbers:
        return None
    width, height = _sides(habits, start, numbers)
    return make_extent(width, height, _count(start, numbers))


def upscaled(extent: Extent, model_name: str) -> Extent:
    """After an upscale model, whose name says by how much: 4x-UltraSharp, RealESRGAN_x2."""
    found = re.search(r"(?<!\d)([1-9])x|x([1-9])(?!\d)", model_name[:200], re.IGNORECASE)
    factor = int(found[1] or found[2]) if found else DEFAULT_FACTOR_OF_MODEL
    return make_extent(extent.width * factor, extent.height * factor, extent.pictures)


@lru_cache(4096)
def _habits(class_type: str) -> _Habits:
    name = class_type[:200].lower()
    return _Habits(
        scales="scale" in name or "resize" in name,
        pads="pad" in name,
        joins="batch" in name or "images" in name,
        stitches="stitch" in name or "concat" in name,
    )


def _start(habits: _Habits, incoming: Sequence[Extent]) -> Extent | None:
    if not incoming:
        return None
    largest = max(incoming, key=lambda each: each.width * each.height * each.pictures)
    if len(incoming) > 1 and habits.joins:
        count = sum(each.pictures for each in incoming)
        return make_extent(largest.width, largest.height, count)
    if len(incoming) > 1 and habits.stitches:
        return make_extent(
            sum(each.width for each in incoming), largest.height, max(e.pictures for e in incoming)
        )
    return largest


def _sides(
    habits: _Habits, start: Extent | None, numbers: Mapping[str, float]
) -> tuple[float, float]:
    for across, down in _SIDES:
        width, height = numbers.get(across, 0.0), numbers.get(down, 0.0)
        if width > 0 and height > 0:
            return width, height
        if start is not None and habits.scales and max(width, height) > 0:
            # One side of 0 keeps the proportions.
            factor = width / start.width if width > 0 else height / start.height
            return start.width * factor, start.height * factor
    if start is None:
        return 1.0, 1.0
    if habits.scales:
        return _scaled(start, numbers)
    wider = numbers.get("left", 0.0) + numbers.get("right", 0.0) if habits.pads else 0.0
    higher = numbers.get("top", 0.0) + numbers.get("bottom", 0.0) if habits.pads else 0.0
    return start.width + wider, start.height + higher


def _scaled(start: Extent, numbers: Mapping[str, float]) -> tuple[float, float]:
    if numbers.get("megapixels", 0.0) > 0:
        factor = sqrt(numbers["megapixels"] * (1 << 20) / (start.width * start.height))
    else:
        factor = next((numbers[name] for name in _FACTORS if numbers.get(name, 0.0) > 0), 1.0)
    return start.width * factor, start.height * factor


def _count(start: Extent | None, numbers: Mapping[str, float]) -> float:
    frames = next((numbers[name] for name in _COUNTS if numbers.get(name, 0.0) > 0), None)
    if start is None:
        return numbers.get("batch_size", 1.0) * (frames or 1.0)
    count = start.pictures * max(1.0, numbers.get("amount", 1.0))
    if frames is None:
        return max(count, numbers.get("batch_size", 1.0))
    # A part of a batch, or a video that starts from a picture.
    return min(count, frames) if count > 1 else frames * numbers.get("batch_size", 1.0)
