"""What tests of blob stores have in common."""

import hashlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import obstore

from comfyrail.ids import new_uuid
from comfyrail.results.blob_keys import key_of
from comfyrail.results.blob_store import BlobReads
from comfyrail.results.object_blobs import ObjectBlobStore
from comfyrail.results.object_location import ObjectLocation, open_location
from tests.services.seaweed import SeaweedS3

CACHE_BYTES = 64 << 20


def s3_environment(s3: SeaweedS3, endpoint: str | None = None) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": endpoint or s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        "AWS_REGION": "us-east-1",
    }


class Bucket:
    """A folder of its own in the bucket of an S3 server. Asks that server, whatever is between it
    and the store.
    """

    def __init__(self, s3: SeaweedS3) -> None:
        self.url = f"s3://{s3.bucket}/{new_uuid()}"
        self.endpoint = s3.endpoint
        self._direct = open_location(self.url, "blob_url")

    def store(self, folder: Path, **options: Any) -> ObjectBlobStore:
        options.setdefault("cache_bytes", CACHE_BYTES)
        location = open_location(self.url, "blob_url")
        return ObjectBlobStore(location, folder, **options)

    @property
    def location(self) -> ObjectLocation:
        return self._direct

    def put(self, key: str, content: bytes) -> None:
        obstore.put(self._direct.bucket, self._direct.path_of(key), content)

    def get(self, key: str) -> bytes:
        return bytes(obstore.get(self._direct.bucket, self._direct.path_of(key)).bytes())

    def names(self) -> set[str]:
        listing = obstore.list(self._direct.bucket, self._direct.folder)
        return {self._direct.name_of(str(meta["path"])) for objects in listing for meta in objects}


def content_of(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


def key_for(content: bytes) -> str:
    return key_of(hashlib.sha256(content).hexdigest())


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def in_pieces(content: bytes, size: int = 1 << 20) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def read(blobs: BlobReads, key: str, start: int = 0, stop: int | None = None) -> bytes:
    blob = await blobs.open(key)
    return b"".join([chunk async for chunk in blob.chunks(start, stop)])


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
