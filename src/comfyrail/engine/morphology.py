"""Take the largest (or smallest) values around each pixel, however many those are.

The time hardly depends on how far the reach is. What lies outside of the image counts for nothing.
"""

from collections.abc import Iterator

import numpy as np

from comfyrail.engine.pixels import FloatArray


def grow(values: FloatArray, steps: int, *, diagonally: bool) -> FloatArray:
    """Dilate [..., H, W] by so many steps of one pixel; a negative number erodes."""
    if steps < 0:
        return -grow(-values, -steps, diagonally=diagonally)
    reach = min(steps, sum(values.shape[-2:]))
    if diagonally:
        return largest_in_rectangle(values, reach, reach)
    for move in _moves(reach):
        values = _largest_of_moved(values, move)
    return values


def largest_in_rectangle(values: FloatArray, before: int, after: int) -> FloatArray:
    """The largest of [..., H, W] from so far before to so far after each pixel, on both axes."""
    return _largest_in_line(_largest_in_line(values, before, after, -1), before, after, -2)


def _largest_in_line(values: FloatArray, before: int, after: int, axis: int) -> FloatArray:
    length = values.shape[axis]
    before, after = min(before, length - 1), min(after, length - 1)
    padding = [(0, 0)] * values.ndim
    padding[axis] = (before, after)
    lines = np.moveaxis(np.pad(values, padding, constant_values=-np.inf), axis, 0)
    window = before + after + 1
    covered = 1
    while 2 * covered <= window:
        lines = np.maximum(lines[:-covered], lines[covered:])
        covered *= 2
    rest = window - covered
    largest = np.maximum(lines[:length], lines[rest : rest + length])
    return np.moveaxis(largest, 0, axis)


def _moves(steps: int) -> Iterator[int]:
    """How far to move each time, so that the moves add up to `steps`.

    A diamond of n steps, moved by up to n/2 + 1 to each of four sides, covers the larger diamond
    wherever that can be reached without leaving the image.
    """
    done = 0
    while done < steps:
        move = min(done // 2 + 1, steps - done)
        yield move
        done += move


def _largest_of_moved(values: FloatArray, distance: int) -> FloatArray:
    """The largest of the values here and at this distance to the left, right, top and bottom."""
    result = values.copy()
    for axis in (-2, -1):
        target, source = np.moveaxis(result, axis, 0), np.moveaxis(values, axis, 0)
        if distance < len(source):
            np.maximum(target[distance:], source[:-distance], out=target[distance:])
            np.maximum(target[:-distance], source[distance:], out=target[:-distance])
    return result
