"""The part of a file that has arrived. It outlasts the process, so that the rest can follow."""

import contextlib
import hashlib
import os
from pathlib import Path
from typing import IO

import msgspec

from comfyrail.disk import sync_folder
from comfyrail.fleet.model_files.manifest import ModelFile
from comfyrail.fleet.model_files.threads import in_thread

READ_BYTES = 16 << 20
NOTE_LIMIT_BYTES = 64 << 10


class PartNote(msgspec.Struct, frozen=True):
    """What is known of a part: which content it begins, and from where."""

    sha256: str
    url: str = ""
    validator: str = ""
    """What the server said of its version: an ETag or a date, for `If-Range`."""


class Part:
    """An open part with the hash of what it has. The caller holds the lock of the download."""

    def __init__(self, path: Path, note_path: Path, file: ModelFile) -> None:
        self.path = path
        self._note_path = note_path
        self._sha256 = file.sha256.lower()
        self._hash = hashlib.sha256()
        self._out: IO[bytes] | None = None
        self.length = 0
        self.is_patched = False
        """Whether it was put together from several replies, which may not fit each other."""
        self.note = PartNote(self._sha256)
        self.is_removed = False

    async def open(self, size: int) -> None:
        """Go on with what an earlier try left, if it can be the beginning of this content."""
        self.note = await in_thread(self._read_note)
        self._out = await in_thread(self._open)
        length = await in_thread(self._size)
        if self.note.sha256 != self._sha256 or length > size:
            await self.begin_again()
            return
        while self.length < length:
            await in_thread(self._hash_more)
        self.is_patched = self.length > 0

    async def append(self, content: bytes) -> None:
        await in_thread(self._append, content)

    async def begin_again(self, url: str = "", validator: str = "") -> None:
        """Drop what is there, and note where the next bytes come from."""
        await in_thread(self._empty)
        self.length = 0
        self.is_patched = False
        self._hash = hashlib.sha256()
        self.note = PartNote(self._sha256, url, validator)
        await in_thread(self._write_note)

    def is_right(self) -> bool:
        return self._hash.hexdigest() == self._sha256

    async def move_to(self, target: Path) -> None:
        """Make it the file itself; when this returns it is on disk under its name."""
        await in_thread(self._move_to, target)

    async def remove(self) -> None:
        await self.close()
        await in_thread(remove_part, self.path, self._note_path)
        self.is_removed = True

    async def close(self) -> None:
        out, self._out = self._out, None
        if out is not None:
            await in_thread(out.close)

    def _open(self) -> IO[bytes]:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.fdopen(os.open(self.path, flags, 0o644), "r+b", buffering=0)

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _hash_more(self) -> None:
        content = self._file.read(READ_BYTES)
        self._hash.update(content)
        self.length += len(content)

    def _append(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            written = self._file.write(view)
            self._hash.update(view[:written])
            self.length += written
            view = view[written:]

    def _empty(self) -> None:
        self._file.seek(0)
        self._file.truncate()

    def _move_to(self, target: Path) -> None:
        os.fsync(self._file.fileno())
        self.path.replace(target)
        sync_folder(target.parent)
        self._note_path.unlink(missing_ok=True)

    def _read_note(self) -> PartNote:
        with contextlib.suppress(OSError, ValueError):
            if self._note_path.stat().st_size <= NOTE_LIMIT_BYTES:
                return msgspec.json.decode(self._note_path.read_bytes(), type=PartNote)
        return PartNote("")

    def _write_note(self) -> None:
        draft = self._note_path.with_name(f"{self._note_path.name}.draft")
        draft.write_bytes(msgspec.json.encode(self.note))
        draft.replace(self._note_path)

    @property
    def _file(self) -> IO[bytes]:
        if self._out is None:
            raise ValueError("the part is not open")
        return self._out


def remove_part(path: Path, note_path: Path) -> None:
    """Blocks."""
    path.unlink(missing_ok=True)
    note_path.unlink(missing_ok=True)
