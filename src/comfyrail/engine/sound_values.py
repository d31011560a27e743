"""Sounds: mappings with `waveform` [B,C,samples] in -1..1 and `sample_rate`."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from comfyrail.engine.allocation import check_room_for
from comfyrail.engine.pixels import FloatArray

Sound: TypeAlias = Mapping[str, Any]

LONGEST_SECONDS = 86400.0
HIGHEST_RATE = 192_000


def silence(seconds: float, rate: int, channels: int) -> dict[str, Any]:
    """Raises ValueError for what is no length or rate, MemoryError for more than there is room
    for.
    """
    if not 0 <= seconds <= LONGEST_SECONDS:
        raise ValueError(f"A sound lasts 0 to {LONGEST_SECONDS:g} seconds, not {seconds:g}.")
    if not 1 <= rate <= HIGHEST_RATE:
        raise ValueError(f"A sound has 1 to {HIGHEST_RATE} samples a second, not {rate}.")
    shape = (1, channels, round(seconds * rate))
    check_room_for(shape)
    return {"waveform": np.zeros(shape, np.float32), "sample_rate": rate}


def sounds_of(sound: Sound) -> Iterator[FloatArray]:
    """Each of a batch, as [C,samples]."""
    yield from np.asarray(sound["waveform"], np.float32)


def rate_of(sound: Sound) -> int:
    return int(sound["sample_rate"])
