"""Names of saved files: `prefix_00001_.png`, never used twice, without listing at every save."""

import os
import re
import time
from pathlib import Path
from typing import NamedTuple

from comfyrail.clock import Instant
from comfyrail.engine.folders import path_inside

MOST_COUNTERS = 10_000
LONGEST_NAME = 200
"""Bytes of a name in a prefix: a number and a suffix come behind it."""
LONGEST_PREFIX = 1000


class SavedFile(NamedTuple):
    filename: str
    subfolder: str


class OutputNames:
    """Counts in memory after one look at each folder. Owned by the thread that saves."""

    def __init__(self) -> None:
        self._last_used: dict[tuple[str, str], int] = {}

    def save(self, root: Path, prefix: str, content: bytes, suffix: str = ".png") -> SavedFile:
        """Write `content` to the next free name of `prefix`, which may have folders in it.

        Raises ValueError for a prefix that leads outside of `root` or is too long.
        """
        folder, stem = _split_prefix(root, prefix)
        counted = (str(folder), stem.casefold())
        if counted not in self._last_used:
            if len(self._last_used) >= MOST_COUNTERS:
                self._last_used.clear()
            folder.mkdir(parents=True, exist_ok=True)
            self._last_used[counted] = _highest_number(folder, stem)
        while True:
            self._last_used[counted] += 1
            name = f"{stem}_{self._last_used[counted]:05}_{suffix}"
            try:
                _write_new_file(folder / name, content)
            except FileExistsError:
                continue
            subfolder = os.path.relpath(folder, root)
            return SavedFile(name, "" if subfolder == "." else subfolder.replace(os.sep, "/"))


def fill_in_tokens(prefix: str, *, width: int, height: int, at: Instant) -> str:
    """Replace `%width%`, `%height%` and the parts of the local time, as ComfyUI does."""
    if "%" not in prefix:
        return prefix
    now = time.localtime(at / 1000)
    tokens = {
        "width": str(width),
        "height": str(height),
        "year": str(now.tm_year),
        "month": f"{now.tm_mon:02}",
        "day": f"{now.tm_mday:02}",
        "hour": f"{now.tm_hour:02}",
        "minute": f"{now.tm_min:02}",
        "second": f"{now.tm_sec:02}",
    }
    return re.sub(r"%(\w+)%", lambda found: tokens.get(found[1], found[0]), prefix)


def _split_prefix(root: Path, prefix: str) -> tuple[Path, str]:
    normal = os.path.normpath(prefix)
    encoded = os.fsencode(normal)
    if len(encoded) > LONGEST_PREFIX or any(
        len(name) > LONGEST_NAME for name in encoded.split(os.fsencode(os.sep))
    ):
        raise ValueError(
            f"The filename_prefix is too long: it may have {LONGEST_PREFIX} bytes, and each name "
            f"in it {LONGEST_NAME}."
        )
    subfolder, stem = os.path.split(normal)
    folder = None if normal.startswith(os.sep) else path_inside(root, subfolder)
    if folder is None or stem in ("", ".", "..") or "\0" in stem:
        raise ValueError(
            f"The filename_prefix {prefix!r} leads outside of the output folder. "
            "Use a name, or folders and a name below it."
        )
    return folder, stem


def _highest_number(folder: Path, stem: str) -> int:
    numbered = re.compile(re.escape(stem) + r"_(\d+)_", re.IGNORECASE)
    with os.scandir(folder) as entries:
        found = (numbered.match(entry.name) for entry in entries)
        return max((int(match[1]) for match in found if match), default=0)


def _write_new_file(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
