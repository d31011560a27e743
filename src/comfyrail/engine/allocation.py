"""Refuse what cannot fit into memory, before it is asked for."""

import functools
import math
from collections.abc import Sequence

from comfyrail.engine.resources.detect import usable_memory_bytes

_LARGEST_SHARE = 0.5
_BYTES_OF_A_FLOAT = 4
LARGEST_TEXT = 1 << 26
"""Characters. Longer than any prompt, and still only some hundred megabytes."""


def check_room_for(shape: Sequence[int]) -> None:
    """Raise MemoryError where floats of this shape would take half of this process's memory."""
    wanted = math.prod(shape) * _BYTES_OF_A_FLOAT
    if wanted > _largest_array():
        sides = " by ".join(map(str, shape))
        raise MemoryError(
            f"The result would be {sides} values, {wanted / 2**30:.1f} GiB: more than half of the "
            "memory of this worker. Use a smaller size or fewer images."
        )


def check_text_length(length: int) -> None:
    """Raise MemoryError for a text that is too long to pass on."""
    if length > LARGEST_TEXT:
        raise MemoryError(
            f"The text would have {length} characters, {LARGEST_TEXT} are allowed. Use less."
        )


@functools.cache
def _largest_array() -> float:
    return usable_memory_bytes() * _LARGEST_SHARE
