"""Input files on their way to a worker, streamed, and what the worker answers."""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import BinaryIO

import aiohttp

from comfyrail.errors import RequestError, WorkerProtocolError
from comfyrail.fleet.comfyui.decoding import decode_reply, shorten

CHUNK_BYTES = 1 << 18
STALL_SECONDS = 60.0
"""A worker that takes nothing, or says nothing at the end, for so long is not there."""
NAME_LIMIT = 500
UPLOAD_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5)


class InputChanged(Exception):
    """The file is no longer what it was when its content was hashed."""


@dataclass(frozen=True, slots=True)
class UploadedName:
    """A file in the worker's input folder."""

    name: str
    subfolder: str

    @property
    def path(self) -> str:
        """As a node's input names it."""
        return f"{self.subfolder}/{self.name}" if self.subfolder else self.name


@dataclass(frozen=True, slots=True)
class InputFile:
    """An open file whose content is known by its hash."""

    name: str
    """As the workflow has it: for messages."""
    content: BinaryIO
    size: int
    sha256: str


class UploadBody:
    """A form with one file in it, read as fast as the worker takes it.

    The last bytes are given only if all together have the hash that the file is known by: what has
    changed meanwhile never becomes a whole file on the worker.
    """

    def __init__(self, file: InputFile, wanted: UploadedName) -> None:
        self._file = file
        self.error: Exception | None = None
        """Why the file could not be read to its end."""
        boundary = f"comfyrail-{secrets.token_hex(16)}"
        fields = {"type": "input", "subfolder": wanted.subfolder}
        self._head = "".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in fields.items()
        )
        self._head += (
            f"--{boundary}\r\nContent-Disposition: form-data; "
            f'name="image"; filename="{wanted.name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        self._tail = f"\r\n--{boundary}--\r\n"
        self.headers = {
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Length": str(len(self._head) + file.size + len(self._tail)),
        }
        self._limit: asyncio.Timeout | None = None

    @asynccontextmanager
    async def stall_limit(self) -> AsyncIterator[None]:
        """Raise TimeoutError when the worker has taken nothing for STALL_SECONDS."""
        async with asyncio.timeout(STALL_SECONDS) as self._limit:
            yield

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            yield self._head.encode()
            async for chunk in self._content():
                if self._limit is not None and not self._limit.expired():
                    self._limit.reschedule(asyncio.get_running_loop().time() + STALL_SECONDS)
                yield chunk
            yield self._tail.encode()
        except (OSError, InputChanged) as error:
            self.error = error
            raise

    async def _content(self) -> AsyncIterator[bytes]:
        read, size, digest = self._file.content.read, 0, hashlib.sha256()
        await asyncio.to_thread(self._file.content.seek, 0)
        while size < self._file.size:
            chunk = await asyncio.to_thread(read, min(CHUNK_BYTES, self._file.size - size))
            digest.update(chunk)
            size += len(chunk)
            is_last = not chunk or size == self._file.size
            if is_last and digest.hexdigest() != self._file.sha256:
                raise InputChanged
            yield chunk


def explain_refusal(
    endpoint: str, filename: str, status: int, content: bytes
) -> RequestError | WorkerProtocolError:
    """What an answer other than 200 means."""
    if status == 413:
        return RequestError(
            f"The input file '{filename}' is larger than the worker at {endpoint} takes. Make it "
            "smaller, or raise the worker's limit (ComfyUI: --max-upload-size).",
            code="INPUT_TOO_LARGE",
            details={"filename": filename},
        )
    said = shorten(content[:1000].decode(errors="replace").strip(), 200)
    return _not_taken(
        filename,
        f"The worker at {endpoint} did not take the input file '{filename}': it answered "
        f"{status} ({said or 'without a word'}). See its log; its disk may be full.",
    )


def read_uploaded(endpoint: str, filename: str, content: bytes) -> UploadedName:
    """The worker's answer: it may have given the file another name."""
    try:
        said = decode_reply(content)
    except WorkerProtocolError:
        said = None
    name = said.get("name") if isinstance(said, dict) else None
    subfolder = said.get("subfolder") if isinstance(said, dict) else None
    if not _is_name(name) or not (subfolder == "" or _is_name(subfolder)):
        raise _not_taken(
            filename,
            f"The worker at {endpoint} took the input file '{filename}', but its answer does not "
            "say under which name. Is it a ComfyUI?",
        )
    return UploadedName(str(name), str(subfolder))


def _not_taken(filename: str, message: str) -> WorkerProtocolError:
    details = {"filename": filename}
    return WorkerProtocolError(message, code="INPUT_UPLOAD_FAILED", details=details)


def _is_name(said: object) -> bool:
    return isinstance(said, str) and 0 < len(said) <= NAME_LIMIT and said.isprintable()
