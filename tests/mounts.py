"""Real small disks for tests: they fill up, and they become read-only."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FILLER = "filler"


def _call(*command: str) -> str | None:
    """What went wrong, if anything did."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except OSError as error:
        return f"{command[0]}: {error.strerror}"
    return done.stderr.strip() or f"{command[0]} failed" if done.returncode else None


def _mount(*arguments: str) -> None:
    problem = _call("mount", *arguments)
    if problem is not None:
        pytest.skip(f"NO MOUNTS HERE, this is not tested: {problem}")


@contextmanager
def small_disk(folder: Path, megabytes: int, files: int = 0) -> Iterator[Path]:
    """A disk in memory; for so many files, if that is given."""
    folder.mkdir()
    options = f"size={megabytes}m,nr_inodes={files}"
    _mount("-t", "tmpfs", "-o", options, "tmpfs", str(folder))
    try:
        yield folder
    finally:
        assert _call("umount", "--lazy", str(folder)) is None


@contextmanager
def ext4_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A disk in a file, which goes read-only as a broken one does."""
    folder.mkdir()
    image = folder.with_suffix(".img")
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    problem = _call("mkfs.ext4", "-q", str(image))
    if problem is not None:
        pytest.skip(f"NO EXT4 HERE, this is not tested: {problem}")
    _mount("-o", "loop", str(image), str(folder))
    try:
        yield folder
    finally:
        assert _call("umount", "--lazy", str(folder)) is None


def break_disk(folder: Path) -> None:
    """What the kernel does to ext4 after a fault: no writes, also by those who have files open."""
    assert _call("mount", "-o", "remount,abort", str(folder)) is None
    # Newer kernels do not show it: only a write tells.
    with pytest.raises(OSError, match="Read-only"):
        (folder / "x").touch()


def mend_disk(folder: Path) -> None:
    """Only possible when nobody uses it."""
    image = folder.with_suffix(".img")
    assert _call("umount", str(folder)) is None
    _call("fsck.ext4", "-p", str(image))
    _mount("-o", "loop", str(image), str(folder))


def make_read_only(folder: Path) -> None:
    """Only possible while nobody has a file there open for writing."""
    assert _call("mount", "-o", "remount,ro", str(folder)) is None


def make_writable(folder: Path) -> None:
    assert _call("mount", "-o", "remount,rw", str(folder)) is None


def fill(disk: Path, leaving: int = 0) -> Path:
    """Take all the room but so many bytes; the file that has it."""
    filler = disk / FILLER
    with filler.open("ab", buffering=0) as file:
        for size in (1 << 20, 4096):
            while free_bytes(disk) >= leaving + size:
                try:
                    file.write(bytes(size))
                except OSError:
                    break
    return filler


def free_bytes(disk: Path) -> int:
    figures = os.statvfs(disk)
    return figures.f_bavail * figures.f_frsize
