"""Gaussian blur, and sharpening by it, with the results of torch's convolution."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from comfyrail.engine.pixels import FloatArray

LARGEST_EXACT_RADIUS = 10
"""Up to here sums are made in torch's order, bit for bit; beyond it that would take too long."""

_STRIP_ROWS = 32
_LANES = 8

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
        middle = np.float32(kernel[radius, radius] - _sum_in_lanes(kernel.ravel()))
        kernel[radius, radius] = middle + np.float32(1)
        return _convolve_in_order(padded, image.shape, kernel, progress)
    blurred = _convolve_by_axes(padded, _line_kernel(radius, sigma), progress)
    return image + np.float32(strength) * (image - blurred)


def _square_kernel(radius: int, sigma: float) -> FloatArray:
    steps = _steps_from_minus_one_to_one(2 * radius + 1)
    distances = np.sqrt((steps * steps)[:, None] + (steps * steps)[None, :])
    exponents = -(distances * distances) / np.float32(2.0 * sigma * sigma)
    weights = np.exp(exponents.astype(np.float64)).astype(np.float32)
    return weights / _sum_in_lanes(weights.ravel())


def _sum_in_lanes(values: FloatArray) -> np.float32:
    """The sum as torch makes it: eight lanes, four vectors at a time, then one by one."""
    vectors = values[: len(values) // _LANES * _LANES].reshape(-1, _LANES)
    grouped = len(vectors) // 4 * 4
    sums = vectors[:grouped].reshape(-1, 4, _LANES).sum(axis=0)
    for vector in vectors[grouped:]:
        sums[0] += vector
    lanes = sums[0] + sums[1] + sums[2] + sums[3]
    total = np.float32(0)
    for value in (*values[vectors.size :], *lanes):
        total += value
    return total


def _steps_from_minus_one_to_one(count: int) -> FloatArray:
    """Counted from both ends, so that the two halves mirror each other exactly."""
    step = np.float64(np.float32(2) / np.float32(count - 1))
    half = (step * np.arange(count // 2) - 1).astype(np.float32)
    return np.concatenate((half, np.zeros(1, np.float32), -half[::-1]))


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
