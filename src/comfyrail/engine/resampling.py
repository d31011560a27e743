"""Resize images [B,H,W,C] with the results of torch's `interpolate`, which ComfyUI uses.

Arithmetic is in 32-bit floats and in torch's order: saved images are truncated to 8 bits, so that
a last bit of difference can show as a whole level.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.pixels import FloatArray, to_floats, to_picture
from comfyrail.engine.torch_arithmetic import fused

RESAMPLING_METHODS = ("nearest-exact", "bilinear", "area", "bicubic", "lanczos")

Indices: TypeAlias = npt.NDArray[np.intp]

_CUBIC_A = np.float32(-0.75)
_HALF = np.float32(0.5)
_STRIP_ROWS = 64
_LARGEST_AT_ONCE = 128
"""Width and height together, up to which torch mixes along both axes at once."""
_FEW_CHANNELS = 3
_LANES = 8
"""Channels that torch mixes together, in another order than what is left over."""


def resize(image: FloatArray, width: int, height: int, method: str) -> FloatArray:
    """The image at another size; `method` is one of RESAMPLING_METHODS."""
    check_room_for((image.shape[0], height, width, image.shape[3]))
    return _METHODS[method](image, width, height)


def crop_to_aspect(image: FloatArray, width: int, height: int) -> FloatArray:
    """The largest middle part with the aspect ratio of `width` to `height`."""
    rows, columns = image.shape[1:3]
    has, wanted = columns / rows, width / height
    kept = min(has, wanted) / max(has, wanted)
    if has > wanted:
        margin = round((columns - columns * kept) / 2)
        return image[:, :, margin : columns - margin]
    margin = round((rows - rows * kept) / 2)
    return image[:, margin : rows - margin]


def resize_cropped(image: FloatArray, width: int, height: int, method: str) -> FloatArray:
    """Resize without distortion: what does not fit the new aspect ratio is cut off."""
    return resize(crop_to_aspect(image, width, height), width, height, method)


def _nearest_exact(image: FloatArray, width: int, height: int) -> FloatArray:
    rows = _nearest_indices(image.shape[1], height)
    columns = _nearest_indices(image.shape[2], width)
    return image[:, rows[:, None], columns]


def _nearest_indices(old: int, new: int) -> Indices:
    scale = np.float32(old) / np.float32(new)
    positions = (np.arange(new, dtype=np.float32) + _HALF) * scale
    return np.minimum(positions.astype(np.intp), old - 1)


def _bilinear(image: FloatArray, width: int, height: int) -> FloatArray:
    # As torch chooses: it also mixes at once where the channels of a pixel, if there are many, lie
    # together in memory. They do not in latents, nor in a part that was cut out.
    is_packed = image.shape[-1] > _FEW_CHANNELS and image[:1].flags.c_contiguous
    if is_packed or width + height <= _LARGEST_AT_ONCE:
        return _bilinear_at_once(image, width, height)
    return _bilinear_by_axes(image, width, height)


def _bilinear_at_once(image: FloatArray, width: int, height: int) -> FloatArray:
    left, right, to_right = _linear_steps(image.shape[2], width)
    top, bottom, to_bottom = _linear_steps(image.shape[1], height)
    result = np.empty((image.shape[0], height, width, image.shape[3]), np.float32)
    lanes = image.shape[3] // _LANES * _LANES
    for strip in _strips(height):
        down, across = to_bottom[strip, None, None], to_right[:, None]
        up, back = np.float32(1) - down, np.float32(1) - across
        above, below = image[:, top[strip]], image[:, bottom[strip]]
        corners = (
            (above[:, :, left], up * back),
            (above[:, :, right], up * across),
            (below[:, :, left], down * back),
            (below[:, :, right], down * across),
        )
        if lanes:
            result[:, strip, :, :lanes] = _mix(corners, (2, 3, 1, 0), slice(lanes))
        if lanes < image.shape[3]:
            result[:, strip, :, lanes:] = _mix(corners, (1, 0, 2, 3), slice(lanes, None))
    return result


def _mix(
    corners: Sequence[tuple[FloatArray, FloatArray]], order: Sequence[int], channels: slice
) -> FloatArray:
    pixels, weight = corners[order[0]]
    mixed: FloatArray = pixels[..., channels] * weight
    for corner in order[1:]:
        pixels, weight = corners[corner]
        mixed = fused(pixels[..., channels], weight, mixed)
    return mixed


def _bilinear_by_axes(image: FloatArray, width: int, height: int) -> FloatArray:
    """Mix along the columns first, then along the rows."""
    left, right, to_right = _linear_steps(image.shape[2], width)
    top, bottom, to_bottom = _linear_steps(image.shape[1], height)
    across = to_right[:, None]
    back = np.float32(1) - across
    result = np.empty((image.shape[0], height, width, image.shape[3]), np.float32)
    for strip in _strips(height):
        above, below = (
            fused(rows[:, :, left], back, rows[:, :, right] * across)
            for rows in (image[:, top[strip]], image[:, bottom[strip]])
        )
        down = to_bottom[strip, None, None]
        result[:, strip] = fused(above, np.float32(1) - down, below * down)
    return result


def _linear_steps(old: int, new: int) -> tuple[Indices, Indices, FloatArray]:
    """The old pixels on both sides of each new one, and the weight of the second."""
    positions = np.maximum(_positions(old, new), np.float32(0))
    low = np.minimum(positions.astype(np.intp), old - 1)
    return low, np.minimum(low + 1, old - 1), positions - low.astype(np.float32)


def _bicubic(image: FloatArray, width: int, height: int) -> FloatArray:
    columns, column_weights = _cubic_steps(image.shape[2], width)
    rows, row_weights = _cubic_steps(image.shape[1], height)
    result = np.empty((image.shape[0], height, width, image.shape[3]), np.float32)
    for strip in _strips(height):
        first, last = int(rows[0, strip].min()), int(rows[3, strip].max())
        source = image[:, first : last + 1]
        across = _cubic_sum(
            [source[:, :, indices] for indices in columns], column_weights[:, :, None]
        )
        result[:, strip] = _cubic_sum(
            [across[:, indices[strip] - first] for indices in rows],
            row_weights[:, strip, None, None],
        )
    return result


def _cubic_steps(old: int, new: int) -> tuple[Indices, FloatArray]:
    """For each new pixel four old ones and their weights, as arrays [4, new]."""
    positions = _positions(old, new)
    floors = np.floor(positions)
    indices = floors.astype(np.intp) + np.array([[-1], [0], [1], [2]])
    before = positions - floors
    after = np.float32(1) - before
    weights = (
        _cubic_far(before + np.float32(1)),
        _cubic_near(before),
        _cubic_near(after),
        _cubic_far(after + np.float32(1)),
    )
    return np.clip(indices, 0, old - 1), np.stack(weights)


def _cubic_near(x: FloatArray) -> FloatArray:
    inner = fused(x, _CUBIC_A + np.float32(2), -(_CUBIC_A + np.float32(3)))
    return inner * x * x + np.float32(1)


def _cubic_far(x: FloatArray) -> FloatArray:
    inner = fused(x, _CUBIC_A, -np.float32(5) * _CUBIC_A)
    return fused(inner, x, np.float32(8) * _CUBIC_A) * x - np.float32(4) * _CUBIC_A


def _cubic_sum(parts: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
    total: FloatArray = parts[1] * weights[1]
    for index in (0, 2, 3):
        total = fused(parts[index], weights[index], total)
    return total


def _area(image: FloatArray, width: int, height: int) -> FloatArray:
    """The mean of all old pixels that a new one touches."""
    top, rows = _windows(image.shape[1], height)
    left, columns = _windows(image.shape[2], width)
    total = np.zeros((image.shape[0], height, width, image.shape[3]), np.float32)
    for down in range(int(rows.max())):
        row_indices = np.minimum(top + down, image.shape[1] - 1)
        for right in range(int(columns.max())):
            inside = (down < rows)[:, None] & (right < columns)
            column_indices = np.minimum(left + right, image.shape[2] - 1)
            part = image[:, row_indices[:, None], column_indices]
            total += part if inside.all() else np.where(inside[..., None], part, np.float32(0))
    total /= rows.astype(np.float32)[:, None, None]
    total /= columns.astype(np.float32)[:, None]
    return total


def _windows(old: int, new: int) -> tuple[Indices, Indices]:
    """Where the window of each new pixel starts, and how long it is."""
    steps = np.arange(new)
    starts = steps * old // new
    ends = -((-(steps + 1) * old) // new)
    return starts, ends - starts


def _lanczos(image: FloatArray, width: int, height: int) -> FloatArray:
    pictures = (to_picture(each) for each in image)
    resized = [
        to_floats(picture.resize((width, height), Image.Resampling.LANCZOS)) for picture in pictures
    ]
    return np.stack([each[..., None] if each.ndim == 2 else each for each in resized])


def _positions(old: int, new: int) -> FloatArray:
    """Where the middle of each new pixel lies among the old ones."""
    scale = np.float32(old) / np.float32(new)
    return fused(np.arange(new, dtype=np.float32) + _HALF, scale, -_HALF)


def _strips(height: int) -> Iterator[slice]:
    """Rows in parts, so that intermediate values stay small."""
    for start in range(0, height, _STRIP_ROWS):
        yield slice(start, min(start + _STRIP_ROWS, height))


_METHODS: dict[str, Callable[[FloatArray, int, int], FloatArray]] = {
    "nearest-exact": _nearest_exact,
    "bilinear": _bilinear,
    "area": _area,
    "bicubic": _bicubic,
    "lanczos": _lanczos,
}
