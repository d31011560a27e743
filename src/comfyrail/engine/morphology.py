"""Grow and shrink what is bright, by any number of steps, in a time that hardly depends on it.

A step takes the largest (or smallest) value among a pixel's neighbours; what lies outside of the
image counts for nothing. Many steps are joined: a shape of n steps, moved by up to n/2 + 1 in each
direction, covers the larger shape wherever it can be reached without leaving the image.
"""

from collections.abc import Iterator

import numpy as np

from comfyrail.engine.pixels import FloatArray


def grow(values: FloatArray, steps: int, *, diagonally: bool) -> FloatArray:
    """Dilate [..., H, W] by so many steps; a negative number erodes."""
    if steps < 0:
        return -grow(-values, -steps, diagonally=diagonally)
    for move in _moves(min(steps, sum(values.shape[-2:]))):
        if diagonally:
            values = _largest_of_shifted(values, move, axes=(-1,))
            values = _largest_of_shifted(values, move, axes=(-2,))
        else:
            values = _largest_of_shifted(values, move, axes=(-2, -1))
    return values


def _moves(steps: int) -> Iterator[int]:
    """How far to move each time, so that the moves add up to `steps`."""
    done = 0
    while done < steps:
        move = min(done // 2 + 1, steps - done)
        yield move
        done += move


def _largest_of_shifted(values: FloatArray, distance: int, axes: tuple[int, ...]) -> FloatArray:
    result = values.copy()
    for axis in axes:
        target, source = np.moveaxis(result, axis, 0), np.moveaxis(values, axis, 0)
        if distance < len(source):
            np.maximum(target[distance:], source[:-distance], out=target[distance:])
            np.maximum(target[:-distance], source[distance:], out=target[:-distance])
    return result
