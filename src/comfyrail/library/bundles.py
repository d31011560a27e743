"""A workflow with its versions as one zip file, to share.

A bundle is the workflow's folder: unpacked into a library by hand it is the same workflow. What
comes in is hostile: only names that are known are read, nothing is unpacked by name, and what
counts is how many bytes really come out.
"""

import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NoReturn

from comfyrail.errors import Conflict, InvalidLibraryEntry
from comfyrail.library.files import LIMITS, WORKFLOW_FILE, Files
from comfyrail.library.folder import VERSIONS_FOLDER, LibraryFolder, Places
from comfyrail.library.writer import MOST_VERSIONS
from comfyrail.workflow.nearest import shown

LARGEST_BUNDLE = 64 << 20
LARGEST_CONTENT = 256 << 20
"""Bytes of all files of a bundle together."""
LARGEST_DIRECTORY = 1 << 20
ENCRYPTED = 0x1

_END_RECORD = struct.Struct("<4s4H2LH")
_ZIP64_LOCATOR_SIZE = 20
_TOP = r"[^./\\\x00-\x1f][^/\\\x00-\x1f]{0,99}"
_MEMBER = re.compile(
    rf"(?:(?P<name>{_TOP})/)??"
    rf"(?:{VERSIONS_FOLDER}/(?P<version>[1-9][0-9]{{0,8}})/)?"
    rf"(?P<file>{'|'.join(map(re.escape, LIMITS))})"
)
_FOLDER = re.compile(rf"(?:{_TOP}/)??(?:{VERSIONS_FOLDER}/(?:[1-9][0-9]{{0,8}}/)?)?")
_PASSED_OVER = re.compile(r"__MACOSX/.*|(?:.*/)?\.DS_Store")
"""What a Mac adds by itself."""

BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
    struct.error,
)


@dataclass(frozen=True, slots=True)
class _Member:
    name: str | None
    version: int | None
    file: str
    info: zipfile.ZipInfo


def write_bundle(folder: LibraryFolder, name: str, version: int | None, target: BinaryIO) -> None:
    """Write a workflow with all its versions, or with one."""

    def write(places: Places) -> None:
        target.seek(0)
        target.truncate()
        newest = max(places)
        tops = {f"{name}/": version or newest}
        if version is None:
            tops |= {f"{name}/{VERSIONS_FOLDER}/{number}/": number for number in places}
        left = LARGEST_CONTENT
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
            for top, number in tops.items():
                left -= _write_files(bundle, top, folder.read_at(name, places, number).files)
                if left < 0 or target.tell() > LARGEST_BUNDLE:
                    raise Conflict(
                        f"All versions of '{name}' are too much for one bundle. Export single "
                        f"ones, such as version {newest}.",
                        code="BUNDLE_TOO_LARGE",
                        details={"limit": LARGEST_BUNDLE},
                    )

    folder.steadily(name, write)


def _write_files(bundle: zipfile.ZipFile, place: str, files: Files) -> int:
    for name, content in files.items():
        bundle.writestr(place + name, content)
    return sum(map(len, files.values()))


class BundleReader:
    """A bundle that was opened and whose list of files is right. Raises InvalidLibraryEntry."""

    def __init__(self, source: BinaryIO) -> None:
        size = _check_end(source)
        try:
            self._zip = zipfile.ZipFile(source)
            members = list(_members(self._zip.infolist(), size))
        except BROKEN as error:
            _refuse(f"it is damaged ({error})", error)
        names = {member.name for member in members}
        if len(names) > 1:
            _refuse("it has more than one workflow")
        self.name = names.pop() if names else None
        self._versions = _by_version(members)

    def versions(self) -> Iterator[Files]:
        """The files of each version in order, one version in memory at a time."""
        left = LARGEST_CONTENT
        for members in self._versions:
            files: dict[str, bytes] = {}
            for member in members:
                content = self._read(member)
                left -= len(content)
                if left < 0:
                    _refuse(f"it holds more than {LARGEST_CONTENT >> 20} MiB")
                files[member.file] = content
            yield files

    def _read(self, member: _Member) -> bytes:
        limit = LIMITS[member.file]
        try:
            with self._zip.open(member.info) as file:
                content = file.read(limit + 1)
                if len(content) <= limit and file.read(1):
                    _refuse(f"{shown(member.info.filename)} is not as large as it says")
        except BROKEN as error:
            name = shown(member.info.filename)
            _refuse(f"it is damaged: {name} cannot be read ({error})", error)
        if len(content) > limit:
            _refuse(f"{shown(member.info.filename)} is larger than {limit} bytes")
        return content


def _check_end(source: BinaryIO) -> int:
    """Look at the last record before anything is read by it: where is the list of files?

    The same record that `zipfile` will use: a zip with a comment, or a large one with a second
    record, is refused. Returns the size of the whole.
    """
    source.seek(0)
    is_zip = source.read(2) == b"PK"
    size = source.seek(0, 2)
    tail_size = _END_RECORD.size + _ZIP64_LOCATOR_SIZE
    source.seek(max(0, size - tail_size))
    tail = source.read(tail_size)
    end = tail[-_END_RECORD.size :]
    if not is_zip:
        _refuse("it is not a zip file")
    if len(end) < _END_RECORD.size or not end.startswith(b"PK\x05\x06"):
        _refuse("it is a zip file that is cut off, or has a comment at its end")
    _, disk, _, _, _, directory_size, directory_start, comment_size = _END_RECORD.unpack(end)
    is_zip64 = tail.startswith(b"PK\x06\x07") and len(tail) == tail_size
    if disk or comment_size or is_zip64:
        _refuse("it has a comment, several parts, or the format for very large files")
    if directory_size > LARGEST_DIRECTORY:
        _refuse("it has too many files")
    # By these numbers zipfile goes to places in the file, and a file refuses one before its
    # start as a broken disk does.
    if directory_start + directory_size + _END_RECORD.size != size:
        _refuse("it is damaged: its list of files is not where it says")
    return size


def _members(infos: Sequence[zipfile.ZipInfo], size: int) -> Iterator[_Member]:
    seen: set[str] = set()
    for info in infos:
        if not 0 <= info.header_offset < size:
            _refuse("it is damaged: a file in it is not where it says")
        # zipfile cuts a name at its first NUL; the whole one is judged.
        path = info.orig_filename
        kind = stat.S_IFMT(info.external_attr >> 16)
        if _PASSED_OVER.fullmatch(path):
            continue
        if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
            _refuse(f"{shown(path)} is a link or a device")
        if info.flag_bits & ENCRYPTED:
            _refuse(f"{shown(path)} is encrypted")
        if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            _refuse(f"{shown(path)} is compressed in a way that is not known here")
        if path in seen:
            _refuse(f"{shown(path)} is in it twice")
        seen.add(path)
        if path.endswith("/") and _FOLDER.fullmatch(path):
            continue
        match = _MEMBER.fullmatch(path)
        if match is None or kind == stat.S_IFDIR:
            _refuse(f"{shown(path)} is no file of a workflow")
        version = match["version"]
        yield _Member(match["name"], int(version) if version else None, match["file"], info)


def _by_version(members: Sequence[_Member]) -> list[list[_Member]]:
    """Members of each version in order; files at the top count where there are no versions."""
    numbered = [member for member in members if member.version is not None]
    grouped: dict[int, list[_Member]] = {}
    for member in numbered or members:
        grouped.setdefault(member.version or 1, []).append(member)
    if not grouped:
        _refuse("there is no workflow in it")
    if len(grouped) > MOST_VERSIONS:
        _refuse(f"it has more than {MOST_VERSIONS} versions")
    for number, group in grouped.items():
        if all(member.file != WORKFLOW_FILE for member in group):
            _refuse(f"version {number} has no {WORKFLOW_FILE}")
    return [grouped[number] for number in sorted(grouped)]


def _refuse(why: str, error: BaseException | None = None) -> NoReturn:
    raise InvalidLibraryEntry(f"The bundle is refused: {why}.", code="INVALID_BUNDLE") from error
