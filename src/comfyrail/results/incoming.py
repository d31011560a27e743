"""Receiving bytes into a file whose name is known only when all of it is there."""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import IO, Any, TypeVar

from blake3 import blake3

from comfyrail.errors import ConfigurationError
from comfyrail.store.disk_trouble import disk_error

WRITE_SIZE = 1 << 20
Result = TypeVar("Result")


class IncomingFile:
    """A file being received; `discard` removes it when nobody wants it any more."""

    def __init__(self, folder: Path) -> None:
        descriptor, name = tempfile.mkstemp(dir=folder)
        self.path = Path(name)
        self.size = 0
        self._file: IO[bytes] = os.fdopen(descriptor, "wb")
        self._sha256 = hashlib.sha256()
        self._blake3 = blake3()

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._sha256.update(data)
        self._blake3.update(data)
        self.size += len(data)

    def close(self, *, is_synced: bool) -> None:
        """All of it has come. `is_synced`: it is on disk when this returns."""
        self._file.flush()
        if is_synced:
            os.fsync(self._file.fileno())
        self._file.close()

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()

    @property
    def blake3(self) -> str:
        return self._blake3.hexdigest()

    def discard(self) -> None:
        try:
            self._file.close()  # which writes what is left of it, or tries to
        except OSError:
            pass  # it is not wanted any more
        finally:
            self.path.unlink(missing_ok=True)


class Receiver:
    """Takes files in, in threads. What an earlier process left in the folder is removed."""

    def __init__(self, folder: Path, refused: Callable[[], None]) -> None:
        """`refused` is called when the disk does not take something."""
        self._folder = folder
        self._refused = refused
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for leftover in folder.iterdir():
                leftover.unlink()
        except OSError as error:
            raise ConfigurationError(
                f"The blob folder {folder.parent} cannot be written: {error.strerror}.",
                code="DATA_FOLDER_UNWRITABLE",
            ) from error

    async def receive(
        self,
        chunks: AsyncIterator[bytes],
        finish: Callable[[IncomingFile], Result],
        undo: Callable[[Result], None],
    ) -> Result:
        """What `finish` makes, in a thread, of the file that has all the bytes; what it raises
        costs the file. `undo` gets what it made when nobody waits for that any more. Raises
        StoreUnavailable, or the kind of it that says what is wrong, where the disk takes it not.
        """
        incoming: IncomingFile | None = None
        buffer = bytearray()
        try:
            async for chunk in chunks:
                buffer += chunk
                if len(buffer) >= WRITE_SIZE:
                    incoming = await self._to_its_end(
                        IncomingFile.discard, self._write, incoming, bytes(buffer)
                    )
                    buffer.clear()
        except BaseException:
            if incoming is not None:
                incoming.discard()
            raise
        # Most files are small: opened, written and finished in one go.
        return await self._to_its_end(undo, self._write_last, incoming, bytes(buffer), finish)

    def _write(self, incoming: IncomingFile | None, data: bytes) -> IncomingFile:
        incoming = incoming or IncomingFile(self._folder)
        try:
            incoming.write(data)
        except BaseException:
            incoming.discard()
            raise
        return incoming

    def _write_last(
        self,
        incoming: IncomingFile | None,
        rest: bytes,
        finish: Callable[[IncomingFile], Result],
    ) -> Result:
        received = self._write(incoming, rest)
        try:
            return finish(received)
        except BaseException:
            received.discard()
            raise

    async def _to_its_end(
        self, undo: Callable[[Result], None], work: Callable[..., Result], *arguments: Any
    ) -> Result:
        """Run it in a thread. When nobody waits for it any more, `undo` gets what it made."""
        doing = asyncio.ensure_future(self._on_disk(work, *arguments))

        def clean_up(done: "asyncio.Future[Result]") -> None:
            if not done.cancelled() and done.exception() is None:
                undo(done.result())

        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            doing.add_done_callback(clean_up)
            raise

    async def _on_disk(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """Run it in a thread; what the disk refuses is not the fault of whoever sends the bytes."""
        try:
            return await asyncio.to_thread(work, *arguments)
        except OSError as error:
            self._refused()
            raise disk_error("The blob store", self._folder.parent, error) from error
