"""The blob store on local disk: content-addressed, so equal files are kept once."""

import asyncio
import hashlib
import os
import re
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from comfyrail.disk import sync_folder
from comfyrail.errors import ConfigurationError, OutputNotFound, StoreUnavailable

WRITE_SIZE = 1 << 20
Result = TypeVar("Result")

_KEY = re.compile(r"[0-9a-f]{2}/[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StoredBlob:
    key: str
    size: int
    sha256: str


class LocalBlobStore:
    """Files under one folder, named by the SHA-256 of their content."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._incoming = folder / "incoming"
        try:
            self._incoming.mkdir(parents=True, exist_ok=True)
            for leftover in self._incoming.iterdir():
                leftover.unlink()
        except OSError as error:
            raise ConfigurationError(
                f"The blob folder {folder} cannot be written: {error.strerror}.",
                code="DATA_FOLDER_UNWRITABLE",
            ) from error

    async def save(self, chunks: AsyncIterator[bytes]) -> StoredBlob:
        """Keep the bytes; when this returns they are on disk (fsync).

        Raises StoreUnavailable when the disk does not take them.
        """
        incoming: _Incoming | None = None
        buffer = bytearray()
        try:
            async for chunk in chunks:
                buffer += chunk
                if len(buffer) >= WRITE_SIZE:
                    incoming = await _on_disk(self._receive, incoming, bytes(buffer))
                    buffer.clear()
            # Most outputs are small: opened, written, synced and named in one go.
            return await _on_disk(self._keep, incoming, bytes(buffer))
        except BaseException:
            if incoming is not None:
                incoming.discard()
            raise

    def path_of(self, key: str) -> Path:
        """Where the bytes are; raises OutputNotFound where there are none."""
        path = self._folder / key
        if not _KEY.fullmatch(key) or not path.is_file():
            raise OutputNotFound("The output's file is gone from the blob store.")
        return path

    def _receive(self, incoming: "_Incoming | None", data: bytes) -> "_Incoming":
        incoming = incoming or _Incoming(self._incoming)
        try:
            incoming.write(data)
        except BaseException:
            incoming.discard()
            raise
        return incoming

    def _keep(self, incoming: "_Incoming | None", rest: bytes) -> StoredBlob:
        received = self._receive(incoming, rest)
        try:
            digest = received.finish()
            key = f"{digest[:2]}/{digest}"
            target = self._folder / key
            if not target.parent.exists():
                target.parent.mkdir(exist_ok=True)
                sync_folder(self._folder)
            received.path.replace(target)
        except BaseException:
            received.discard()
            raise
        sync_folder(target.parent)
        return StoredBlob(key, received.size, digest)


class _Incoming:
    """A file being received; it gets its name when all of it is there."""

    def __init__(self, folder: Path) -> None:
        descriptor, name = tempfile.mkstemp(dir=folder)
        self.path = Path(name)
        self.size = 0
        self._file: IO[bytes] = os.fdopen(descriptor, "wb")
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self.size += len(data)

    def finish(self) -> str:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._hash.hexdigest()

    def discard(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


async def _on_disk(work: Callable[..., Result], *arguments: Any) -> Result:
    """Run it in a thread; what the disk refuses is not the fault of whoever sends the bytes."""
    try:
        return await asyncio.to_thread(work, *arguments)
    except OSError as error:
        raise StoreUnavailable(
            f"The blob store cannot be written: {error.strerror}. Check the disk.", retry_after=5.0
        ) from error
