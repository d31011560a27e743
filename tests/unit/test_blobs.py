"""The blob store on disk [8.1]."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from comfyrail.errors import ConfigurationError, OutputNotFound
from comfyrail.results.blobs import WRITE_SIZE, LocalBlobStore


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("size", [0, 5, WRITE_SIZE - 1, WRITE_SIZE, 3 * WRITE_SIZE + 7])
async def test_bytes_come_back_as_they_went_in(tmp_path: Path, size: int) -> None:
    store = LocalBlobStore(tmp_path)
    content = bytes(range(256)) * (size // 256 + 1)
    content = content[:size]
    half = size // 2
    blob = await store.save(chunks(content[:half], content[half:]))
    assert store.path_of(blob.key).read_bytes() == content
    assert (blob.size, blob.sha256) == (size, hashlib.sha256(content).hexdigest())


async def test_equal_content_is_kept_once(tmp_path: Path) -> None:
    store = LocalBlobStore(tmp_path)
    first = await store.save(chunks(b"same"))
    second = await store.save(chunks(b"sa", b"me"))
    assert first == second
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("before", [10, 2 * WRITE_SIZE])
async def test_source_that_breaks_off_leaves_no_file(tmp_path: Path, before: int) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * before
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await LocalBlobStore(tmp_path).save(broken())
    assert files(tmp_path) == []


async def test_leftovers_of_a_crash_are_removed_at_start(tmp_path: Path) -> None:
    LocalBlobStore(tmp_path)
    (tmp_path / "incoming" / "half").write_bytes(b"x")
    LocalBlobStore(tmp_path)
    assert files(tmp_path) == []


@pytest.mark.parametrize("key", ["../x", "ab/../../x", "", "ab", "ab/" + "0" * 64])
async def test_keys_that_name_no_blob_lead_nowhere(tmp_path: Path, key: str) -> None:
    (tmp_path.parent / "x").touch()
    with pytest.raises(OutputNotFound):
        LocalBlobStore(tmp_path).path_of(key)


def test_folder_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be written"):
        LocalBlobStore(tmp_path / "file" / "blobs")
