"""The folder that results are put in, and their names in it."""

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

LONGEST_NAME = 255  # bytes, on nearly every file system
LONGEST_SUFFIX = 16
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@contextlib.contextmanager
def results_folder(folder: Path) -> Iterator[None]:
    """Make the folder and try it before the work, not after it; raises OSError where it fails.

    Folders that were made for nothing are removed at the end.
    """
    whole = folder.absolute()
    missing = [each for each in (whole, *whole.parents) if not os.path.lexists(each)]
    made = []
    try:
        for each in reversed(missing):
            with contextlib.suppress(FileExistsError):
                each.mkdir()
                made.append(each)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".comfyrail-") as probe:
            probe.write(b"?")
            probe.flush()
        yield
    finally:
        with contextlib.suppress(OSError):
            for each in reversed(made):
                each.rmdir()


def create_file(folder: Path, filename: str) -> tuple[Path, BinaryIO]:
    """A new file in the folder, never one that is there: `a.png`, `a (1).png` …"""
    # Another run may have removed the folder that it made while nothing was in it.
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    while True:
        path = folder / _name(filename, number)
        try:
            return path, path.open("xb")
        except FileExistsError:
            number += 1


def print_path(path: Path) -> None:
    """The path as it is, byte for byte, for the program that reads it."""
    if sys.stdout is not None:
        sys.stdout.flush()
        sys.stdout.buffer.write(os.fsencode(path) + b"\n")
        sys.stdout.buffer.flush()


def _name(filename: str, number: int) -> str:
    """One name, whatever the server says: no folders, no control characters, not too long."""
    last = filename.replace("\\", "/").rstrip("/").rpartition("/")[2]
    name = PurePosixPath(_NOT_IN_NAMES.sub("_", last)).name
    if name in {"", ".."}:
        name = "output"
    suffix = PurePosixPath(name).suffix
    if len(suffix.encode()) > LONGEST_SUFFIX:
        suffix = ""
    ending = (f" ({number})" if number else "") + suffix
    stem = name.removesuffix(suffix).encode()[: LONGEST_NAME - len(ending.encode())]
    return stem.decode(errors="ignore") + ending
