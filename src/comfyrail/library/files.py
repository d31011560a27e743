"""The files of one version: which there are, how large they may be, how they are read."""

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from comfyrail.errors import InvalidLibraryEntry, PayloadTooLarge

WORKFLOW_FILE = "workflow.json"
DESCRIPTION_FILE = "description.md"
PREVIEW_FILE = "preview.png"
INPUTS_YAML = "inputs.yaml"
INPUTS_JSON = "inputs.json"

LIMITS: Mapping[str, int] = {
    WORKFLOW_FILE: 10 << 20,
    DESCRIPTION_FILE: 64 << 10,
    INPUTS_YAML: 64 << 10,
    INPUTS_JSON: 64 << 10,
    PREVIEW_FILE: 4 << 20,
}
"""Every file that a version may have, with the most bytes of it."""

PNG_START = b"\x89PNG\r\n\x1a\n"
SUMMARY_BYTES = 4096
LONGEST_SUMMARY = 200

Files = Mapping[str, bytes]


def check_files(files: Files) -> None:
    """Raise unless these can be a version: small enough, text where it is text, a PNG."""
    if WORKFLOW_FILE not in files:
        raise InvalidLibraryEntry(f"There is no {WORKFLOW_FILE}.")
    for name, content in files.items():
        if len(content) > LIMITS[name]:
            raise PayloadTooLarge(_too_large(name), details={"limit": LIMITS[name]})
    if PREVIEW_FILE in files:
        check_preview(files[PREVIEW_FILE])
    try:
        files.get(DESCRIPTION_FILE, b"").decode()
    except UnicodeDecodeError as error:
        raise InvalidLibraryEntry(f"{DESCRIPTION_FILE} is not UTF-8 text.") from error


def check_preview(content: bytes) -> None:
    if not is_png(content):
        raise InvalidLibraryEntry("The preview is not a PNG image.", code="INVALID_PREVIEW")


def is_png(content: bytes) -> bool:
    return content.startswith(PNG_START) and content[12:16] == b"IHDR"


def read_files(folder: Path, place: str, names: Iterable[str] = LIMITS) -> dict[str, bytes]:
    """Those files of a version that are there: no links, no devices.

    Raises where one is larger than it may be; `place` is what the folder is called then.
    """
    found: dict[str, bytes] = {}
    for name in names:
        content = _read_start(folder / name, LIMITS[name] + 1)
        if content is None:
            continue
        if len(content) > LIMITS[name]:
            raise InvalidLibraryEntry(
                f"{_too_large(name)} Make the file {place}/{name} in the data folder smaller.",
                code="WORKFLOW_DAMAGED",
            )
        found[name] = content
    return found


def first_line(folder: Path) -> str:
    """What a version's description begins with, without the marks of a heading."""
    content = _read_start(folder / DESCRIPTION_FILE, SUMMARY_BYTES) or b""
    for line in content.decode(errors="replace").splitlines():
        text = line.strip().lstrip("#").strip()
        if text:
            return text[:LONGEST_SUMMARY]
    return ""


def is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def is_folder(path: Path) -> bool:
    """Whether it is a folder itself, and no link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _read_start(path: Path, size: int) -> bytes | None:
    try:
        # A pipe in its place would wait for ever, and a link may lead anywhere.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:
            return None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(size)
    finally:
        os.close(descriptor)


def _too_large(name: str) -> str:
    limit = LIMITS[name]
    shown = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit >> 10} KiB"
    return f"{name} is larger than {shown}."
