"""Places for blobs: a disk, a bucket on a real S3 server, and both as tiers."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from comfyrail.results.blob_store import BlobStore
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.results.tiered_blobs import TieredBlobStore
from tests.results.parts import Bucket, s3_environment
from tests.services.seaweed import SeaweedS3, seaweed_s3


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedS3]:
    with seaweed_s3(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@pytest.fixture
def bucket(s3: SeaweedS3, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A folder of its own in the bucket."""
    for name, value in s3_environment(s3).items():
        monkeypatch.setenv(name, value)
    return Bucket(s3)


@pytest.fixture(params=["disk", "s3", "tiered", "tiered_s3"])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BlobStore]:
    """Each kind of store."""
    match request.param:
        case "disk":
            store: BlobStore = DiskBlobStore(tmp_path / "blobs")
        case "s3":
            store = request.getfixturevalue("bucket").store(tmp_path / "cache")
        case "tiered":
            cold = DiskBlobStore(tmp_path / "archive")
            store = TieredBlobStore(DiskBlobStore(tmp_path / "blobs"), {"archive": cold})
        case _:
            cold_s3 = request.getfixturevalue("bucket").store(tmp_path / "cache")
            store = TieredBlobStore(DiskBlobStore(tmp_path / "blobs"), {"archive": cold_s3})
    yield store
    await store.close()
