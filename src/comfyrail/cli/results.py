"""The folder that results are put in, and their names in it."""

import asyncio
import contextlib
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Container, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from comfyrail.cli.exits import WRONG_USE, explain_and_exit
from comfyrail.client import ComfyrailClient, Output

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


@contextlib.contextmanager
def checked_folder(folder: Path) -> Iterator[None]:
    """As `results_folder`; one that takes no results ends the command."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(results_folder(folder))
        except OSError as error:
            explain_and_exit(f"Results cannot be put in {folder}: {error.strerror}.", WRONG_USE)
        yield


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


def find_same_file(
    folder: Path, filename: str, output: Output, others: Container[Path]
) -> Path | None:
    """The file that `create_file` made of this result before, if it is there unchanged.

    `others` are files that hold another result, whatever is in them.
    """
    number = 0
    while True:
        path = folder / _name(filename, number)
        if not os.path.lexists(path):
            return None
        if path not in others and _holds(path, output):
            return path
        number += 1


def _holds(path: Path, output: Output) -> bool:
    try:
        if not path.is_file() or path.stat().st_size != output.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == output.sha256
    except OSError:
        return False


async def save_output(client: ComfyrailClient, output: Output, folder: Path, filename: str) -> Path:
    """Download a result into a new file. Raises OSError where it cannot be written."""
    making = asyncio.ensure_future(asyncio.to_thread(create_file, folder, filename))
    try:
        path, file = await asyncio.shield(making)
    except asyncio.CancelledError:
        # The thread goes on, and what it makes is nobody's.
        path, file = await making
        file.close()
        path.unlink(missing_ok=True)
        raise
    try:
        with file:
            async for chunk in client.download(output):
                await asyncio.to_thread(file.write, chunk)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return path


def safe_name(filename: str) -> str:
    """One name, whatever the server says: no folders, no control characters."""
    last = filename.replace("\\", "/").rstrip("/").rpartition("/")[2]
    name = PurePosixPath(_NOT_IN_NAMES.sub("_", last)).name
    return "output" if name in {"", ".."} else name


def print_path(path: Path) -> None:
    """The path as it is, byte for byte, for the program that reads it."""
    if sys.stdout is not None:
        sys.stdout.flush()
        sys.stdout.buffer.write(os.fsencode(path) + b"\n")
        sys.stdout.buffer.flush()


def _name(filename: str, number: int) -> str:
    """The safe name with a number, not too long."""
    name = safe_name(filename)
    suffix = PurePosixPath(name).suffix
    if len(suffix.encode()) > LONGEST_SUFFIX:
        suffix = ""
    ending = (f" ({number})" if number else "") + suffix
    stem = name.removesuffix(suffix).encode()[: LONGEST_NAME - len(ending.encode())]
    return stem.decode(errors="ignore") + ending
