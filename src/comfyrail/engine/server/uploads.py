"""Put an uploaded file where nodes find it, without ever writing over another one by mistake."""

import unicodedata
from itertools import count
from pathlib import Path
from typing import NamedTuple

from comfyrail.engine.folders import path_inside
from comfyrail.errors import MalformedRequest

_UNWRITABLE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Kinds of characters that no name should have: control, half of a pair, line ends."""


class StoredUpload(NamedTuple):
    name: str
    subfolder: str


def store_upload(
    root: Path, subfolder: str, filename: str, content: bytes, *, overwrite: bool
) -> StoredUpload:
    """Write the file below `root`. Raises MalformedRequest for a name that leads elsewhere.

    A file of that name with the same bytes is used as it is; with other bytes the new one becomes
    `name (1).png`, unless it may overwrite.
    """
    folder = path_inside(root, subfolder)
    if folder is None or not _is_plain_name(filename) or not _is_writable(subfolder):
        raise MalformedRequest(f"Cannot store {filename!r} in {subfolder!r}: use plain names.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if overwrite:
            _target(root, folder, filename).write_bytes(content)
            return StoredUpload(filename, subfolder)
        return StoredUpload(_store_beside(root, folder, filename, content), subfolder)
    except OSError as error:
        raise MalformedRequest(f"Cannot store {filename!r}: {error.strerror}.") from error


def _store_beside(root: Path, folder: Path, filename: str, content: bytes) -> str:
    wanted = Path(filename)
    for number in count():
        name = filename if number == 0 else f"{wanted.stem} ({number}){wanted.suffix}"
        target = _target(root, folder, name)
        try:
            with target.open("xb") as file:
                file.write(content)
        except FileExistsError:
            if not _has_content(target, content):
                continue
        return name
    raise AssertionError("count() does not end")


def _target(root: Path, folder: Path, name: str) -> Path:
    """A link in the folder must not lead out of it."""
    if path_inside(root, str(folder / name)) is None:
        raise MalformedRequest(f"Cannot store {name!r}: it is a link that leads elsewhere.")
    return folder / name


def _has_content(path: Path, content: bytes) -> bool:
    return path.stat().st_size == len(content) and path.read_bytes() == content


def _is_plain_name(filename: str) -> bool:
    has_letters = filename.strip(". ") != ""
    return has_letters and not any(char in "/\\" for char in filename) and _is_writable(filename)


def _is_writable(text: str) -> bool:
    return not any(unicodedata.category(char) in _UNWRITABLE for char in text)
