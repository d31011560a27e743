"""Bundles: what comes in is hostile until checked [1.4]."""

import contextlib
import errno
import io
import json
import stat
import struct
import tempfile
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comfyrail.errors import Conflict, InvalidLibraryEntry, PayloadTooLarge
from comfyrail.library import bundles
from comfyrail.library import library as library_module
from comfyrail.library.bundles import BundleReader
from comfyrail.library.library import WorkflowLibrary
from comfyrail.library.writer import Added
from tests.library.parts import LOCAL, accept_all, files_under, png, workflow_file, zipped


async def in_chunks(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1 << 16):
        yield content[start : start + (1 << 16)]


async def imported(
    library: WorkflowLibrary, content: bytes, name: str | None = None, *, replace: bool = False
) -> Added:
    return await library.import_bundle(
        LOCAL, in_chunks(content), name, replace=replace, check=accept_all
    )


async def exported(library: WorkflowLibrary, name: str, version: int | None = None) -> bytes:
    with await library.export_bundle(LOCAL, name, version) as file:
        return file.read()


async def three_versions(library: WorkflowLibrary) -> None:
    for number in (1, 2, 3):
        changes = workflow_file({"number": number}) | {"preview.png": png()}
        await library.save(LOCAL, "poster", changes, accept_all)


async def numbers_of(library: WorkflowLibrary, name: str) -> list[int]:
    versions = (await library.read(LOCAL, name)).versions
    files = [(await library.read(LOCAL, name, each)).files for each in versions]
    return [json.loads(each["workflow.json"])["number"] for each in files]


async def test_bundle_brings_every_version_to_another_library(
    library: WorkflowLibrary, tmp_path: Path
) -> None:
    await three_versions(library)
    content = await exported(library, "poster")
    other = WorkflowLibrary(tmp_path / "other", LOCAL)
    try:
        added = await imported(other, content)
        assert (added.name, added.versions, added.is_new) == ("poster", (1, 2, 3), True)
        assert await numbers_of(other, "poster") == [1, 2, 3]
        assert (await other.read(LOCAL, "poster", 2)).has_preview
    finally:
        other.close()


async def test_bundle_unpacked_by_hand_is_the_same_workflow(
    library: WorkflowLibrary, tmp_path: Path
) -> None:
    await three_versions(library)
    content = await exported(library, "poster")
    await library.delete(LOCAL, "poster")
    with zipfile.ZipFile(io.BytesIO(content)) as bundle:
        bundle.extractall(tmp_path / "workflows")
    assert await numbers_of(library, "poster") == [1, 2, 3]


async def test_name_that_is_taken_is_refused_unless_asked_for(library: WorkflowLibrary) -> None:
    await three_versions(library)
    content = await exported(library, "poster")
    with pytest.raises(Conflict, match="already") as caught:
        await imported(library, content)
    assert caught.value.code == "WORKFLOW_EXISTS"
    assert (await imported(library, content, "other")).name == "other"
    added = await imported(library, content, replace=True)
    assert (added.versions, added.is_new) == ((4, 5, 6), False)
    assert await numbers_of(library, "poster") == [1, 2, 3, 1, 2, 3]


async def test_one_version_is_exported_alone(library: WorkflowLibrary) -> None:
    await three_versions(library)
    content = await exported(library, "poster", 2)
    await imported(library, content, "two")
    assert await numbers_of(library, "two") == [2]


async def test_folder_that_a_person_has_zipped_is_taken(library: WorkflowLibrary) -> None:
    content = zipped(
        {
            "mine/": b"",
            "mine/workflow.json": b'{"number": 5}',
            "mine/.DS_Store": b"x",
            "__MACOSX/mine/._workflow.json": b"x",
        }
    )
    assert (await imported(library, content)).name == "mine"
    assert await numbers_of(library, "mine") == [5]
    bare = zipped({"workflow.json": b"{}"})
    assert (await imported(library, bare, "bare")).name == "bare"
    with pytest.raises(InvalidLibraryEntry, match="cannot be a workflow's name"):
        await imported(library, bare)


def with_link() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as bundle:
        link = zipfile.ZipInfo("a/workflow.json")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        bundle.writestr(link, "/etc/passwd")
    return content.getvalue()


def twice() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as bundle:
        bundle.writestr("a/workflow.json", "{}")
        with pytest.warns(UserWarning, match="Duplicate"):
            bundle.writestr("a/workflow.json", "{}")
    return content.getvalue()


def encrypted() -> bytes:
    content = bytearray(zipped({"a/workflow.json": b"{}"}))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def other_compression() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_LZMA) as bundle:
        bundle.writestr("a/workflow.json", "{}")
    return content.getvalue()


def understated() -> bytes:
    """Says that it has 10 bytes, and inflates to 20 MiB."""
    content = bytearray(zipped({"a/workflow.json": b" " * (20 << 20)}))
    size = struct.pack("<L", 20 << 20)
    assert content.count(size) == 2
    return bytes(content).replace(size, struct.pack("<L", 10))


def broken_data() -> bytes:
    content = bytearray(zipped({"a/workflow.json": json.dumps(list(range(1000))).encode()}))
    content[60] ^= 0xFF
    return bytes(content)


def many_files() -> bytes:
    return zipped({f"a/versions/{number}/workflow.json": b"" for number in range(1, 20_000)})


def with_comment() -> bytes:
    content = io.BytesIO(zipped({"a/workflow.json": b"{}"}))
    with zipfile.ZipFile(content, "a") as bundle:
        bundle.comment = b"hello"
    return content.getvalue()


def lying_end() -> bytes:
    """The last record says that the list of files is 4 GiB."""
    content = bytearray(zipped({"a/workflow.json": b"{}"}))
    content[-10:-6] = b"\xff\xff\xff\xff"
    return bytes(content)


def in_end_record(place: int, value: int) -> bytes:
    content = bytearray(zipped({"a/workflow.json": b"{}"}))
    content[place : place + 4 or None] = struct.pack("<L", value)
    return bytes(content)


def misplaced_file() -> bytes:
    """The list says that the file is near the end of 4 GiB."""
    content = bytearray(zipped({"a/workflow.json": b"{}"}))
    place = content.index(b"PK\x01\x02") + 42
    content[place : place + 4] = struct.pack("<L", 0xFFFFFFF0)
    return bytes(content)


def file_beyond_all_disks() -> bytes:
    """The list says, in the form for large files, that the file is where no file system reaches."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as bundle:
        info = zipfile.ZipInfo("a/workflow.json")
        bundle.writestr(info, "{}")
        info.extra = struct.pack("<HHQ", 1, 8, (1 << 63) - 1)
    damaged = bytearray(content.getvalue())
    place = damaged.index(b"PK\x01\x02") + 42
    damaged[place : place + 4] = b"\xff\xff\xff\xff"
    return bytes(damaged)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "traversal": (lambda: zipped({"a/../../workflow.json": b"{}"}), "no file of a workflow"),
    "parent": (lambda: zipped({"../workflow.json": b"{}"}), "no file of a workflow"),
    "absolute": (lambda: zipped({"/etc/workflow.json": b"{}"}), "no file of a workflow"),
    "backslash": (lambda: zipped({"a\\..\\workflow.json": b"{}"}), "no file of a workflow"),
    "nul": (
        lambda: zipped({"a/workflow.jsonX": b"{}"}).replace(b"jsonX", b"json\0"),
        "no file of a workflow|cannot be read",
    ),
    "nested": (lambda: zipped({"a/workflow.json": b"{}", "a/b.zip": b"PK"}), "no file of"),
    "deep": (lambda: zipped({"a/b/workflow.json": b"{}"}), "no file of a workflow"),
    "link": (with_link, "a link or a device"),
    "twice": (twice, "in it twice"),
    "encrypted": (encrypted, "encrypted"),
    "lzma": (other_compression, "not known here"),
    "two workflows": (
        lambda: zipped({"a/workflow.json": b"{}", "b/workflow.json": b"{}"}),
        "more than one workflow",
    ),
    "no workflow": (lambda: zipped({"a/description.md": b"x"}), r"has no workflow\.json"),
    "half a version": (
        lambda: zipped({"a/versions/1/workflow.json": b"{}", "a/versions/2/preview.png": png()}),
        r"version 2 has no workflow\.json",
    ),
    "empty": (lambda: zipped({}), "no workflow in it"),
    "no zip": (lambda: b"hello" * 20, r"it is not a zip file\.$"),
    "nothing": (lambda: b"", r"it is not a zip file\.$"),
    "bomb": (lambda: zipped({"a/workflow.json": b" " * (20 << 20)}), "larger than 10485760"),
    "understated bomb": (understated, "cannot be read|not as large"),
    "broken": (broken_data, "cannot be read"),
    "many files": (many_files, "too many files"),
    "comment": (with_comment, "comment"),
    "lying end": (lying_end, "too many files"),
    "cut": (lambda: zipped({"a/workflow.json": b"{}"})[:-30], "cut off"),
    "list beyond the end": (lambda: in_end_record(-6, 0xFFFFFFF0), "is damaged"),
    "list before its place": (lambda: in_end_record(-6, 3), "is damaged"),
    "list that is too long": (lambda: in_end_record(-10, 1 << 20), "is damaged"),
    "misplaced file": (misplaced_file, "is damaged"),
    "file beyond all disks": (file_beyond_all_disks, "is damaged"),
}


@pytest.mark.parametrize("kind", sorted(HOSTILE))
async def test_hostile_bundle_is_refused_and_leaves_nothing(
    library: WorkflowLibrary, tmp_path: Path, kind: str
) -> None:
    make, said = HOSTILE[kind]
    with pytest.raises(InvalidLibraryEntry, match=said) as caught:
        await imported(library, make(), "a")
    assert caught.value.code == "INVALID_BUNDLE"
    assert files_under(tmp_path) == []
    assert (await library.page(LOCAL, "", 9)).entries == []


async def test_all_files_together_are_counted_as_they_inflate(
    library: WorkflowLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "LARGEST_CONTENT", 5 << 20)
    content = zipped({f"a/versions/{each}/workflow.json": b" " * (2 << 20) for each in (1, 2, 3)})
    assert len(content) < 1 << 16
    with pytest.raises(InvalidLibraryEntry, match="more than 5 MiB"):
        await imported(library, content)


async def test_bundle_is_cut_off_at_its_limit(
    library: WorkflowLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_module, "LARGEST_BUNDLE", 1 << 20)
    with pytest.raises(PayloadTooLarge, match="larger than 1 MiB"):
        await imported(library, bytes(2 << 20))


async def test_too_much_for_one_bundle_is_said_at_export(
    library: WorkflowLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    await three_versions(library)
    monkeypatch.setattr(bundles, "LARGEST_CONTENT", 200)
    with pytest.raises(Conflict, match="Export single ones"):
        await exported(library, "poster")
    assert await exported(library, "poster", 1)


async def test_one_bad_version_keeps_all_out(library: WorkflowLibrary) -> None:
    content = zipped(
        {
            "a/versions/1/workflow.json": b"{}",
            "a/versions/2/workflow.json": b"{}",
            "a/versions/2/preview.png": b"no png",
        }
    )
    with pytest.raises(InvalidLibraryEntry, match="not a PNG"):
        await imported(library, content)
    assert (await library.page(LOCAL, "", 9)).entries == []


MEMBERS = st.dictionaries(
    st.one_of(
        st.text(min_size=1, max_size=40),
        st.sampled_from(
            ["a/workflow.json", "a/versions/1/workflow.json", "a/preview.png", "../workflow.json"]
        ),
    ),
    st.binary(max_size=60),
    max_size=5,
)


CHANGES = st.dictionaries(st.integers(-120, 400), st.integers(0, 255), max_size=6)


@settings(max_examples=150, deadline=None)
@given(MEMBERS, CHANGES)
def test_any_bytes_are_a_bundle_or_a_refusal(
    members: dict[str, bytes], changes: dict[int, int]
) -> None:
    try:
        content = bytearray(zipped(members))
    except (ValueError, UnicodeError, IndexError):
        return  # names that zipfile itself cannot write
    for place, value in changes.items():
        if -len(content) <= place < len(content):
            content[place] = value
    # A real file: it refuses other places than bytes in memory do.
    with tempfile.TemporaryFile() as file, contextlib.suppress(InvalidLibraryEntry):
        file.write(content)
        for files in BundleReader(file).versions():
            assert "workflow.json" in files


class BrokenDisk(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        del size
        raise OSError(errno.EIO, "Input/output error")


def test_fault_of_the_disk_is_not_said_of_the_bundle() -> None:
    with pytest.raises(OSError, match="Input/output error"):
        BundleReader(BrokenDisk(zipped({"a/workflow.json": b"{}"})))
