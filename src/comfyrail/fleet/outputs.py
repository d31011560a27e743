"""Bringing a worker's files into the blob store."""

import asyncio
import mimetypes
from collections.abc import AsyncIterator
from pathlib import PurePosixPath
from typing import Protocol

from comfyrail.errors import WorkerUnreachable
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.comfyui.history import WorkerFile
from comfyrail.ids import new_output_id
from comfyrail.jobs.job import NewOutput

DOWNLOAD_TRIES = 3
DOWNLOAD_RETRY_SECONDS = 0.5
NAME_LIMIT = 200


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
    """Copy every file; raises WorkerUnreachable or WorkerProtocolError when one cannot be had."""
    return tuple([await _fetch(client, file, sink) for file in files])


async def _fetch(client: ComfyClient, file: WorkerFile, sink: BlobSink) -> NewOutput:
    for remaining in reversed(range(DOWNLOAD_TRIES)):
        try:
            blob = await sink.save(client.download(file))
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


def safe_name(filename: str) -> str:
    """A worker's file name without folders and control characters."""
    last = PurePosixPath(filename.replace("\\", "/")).name
    cleaned = "".join(char for char in last if char.isprintable()).strip(". ")
    return cleaned[-NAME_LIMIT:] or "output"
