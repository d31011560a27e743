"""Arithmetic in 32-bit floats with the very bits that torch gives on a CPU, which ComfyUI uses.

Saved images are truncated to 8 bits, so that a last bit of difference can show as a whole level.
"""

import functools
from decimal import Decimal, localcontext

import numpy as np

from comfyrail.engine.pixels import FloatArray

_LANES = 8
_VECTORS_AT_ONCE = 4
_BLOCK = 16
"""Groups of vectors after which torch starts a new partial sum."""
_LEVELS = 4
_TABLE_SIZE = 128
_STEP = np.log(2) / _TABLE_SIZE
_COARSE_STEP = np.float32(round(_STEP * 2**17) / 2**17)
_FINE_STEP = np.float32(_STEP - float(_COARSE_STEP))
_STEPS_OF_ONE = np.float32(1 / _STEP)
_HALF = np.float32(0.5)


def fused(
    a: FloatArray | np.float32, b: FloatArray | np.float32, c: FloatArray | np.float32
) -> FloatArray:
    """a·b + c rounded once, where torch's compiled code uses a fused instruction."""
    product = np.multiply(a, b, dtype=np.float64)
    product = product + c
    return product.astype(np.float32)


def steps_from_minus_one_to_one(count: int) -> FloatArray:
    """So many numbers at equal distances, counted from both ends.

    Where the step is rounded up, the middle is not quite zero.
    """
    step = np.float32(2) / np.float32(count - 1)
    places = np.arange(count, dtype=np.float32)
    from_start = fused(step, places, np.float32(-1))
    from_end = fused(-step, places[::-1], np.float32(1))
    return np.where(np.arange(count) < count // 2, from_start, from_end)


def exponentials(values: FloatArray) -> FloatArray:
    """The exponential of each value, by a table of powers of two and the first terms of the series.

    Tang's method (1989), as MKL has it on processors of no particular kind. Off by one in the last
    place in one of a hundred cases. Results below the smallest normal float may differ.
    """
    steps = np.rint(values * _STEPS_OF_ONE)
    rest = (values - steps * _COARSE_STEP) - steps * _FINE_STEP
    excess = rest * rest * _HALF + rest
    whole, index = np.divmod(steps.astype(np.int64), _TABLE_SIZE)
    table, remainders = _powers_of_two()
    power = table[index]
    mantissa = power + (power * excess + remainders[index])
    scaled: FloatArray = np.ldexp(mantissa.astype(np.float64), whole).astype(np.float32)
    return scaled


@functools.cache
def _powers_of_two() -> tuple[FloatArray, FloatArray]:
    """2 to the power of 0/128, 1/128 … as floats, and what these lack."""
    with localcontext(prec=50):
        exact = [Decimal(2) ** (Decimal(index) / _TABLE_SIZE) for index in range(_TABLE_SIZE)]
        table = np.array([float(power) for power in exact]).astype(np.float32)
        lacking = [
            float(power - Decimal(float(near))) for power, near in zip(exact, table, strict=True)
        ]
    return table, np.array(lacking).astype(np.float32)


def sum_of_all(values: FloatArray) -> np.float32:
    """The sum as torch makes it: in eight lanes, four vectors at a time, in blocks of such."""
    flat = values.ravel()
    vectors = flat[: len(flat) // _LANES * _LANES].reshape(-1, _LANES)
    grouped = len(vectors) // _VECTORS_AT_ONCE * _VECTORS_AT_ONCE
    sums = _sum_in_blocks(vectors[:grouped].reshape(-1, _VECTORS_AT_ONCE, _LANES))
    for vector in vectors[grouped:]:
        sums[0] += vector
    lanes = sums[0] + sums[1] + sums[2] + sums[3]
    total = np.float32(0)
    for value in (*flat[vectors.size :], *lanes):
        total += value
    return total


def _sum_in_blocks(groups: FloatArray) -> FloatArray:
    """Blocks are summed up by themselves, and so are blocks of blocks."""
    sums = np.zeros((_LEVELS, *groups.shape[1:]), np.float32)
    for start in range(0, len(groups), _BLOCK):
        block = groups[start : start + _BLOCK]
        for group in block:
            sums[0] += group
        if len(block) < _BLOCK:
            break
        done = start // _BLOCK + 1
        for level in range(1, _LEVELS):
            sums[level] += sums[level - 1]
            sums[level - 1] = 0
            if done % _BLOCK**level:
                break
    for level in range(1, _LEVELS):
        sums[0] += sums[level]
    total: FloatArray = sums[0]
    return total
