"""A ZIP file that is made while it is sent: nothing of it is kept."""

import time
import zipfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from comfyrail.clock import Instant

EARLIEST = 315_532_800
"""1980: the format knows no time before."""
LATEST = 4_354_819_198


class Chunks(Protocol):
    def chunks(self) -> AsyncIterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class TextBlob:
    """What is written for the ZIP file itself."""

    content: bytes

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.content


@dataclass(frozen=True, slots=True)
class Member:
    """A file to be: the name that it should have, without folders."""

    name: str
    made_at: Instant
    source: Chunks


async def zip_stream(members: AsyncIterator[Member]) -> AsyncGenerator[bytes]:
    """The bytes of a ZIP file with these, stored as they are: pictures and films do not get
    smaller. Equal names are told apart by numbers.
    """
    sink = _Sink()
    names = _FreeNames()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
        async for member in members:
            info = zipfile.ZipInfo(names.take(member.name), _date(member.made_at))
            info.external_attr = 0o644 << 16
            with archive.open(info, "w", force_zip64=True) as file:
                async for chunk in member.source.chunks():
                    file.write(chunk)
                    yield sink.take()
            yield sink.take()
    yield sink.take()


class _Sink:
    """What has been written since it was last taken. It cannot go back, and says so by not having
    the methods for it.
    """

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes) -> int:
        self._written += data
        return len(data)

    def flush(self) -> None:
        """Everything is out already."""

    def take(self) -> bytes:
        taken = bytes(self._written)
        self._written.clear()
        return taken


class _FreeNames:
    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def take(self, wanted: str) -> str:
        path = PurePosixPath(wanted.replace("\\", "/").replace("\x00", "")).name or "output"
        name, number = path, 1
        while name.lower() in self._taken:
            number += 1
            stem, dot, suffix = path.rpartition(".")
            name = f"{stem} ({number}){dot}{suffix}" if stem else f"{path} ({number})"
        self._taken.add(name.lower())
        return name


def _date(instant: Instant) -> tuple[int, int, int, int, int, int]:
    moment = time.gmtime(min(max(instant // 1000, EARLIEST), LATEST))
    return (*moment[:5], moment.tm_sec)
