"""What every blob store can do: those on disk and those in object storage [8.1].

Blobs are named by the SHA-256 of their content, so equal files are kept once.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredBlob:
    key: str
    size: int
    sha256: str
    blake3: str


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A blob as it was when someone looked: one that is saved again is another file."""

    key: str
    version: str
    size: int = 0


class OpenBlob(Protocol):
    """A blob that was there when it was opened."""

    @property
    def size(self) -> int: ...

    @property
    def path(self) -> Path | None:
        """Where its file lies; None where it is not on this machine."""
        ...

    def chunks(self, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """Its bytes from `start` up to `stop`, a part at a time. Raises OutputNotFound where it has
        gone meanwhile, StoreUnavailable where it cannot be had now.
        """
        ...


class BlobReads(Protocol):
    """The side that gives."""

    async def open(self, key: str) -> OpenBlob:
        """Raises OutputNotFound where there is none, StoreUnavailable where nobody knows."""
        ...

    def local(self, key: str) -> AbstractAsyncContextManager[Path]:
        """A file with its bytes, for as long as the context is open: brought here where it is
        elsewhere. It must not be written to. Raises as `open`.
        """
        ...

    async def signed_url(
        self, key: str, seconds: float, *, filename: str, content_type: str, is_inline: bool
    ) -> str | None:
        """A URL of the storage itself, by which anybody gets the bytes for so long; None where the
        storage has none to give, or cannot be told how a browser takes it. `is_inline`: a browser
        shows it, unless it could run something in it.
        """
        ...


class BlobWrites(Protocol):
    """The side that takes. What was saved is in hand until it is settled: nothing refers to it yet,
    and it must not go.
    """

    async def save(self, chunks: AsyncIterator[bytes]) -> StoredBlob:
        """Keep the bytes; when this returns they are safe. Raises StoreUnavailable, or the kind of
        it that says what is wrong, when they cannot be kept.
        """
        ...

    def settle(self, keys: Collection[str], *, are_kept: bool) -> None:
        """Whoever saved these has written down what refers to them, or never will."""
        ...

    def doubt(self, keys: Collection[str]) -> None:
        """Nothing may refer to these."""
        ...


class BlobShelves(Protocol):
    """The side that the sweeper needs."""

    def take_doubtful(self) -> Sequence[str]:
        """What was saved in vain since the last call."""
        ...

    async def look_at(self, keys: Sequence[str]) -> Sequence[StoredFile]:
        """Those that are there and not in hand."""
        ...

    def files(self) -> AsyncIterator[Sequence[StoredFile]]:
        """Everything that is there and not in hand, a part of it at a time."""
        ...

    async def remove(self, files: Sequence[StoredFile]) -> int:
        """Remove those that nobody has in hand or has saved again since they were looked at; how
        many that were.
        """
        ...


class BlobStore(BlobReads, BlobWrites, BlobShelves, Protocol):
    async def move(self, key: str, tier: str) -> None:
        """Bring a blob to where those of a tier of the life cycle are kept, if that is elsewhere.
        It can be had all the time. Raises as `open` and `save`.
        """
        ...

    async def close(self) -> None:
        """Give up what is still under way."""
        ...


async def first_bytes(blob: OpenBlob, limit: int) -> bytes:
    """What a blob begins with."""
    found = bytearray()
    async for chunk in blob.chunks(0, limit):
        found += chunk
    return bytes(found)
