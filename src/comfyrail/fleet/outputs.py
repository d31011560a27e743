"""Bringing a worker's files into the blob store."""

import asyncio
import mimetypes
from collections.abc import AsyncIterator
from pathlib import PurePosixPath
from typing import Protocol

from comfyrail.errors import WorkerProtocolError, WorkerUnreachable
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.comfyui.history import WorkerFile
from comfyrail.ids import new_output_id
from comfyrail.jobs.job import NewOutput

DOWNLOAD_TRIES = 3
DOWNLOAD_RETRY_SECONDS = 0.5
NAME_LIMIT = 200
FILE_LIMIT = 2000
SIZE_LIMIT = 32 << 30


class SavedBlob(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str: ...


class BlobSink(Protocol):
    """Where outputs go."""

    async def save(self, chunks: AsyncIterator[bytes]) -> SavedBlob: ...


async def fetch_outputs(
    client: ComfyClient, files: tuple[WorkerFile, ...], sink: BlobSink
) -> tuple[NewOutput, ...]:
    """Copy every file.

    Raises WorkerUnreachable or WorkerProtocolError when one cannot be had, StoreUnavailable when it
    cannot be kept.
    """
    if len(files) > FILE_LIMIT:
        raise WorkerProtocolError(
            f"The job made {len(files)} files; at most {FILE_LIMIT} are kept.",
            code="TOO_MANY_OUTPUTS",
        )
    return tuple([await _fetch(client, file, sink) for file in files])


async def _fetch(client: ComfyClient, file: WorkerFile, sink: BlobSink) -> NewOutput:
    for remaining in reversed(range(DOWNLOAD_TRIES)):
        try:
            blob = await sink.save(_limited(client.download(file), file.filename))
            break
        except WorkerUnreachable:
            if not remaining:
                raise
            await asyncio.sleep(DOWNLOAD_RETRY_SECONDS)
    name = safe_name(file.filename)
    return NewOutput(
        id=new_output_id(),
        node_id=file.node_id,
        kind=file.kind,
        filename=name,
        subfolder=file.subfolder[:NAME_LIMIT],
        is_temporary=file.folder_type == "temp",
        content_type=mimetypes.guess_type(name)[0] or "application/octet-stream",
        size=blob.size,
        sha256=blob.sha256,
        blob_key=blob.key,
    )


async def _limited(chunks: AsyncIterator[bytes], filename: str) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > SIZE_LIMIT:
            raise WorkerProtocolError(
                f"The output {safe_name(filename)} is larger than {SIZE_LIMIT >> 30} GiB.",
                code="OUTPUT_TOO_LARGE",
            )
        yield chunk


def safe_name(filename: str) -> str:
    """A worker's file name without folders and control characters."""
    last = PurePosixPath(filename.replace("\\", "/")).name
    cleaned = "".join(char for char in last if char.isprintable()).strip(". ")
    return cleaned[-NAME_LIMIT:] or "output"
