"""How many frames an animation has and how long it is, by its own tables: nothing is unpacked."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

MOST_CHUNKS = 1_000_000
MOST_BLOCKS = 4_000_000
_GIF_TRAILER, _GIF_IMAGE, _GIF_EXTENSION, _GIF_CONTROL = 0x3B, 0x2C, 0x21, 0xF9


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that each frame is shown."""

    shown: tuple[float, ...]

    @property
    def frames(self) -> int:
        return len(self.shown)

    @property
    def duration(self) -> float:
        return sum(self.shown)

    @property
    def milliseconds(self) -> list[int]:
        return [round(each * 1000) for each in self.shown]


def timing_of(content_type: str, file: BinaryIO) -> Timing | None:
    """None where the file is no animation, or its tables are not known here."""
    reader = _READERS.get(content_type)
    if reader is None:
        return None
    try:
        shown = reader(file)
    except (struct.error, IndexError, ValueError):
        return None
    return Timing(tuple(shown)) if len(shown) > 1 else None


def _webp(file: BinaryIO) -> list[float]:
    file.seek(12)
    shown: list[float] = []
    for _ in range(MOST_CHUNKS):
        head = file.read(8)
        if len(head) < 8:
            break
        length = int.from_bytes(head[4:], "little")
        start = file.tell()
        if head[:4] == b"ANMF":
            shown.append(int.from_bytes(file.read(16)[12:15], "little") / 1000)
        file.seek(start + length + length % 2)
    return shown


def _png(file: BinaryIO) -> list[float]:
    file.seek(8)
    shown: list[float] = []
    for _ in range(MOST_CHUNKS):
        head = file.read(8)
        if len(head) < 8 or head[4:] == b"IEND":
            break
        length = int.from_bytes(head[:4], "big")
        start = file.tell()
        if head[4:] == b"fcTL":
            above, below = struct.unpack(">HH", file.read(26)[20:24])
            shown.append(above / (below or 100))
        file.seek(start + length + 4)
    return shown


def _gif(file: BinaryIO) -> list[float]:
    head = file.read(13)
    file.seek(_colours(head[10]), 1)
    shown: list[float] = []
    delay = 0.0
    blocks = iter(range(MOST_BLOCKS))
    for _ in range(MOST_CHUNKS):
        mark = file.read(1)
        if not mark or mark[0] == _GIF_TRAILER:
            break
        if mark[0] == _GIF_EXTENSION:
            label = file.read(1)[0]
            block = _skip_blocks(file, blocks)
            if label == _GIF_CONTROL:
                delay = int.from_bytes(block[1:3], "little") / 100
        elif mark[0] == _GIF_IMAGE:
            file.seek(_colours(file.read(9)[8]) + 1, 1)
            _skip_blocks(file, blocks)
            shown.append(delay)
            delay = 0.0
    return shown


def _colours(flags: int) -> int:
    """Bytes of the table of colours that follows."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _skip_blocks(file: BinaryIO, allowed: Iterator[int]) -> bytes:
    """Go behind the blocks that follow; the first of them. Raises ValueError where there are more
    in the file than are allowed.
    """
    first = b""
    while length := file.read(1)[0]:
        if next(allowed, None) is None:
            raise ValueError("too many blocks")
        block = file.read(length)
        if len(block) < length:
            raise ValueError("cut off")
        first = first or block
    return first


_READERS = {"image/webp": _webp, "image/png": _png, "image/apng": _png, "image/gif": _gif}
