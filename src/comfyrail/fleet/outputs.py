"""Bringing what a worker made into the blob store: files, texts and other values."""

import asyncio
import json
import mimetypes
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Protocol

from comfyrail.errors import WorkerProtocolError, WorkerUnreachable
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.comfyui.shown import Shown, ShownValue, WorkerFile
from comfyrail.fleet.faults import output_too_large, too_many_values
from comfyrail.ids import new_output_id
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import NewOutput
from comfyrail.sniffing import HEAD_BYTES, JSON, TEXT, UNKNOWN, Claims, detect, refine

DOWNLOADS_AT_ONCE = 4
DOWNLOAD_TRIES = 3
DOWNLOAD_RETRY_SECONDS = 0.5
NAME_LIMIT = 200
FILE_LIMIT = 2000
SIZE_LIMIT = 32 << 30
VALUES_KEPT = 500
VALUE_LIMIT = 1 << 20
"""Bytes of a text or value that a node shows; more belongs into a file."""
UNKNOWN_TYPE = "application/octet-stream"

_CONTENT_TYPES = {
    ".avif": "image/avif",
    ".exr": "image/x-exr",
    ".flac": "audio/flac",
    ".glb": "model/gltf-binary",
    ".gltf": "model/gltf+json",
    ".jxl": "image/jxl",
    ".latent": UNKNOWN_TYPE,
    ".m4a": "audio/mp4",
    ".mkv": "video/x-matroska",
    ".mp3": "audio/mpeg",
    ".mp4": "video/mp4",
    ".obj": "model/obj",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".ply": "model/ply",
    ".safetensors": UNKNOWN_TYPE,
    ".stl": "model/stl",
    ".webm": "video/webm",
    ".webp": "image/webp",
}
"""What not every machine's own table has."""
_TEXTS = frozenset({TEXT, JSON, "text/csv", "text/markdown", "text/vtt", "application/x-subrip"})
"""Those that nothing runs."""


class SavedBlob(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str: ...
    @property
    def blake3(self) -> str: ...


class Saves(Protocol):
    """Keeps bytes."""

    async def save(self, chunks: AsyncIterator[bytes]) -> SavedBlob: ...


class BlobSink(Saves, Protocol):
    """Where outputs go."""

    def settle(self, keys: Collection[str], *, are_kept: bool) -> None:
        """What refers to these is written down, or never will be. Until then they are kept."""
        ...


class AttemptSink:
    """Where the outputs of one attempt go. What it saved is settled when its end is written."""

    def __init__(self, sink: BlobSink) -> None:
        self._sink = sink
        self._saved: list[str] = []

    async def save(self, chunks: AsyncIterator[bytes]) -> SavedBlob:
        blob = await self._sink.save(chunks)
        self._saved.append(blob.key)
        return blob

    def settle(self, written: Sequence[NewOutput]) -> None:
        """`written`: those that the job has now. The others are of no use any more."""
        kept = {output.blob_key for output in written}
        self._sink.settle([key for key in self._saved if key in kept], are_kept=True)
        self._sink.settle([key for key in self._saved if key not in kept], are_kept=False)
        self._saved.clear()


@dataclass(frozen=True, slots=True)
class Fetched:
    """Outputs that are in the blob store now, and what was left out of them."""

    outputs: tuple[NewOutput, ...] = ()
    left_out: Sequence[Fault] = field(default=())
    warnings: Sequence[Fault] = field(default=())
    """What is not with them as it should be."""


async def fetch_outputs(client: ComfyClient, shown: Sequence[Shown], sink: Saves) -> Fetched:
    """Copy every file and keep every value, in their order, a few at a time.

    Raises WorkerUnreachable or WorkerProtocolError when one cannot be had, StoreUnavailable when it
    cannot be kept.
    """
    files = sum(isinstance(each, WorkerFile) for each in shown)
    if files > FILE_LIMIT:
        raise WorkerProtocolError(
            f"The job made {files} files; at most {FILE_LIMIT} are kept.",
            code="TOO_MANY_OUTPUTS",
        )
    wanted, left_out = _without_excess(shown) if len(shown) - files > VALUES_KEPT else (shown, ())
    if len(wanted) > 1:
        kept = await _keep_all(client, wanted, sink)
    else:
        kept = [await _keep(client, each, sink) for each in wanted]
    return Fetched(
        tuple(each for each in kept if isinstance(each, NewOutput)),
        [*(each for each in kept if isinstance(each, Fault)), *left_out],
    )


def _without_excess(shown: Sequence[Shown]) -> tuple[list[Shown], tuple[Fault, ...]]:
    """All files, but only the first values: a node may show thousands of them."""
    kept: list[Shown] = []
    values = 0
    for each in shown:
        values += isinstance(each, ShownValue)
        if isinstance(each, WorkerFile) or values <= VALUES_KEPT:
            kept.append(each)
    return kept, (too_many_values(values, VALUES_KEPT),)


async def save_picture(
    image: bytes, content_type: str, node_id: str, number: int, sink: Saves
) -> NewOutput:
    """Keep a picture that came over the socket. Raises StoreUnavailable."""
    suffix = "png" if content_type == "image/png" else "jpg"
    name = f"picture_{number:05}.{suffix}"
    return await _save(node_id, "images", name, content_type, [image], sink)


async def _keep_all(
    client: ComfyClient, shown: Sequence[Shown], sink: Saves
) -> list[NewOutput | Fault]:
    waiting = iter(enumerate(shown))
    kept: dict[int, NewOutput | Fault] = {}

    async def keep_some() -> None:
        for place, each in waiting:
            kept[place] = await _keep(client, each, sink)

    lanes = [
        asyncio.create_task(keep_some(), name="outputs-lane")
        for _ in range(min(DOWNLOADS_AT_ONCE, len(shown)))
    ]
    try:
        await asyncio.gather(*lanes)
    finally:
        for lane in lanes:
            lane.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)
    return [kept[place] for place in range(len(shown))]


async def _keep(client: ComfyClient, each: Shown, sink: Saves) -> NewOutput | Fault:
    return await (
        _fetch(client, each, sink) if isinstance(each, WorkerFile) else _keep_value(each, sink)
    )


async def _keep_value(shown: ShownValue, sink: Saves) -> NewOutput | Fault:
    is_text = isinstance(shown.value, str)
    content = await _encoded(shown.value)
    if len(content) > VALUE_LIMIT:
        return output_too_large(shown.node_id, shown.name, VALUE_LIMIT)
    number = "" if shown.number == 1 else f"_{shown.number}"
    name = safe_name(f"{shown.name}{number}.{'txt' if is_text else 'json'}")
    kind = "text" if is_text else "value"
    content_type = "text/plain" if is_text else "application/json"
    return await _save(shown.node_id, kind, name, content_type, [content], sink)


async def _encoded(value: Any) -> bytes:
    if isinstance(value, str):
        return value[: VALUE_LIMIT + 1].encode("utf-8", "replace")
    if isinstance(value, dict | list):
        # It may be as large as a whole reply.
        return await asyncio.to_thread(_encode, value)
    return _encode(value)


def _encode(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    except (ValueError, RecursionError):  # numbers beyond all bounds, lists in lists in lists
        return b'"cannot be written as JSON"'


async def _fetch(client: ComfyClient, file: WorkerFile, sink: Saves) -> NewOutput:
    for remaining in reversed(range(DOWNLOAD_TRIES)):
        try:
            head = _Head(_limited(client.download(file), file.filename))
            blob = await sink.save(head.passing())
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
        content_type=judged_type(name, bytes(head.seen), is_whole=head.is_whole),
        size=blob.size,
        sha256=blob.sha256,
        blob_key=blob.key,
        blake3=blob.blake3,
    )


async def _save(
    node_id: str,
    kind: str,
    filename: str,
    content_type: str,
    chunks: Iterable[bytes],
    sink: Saves,
) -> NewOutput:
    blob = await sink.save(_stream(chunks))
    return NewOutput(
        id=new_output_id(),
        node_id=node_id,
        kind=kind,
        filename=filename,
        subfolder="",
        is_temporary=False,
        content_type=content_type,
        size=blob.size,
        sha256=blob.sha256,
        blob_key=blob.key,
        blake3=blob.blake3,
    )


async def _stream(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


class _Head:
    """Lets the chunks of a file pass, and keeps how it begins."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self.seen = bytearray()
        self.is_whole = True

    async def passing(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            room = HEAD_BYTES - len(self.seen)
            self.seen += chunk[:room]
            self.is_whole = self.is_whole and len(chunk) <= room
            yield chunk


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


def content_type_of(filename: str) -> str:
    suffix = PurePosixPath(filename).suffix.lower()
    return _CONTENT_TYPES.get(suffix) or mimetypes.guess_type(filename)[0] or UNKNOWN_TYPE


def judged_type(filename: str, head: bytes, *, is_whole: bool) -> str:
    """What the first bytes of a file show; where they show nothing, or a text, which may be of
    any kind, what its name says.
    """
    found = refine(detect(head, is_whole=is_whole), Claims(filename))
    if found not in {UNKNOWN, TEXT, JSON}:
        return found
    named = content_type_of(filename)
    if found == UNKNOWN:
        return named
    return named if named in _TEXTS or named.startswith("model/") else found


def safe_name(filename: str) -> str:
    """A worker's file name without folders and control characters."""
    last = PurePosixPath(filename.replace("\\", "/")).name
    cleaned = "".join(char for char in last if char.isprintable()).strip(". ")
    return cleaned[-NAME_LIMIT:] or "output"
