"""The files of the disk level: which there are, and how much room they take."""

import contextlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from comfyrail.clock import Instant
from comfyrail.engine.caching.level import is_key

BLOCK = 4096
STALE_SECONDS = 600.0
"""A temporary file that was not written to for so long has lost its writer."""

_SHARD = re.compile(r"[0-9a-f]{2}")
_TEMPORARY = re.compile(r"\.[0-9a-f]{64}\.[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class EntryFile:
    path: str
    is_temporary: bool
    room: int
    used_ns: int
    created: Instant

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            Path(self.path).unlink()


def list_files(folder: str) -> Iterator[EntryFile]:
    """Every entry and temporary file. Links, folders and files of others are passed over."""
    for shard in _scan(folder):
        if _SHARD.fullmatch(shard.name) and shard.is_dir(follow_symlinks=False):
            for entry in _scan(shard.path):
                is_temporary = _TEMPORARY.fullmatch(entry.name) is not None
                if is_temporary or is_key(entry.name):
                    # Another process may be removing it at this moment.
                    with contextlib.suppress(OSError):
                        if entry.is_file(follow_symlinks=False):
                            yield _describe(entry, is_temporary=is_temporary)


def room_of(size: int) -> int:
    """A file takes whole blocks, so that many small entries count for what they cost."""
    return -(-size // BLOCK) * BLOCK


def is_stale_temporary(file: EntryFile) -> bool:
    """By the system's clock, which set the time of a file that is being written."""
    return file.created < (time.time() - STALE_SECONDS) * 1000


def _describe(entry: os.DirEntry[str], *, is_temporary: bool) -> EntryFile:
    status = entry.stat(follow_symlinks=False)
    return EntryFile(
        entry.path,
        is_temporary,
        room_of(status.st_size),
        status.st_atime_ns,
        Instant(status.st_mtime_ns // 1_000_000),
    )


def _scan(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
