"""Normally distributed numbers, the very ones that torch makes of a seed on a CPU.

A Mersenne Twister gives evenly distributed numbers, and the method of Box and Muller makes normal
ones of each two. torch does that for sixteen at a time, with Cephes' polynomials in 32-bit floats;
fewer than sixteen it makes one by one, in 64 bits.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from comfyrail.engine.pixels import FloatArray
from comfyrail.engine.torch_arithmetic import fused

_TOGETHER = 16
_CHUNK = 1 << 20
_SEED_BITS = 0xFFFFFFFF
_ONE = np.float32(1)
_HALF = np.float32(0.5)
_TWO_PI = np.float32(2 * math.pi)

_ROOT_OF_HALF = np.float32(0.707106781186547524)
_LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
_LOG_OF_TWO = (np.float32(0.693359375), np.float32(-2.12194440e-4))
_EIGHTHS = np.float32(1.27323954473516)
_EIGHTH_OF_TURN = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)
_COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)


def normal_noise(
    shape: Sequence[int], seed: int, check: Callable[[], None] = lambda: None
) -> FloatArray:
    """Numbers of mean 0 and deviation 1; torch takes the lower 32 bits of the seed.

    `check` is called now and then, and may raise.
    """
    count = math.prod(shape)
    # NumPy keeps the numbers of this old kind of source the same in all versions.
    source = np.random.RandomState(seed & _SEED_BITS)
    if count < _TOGETHER:
        return np.fromiter(_one_by_one(source, count), np.float32, count).reshape(shape)
    noise = np.empty(count, np.float32)
    whole = count // _TOGETHER * _TOGETHER
    for start in range(0, whole, _CHUNK):
        check()
        part = noise[start : min(start + _CHUNK, whole)]
        part[...] = _to_normal(_even(source, len(part)))
    if whole < count:
        # torch draws for what is left over before it makes any normal, and then draws anew.
        _raw(source, count - whole)
        noise[-_TOGETHER:] = _to_normal(_even(source, _TOGETHER))
    return noise.reshape(shape)


def _even(source: np.random.RandomState, count: int) -> FloatArray:
    """Numbers from 0 to below 1, in steps of 2 to the power of -24."""
    return (_raw(source, count) & np.uint32(0xFFFFFF)).astype(np.float32) * np.float32(2.0**-24)


def _raw(source: np.random.RandomState, count: int) -> npt.NDArray[np.uint32]:
    return source.randint(0, 1 << 32, count, np.uint32)


def _to_normal(even: FloatArray) -> FloatArray:
    pairs = even.reshape(-1, 2, _TOGETHER // 2)
    radius = np.sqrt(np.float32(-2) * _log(_ONE - pairs[:, 0]))
    sine, cosine = _sine_and_cosine(_TWO_PI * pairs[:, 1])
    return np.stack((radius * cosine, radius * sine), axis=1).ravel()


def _log(values: FloatArray) -> FloatArray:
    mantissa, exponents = np.frexp(values)
    exponent = exponents.astype(np.float32)
    is_low = mantissa < _ROOT_OF_HALF
    x = mantissa - _ONE + np.where(is_low, mantissa, np.float32(0))
    exponent -= is_low.astype(np.float32)
    square = x * x
    series = _polynomial(_LOG, x) * x
    series = fused(series, square, exponent * _LOG_OF_TWO[1]) - square * _HALF
    return fused(exponent, _LOG_OF_TWO[0], x + series)


def _sine_and_cosine(angles: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For angles from 0 to a whole turn."""
    octant = (angles * _EIGHTHS).astype(np.int32) + 1 & ~1
    rest = angles
    for part in _EIGHTH_OF_TURN:
        rest = fused(octant.astype(np.float32), np.float32(part), rest)
    square = rest * rest
    flat = fused(_polynomial(_COSINE, square) * square, square, square * -_HALF) + _ONE
    steep = fused(_polynomial(_SINE, square) * square, rest, rest)
    is_swapped = (octant & 2) != 0
    sine = np.where(is_swapped, flat, steep)
    cosine = np.where(is_swapped, steep, flat)
    return (
        np.where(octant & 4, -sine, sine),
        np.where(octant + 2 & 4, -cosine, cosine),
    )


def _polynomial(factors: Sequence[float], x: FloatArray) -> FloatArray:
    result = np.full_like(x, factors[0])
    for factor in factors[1:]:
        result = fused(result, x, np.float32(factor))
    return result


def _one_by_one(source: np.random.RandomState, count: int) -> Iterator[float]:
    """Two at a time; the second of the last two may be left over."""
    for start in range(0, count, 2):
        turn, distance = _even_in_64_bits(source), _even_in_64_bits(source)
        radius = math.sqrt(-2 * math.log1p(-distance))
        yield radius * math.cos(2 * math.pi * turn)
        if start + 1 < count:
            yield radius * math.sin(2 * math.pi * turn)


def _even_in_64_bits(source: np.random.RandomState) -> float:
    high, low = (int(each) for each in _raw(source, 2))
    bits: int = (high << 32 | low) & ((1 << 53) - 1)
    return bits * 2.0**-53
