"""Gaussian blur, and sharpening by it, with the results of torch's convolution."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.torch_arithmetic import (
    exponentials,
    steps_from_minus_one_to_one,
    sum_of_all,
)

LARGEST_EXACT_RADIUS = 10
"""Up to here sums are made in torch's order; beyond it that would take too long.

With the same kernel they are then equal bit for bit. Kernels are, but for radiuses where torch's
square roots are not the nearest floats: MKL starts from an estimate that is the processor's own.
"""

_STRIP_ROWS = 32

Progress = Callable[[float, float], None]


def blur(image: FloatArray, radius: int, sigma: float, progress: Progress) -> FloatArray:
    """Convolve [B,H,W,C] with a normalised Gaussian; the border is mirrored."""
    padding = [(0, 0), (radius, radius), (radius, radius), (0, 0)]
    padded = np.pad(image, padding, mode="reflect")
    if radius <= LARGEST_EXACT_RADIUS:
        return _convolve_in_order(padded, image.shape, _square_kernel(radius, sigma), progress)
    return _convolve_by_axes(padded, _line_kernel(radius, sigma), progress)


def sharpen(
    image: FloatArray, radius: int, sigma: float, strength: float, progress: Progress
) -> FloatArray:
    """Take `strength` times a Gaussian off [B,H,W,C], and give as much to the pixel itself."""
    padding = [(0, 0), (radius, radius), (radius, radius), (0, 0)]
    padded = np.pad(image, padding, mode="reflect")
    if radius <= LARGEST_EXACT_RADIUS:
        kernel = _square_kernel(radius, sigma) * np.float32(-strength)
        middle = np.float32(kernel[radius, radius] - sum_of_all(kernel))
        kernel[radius, radius] = middle + np.float32(1)
        return _convolve_in_order(padded, image.shape, kernel, progress)
    blurred = _convolve_by_axes(padded, _line_kernel(radius, sigma), progress)
    return image + np.float32(strength) * (image - blurred)


def _square_kernel(radius: int, sigma: float) -> FloatArray:
    steps = steps_from_minus_one_to_one(2 * radius + 1)
    distances: FloatArray = np.sqrt((steps * steps)[:, None] + (steps * steps)[None, :])
    weights = exponentials(-(distances * distances) / np.float32(2.0 * sigma * sigma))
    return weights / sum_of_all(weights)


def _line_kernel(radius: int, sigma: float) -> npt.NDArray[np.float64]:
    steps = np.linspace(-1, 1, 2 * radius + 1, dtype=np.float64)
    weights = np.exp(-(steps**2) / (2.0 * sigma * sigma))
    normalised: npt.NDArray[np.float64] = weights / weights.sum()
    return normalised


def _convolve_in_order(
    padded: FloatArray, shape: tuple[int, ...], kernel: FloatArray, progress: Progress
) -> FloatArray:
    """Row by row through the kernel, each product added with one rounding.

    In strips that fit the processor's cache: there are many passes over each.
    """
    height, width = shape[1:3]
    result = np.zeros(shape, np.float32)
    for top in range(0, height, _STRIP_ROWS):
        sums = result[:, top : top + _STRIP_ROWS]
        rows = sums.shape[1]
        product = np.empty(sums.shape, np.float64)
        for (down, right), weight in np.ndenumerate(kernel):
            window = padded[:, top + down : top + down + rows, right : right + width]
            np.multiply(window, np.float64(weight), out=product)
            product += sums
            sums[...] = product
        progress(min(top + _STRIP_ROWS, height), height)
    return result


def _convolve_by_axes(
    padded: FloatArray, kernel: npt.NDArray[np.float64], progress: Progress
) -> FloatArray:
    down = _convolve_axis(padded, kernel, 1)
    progress(1, 2)
    across = _convolve_axis(down, kernel, 2)
    progress(2, 2)
    return across.astype(np.float32)


def _convolve_axis(
    image: npt.NDArray[np.floating], kernel: npt.NDArray[np.float64], axis: int
) -> npt.NDArray[np.float64]:
    length = image.shape[axis] - len(kernel) + 1
    shape = list(image.shape)
    shape[axis] = length
    result = np.zeros(shape, np.float64)
    for start, weight in enumerate(kernel):
        window = [slice(None)] * image.ndim
        window[axis] = slice(start, start + length)
        result += image[tuple(window)] * weight
    return result
