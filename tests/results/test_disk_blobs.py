"""The blob store on disk [8.1]."""

import asyncio
from pathlib import Path

import pytest

from comfyrail.errors import ConfigurationError
from comfyrail.results.disk_blobs import DiskBlobStore
from tests.results.parts import chunks, files_in


async def test_leftovers_of_a_crash_are_removed_at_start(tmp_path: Path) -> None:
    DiskBlobStore(tmp_path)
    (tmp_path / "incoming" / "half").write_bytes(b"x")
    DiskBlobStore(tmp_path)
    assert files_in(tmp_path) == []


def test_folder_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be written"):
        DiskBlobStore(tmp_path / "file" / "blobs")


async def test_file_that_somebody_uses_by_its_name_stays(tmp_path: Path) -> None:
    blobs = DiskBlobStore(tmp_path)
    blob = await blobs.save(chunks(b"in use"))
    blobs.settle([blob.key], are_kept=False)
    files = await blobs.look_at([blob.key])
    async with blobs.local(blob.key) as path:
        assert await blobs.remove(files) == 0
        assert await asyncio.to_thread(path.read_bytes) == b"in use"
    assert await blobs.remove(files) == 1


async def test_disk_gives_no_urls(tmp_path: Path) -> None:
    blobs = DiskBlobStore(tmp_path)
    blob = await blobs.save(chunks(b"x"))
    url = await blobs.signed_url(
        blob.key, 60, filename="x", content_type="text/plain", is_inline=False
    )
    assert url is None
