"""Input files for workers that do not see the server's input folder: sent once, by content."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from comfyrail.errors import RequestError
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.comfyui.uploads import CHUNK_BYTES, InputChanged, InputFile, UploadedName
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.file_inputs import file_inputs

SUBFOLDER = "comfyrail"
UPLOADED = "uploads/"
"""Where files of users lie in the input folder."""
LISTED_FOLDER = "3d"
"""ComfyUI's nodes for 3D models take only what lies in this folder."""
HASH_LETTERS = 32
HASHES_KEPT = 10_000
UPLOADS_KEPT = 10_000
TRIES = 3
SUFFIX_LIMIT = 12

FileMark = tuple[str, int, int]
"""Path, size and time of change: the same mark, the same content."""
UploadKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _FileInput:
    """An input of a node that names a file of the server."""

    node_id: str
    input: str
    name: str
    path: Path


class WorkerInputs:
    """One for each worker. What was sent to it is remembered until its socket is opened anew:
    a worker that was restarted may have lost its disk, and is asked.
    """

    def __init__(self, folder: Path, catalog: Callable[[], NodeCatalog]) -> None:
        self._folder = folder
        self._catalog = catalog
        self._hashes: OrderedDict[FileMark, str] = OrderedDict()
        self._uploaded: OrderedDict[UploadKey, UploadedName] = OrderedDict()
        self._life: tuple[ComfyClient, int] | None = None
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}

    async def prepare(self, prompt: Mapping[str, Any], client: ComfyClient) -> Mapping[str, Any]:
        """The graph with the names that its files have on the worker, once they are there.

        Names that lead to no file of the folder stay as they are: the worker says what is missing.
        Raises WorkerError when the worker does not take a file, RequestError when it cannot be
        read or is too large for the worker.
        """
        named = list(_named_files(prompt, self._catalog()))
        if not named:
            return prompt
        found = await asyncio.to_thread(_find_all, self._folder, named)
        replaced: dict[str, Any] = {}
        for each in found:
            uploaded = await self._bring(each, client)
            if uploaded is not None:
                node = replaced.get(each.node_id) or prompt[each.node_id]
                inputs = {**node["inputs"], each.input: uploaded.path}
                replaced[each.node_id] = {**node, "inputs": inputs}
        return {**prompt, **replaced} if replaced else prompt

    async def _bring(self, file: _FileInput, client: ComfyClient) -> UploadedName | None:
        """See that the worker has the file; None when it is gone from here."""
        async with self._turn(str(file.path)):
            for _ in range(TRIES):
                try:
                    return await self._send(file, client)
                except FileNotFoundError:
                    return None
                except InputChanged:
                    continue
                except OSError as error:
                    raise _unreadable(
                        file.name,
                        f"The input file '{file.name}' cannot be read: {error.strerror}. "
                        "Mend its permissions or its disk, then submit the job again.",
                    ) from error
        raise _unreadable(
            file.name,
            f"The input file '{file.name}' changes while it is read. Submit the job again when it "
            "is written.",
        )

    async def _send(self, file: _FileInput, client: ComfyClient) -> UploadedName:
        mark = await asyncio.to_thread(_mark_of, file.path)
        known = self._hashes.get(mark)
        if known is not None:
            self._hashes.move_to_end(mark)
            there = self._known(client).get(_key_of(file, known))
            if there is not None:
                return there
        opened = await asyncio.to_thread(file.path.open, "rb")
        try:
            if known is None:
                known = await asyncio.to_thread(_hash_of, opened)
                _remember(self._hashes, mark, known, HASHES_KEPT)
            content = InputFile(file.name, opened, mark[1], known)
            return await self._upload(file, content, client)
        except InputChanged:
            self._hashes.pop(mark, None)
            raise
        finally:
            await asyncio.to_thread(opened.close)

    async def _upload(
        self, file: _FileInput, content: InputFile, client: ComfyClient
    ) -> UploadedName:
        key = _key_of(file, content.sha256)
        _, subfolder, suffix = key
        wanted = UploadedName(content.sha256[:HASH_LETTERS] + suffix, subfolder)
        async with self._turn(content.sha256):
            there = self._known(client).get(key)
            if there is not None:
                return there  # the same bytes went there under another name meanwhile
            there = wanted
            if not await client.has_input(wanted, content.size):
                there = await client.upload_input(content, wanted)
            _remember(self._known(client), key, there, UPLOADS_KEPT)
            return there

    def _known(self, client: ComfyClient) -> OrderedDict[UploadKey, UploadedName]:
        """What this life of the worker is known to have."""
        if self._life is None or self._life != (client, client.times_opened):
            self._life = (client, client.times_opened)
            self._uploaded = OrderedDict()
        return self._uploaded

    @asynccontextmanager
    async def _turn(self, name: str) -> AsyncIterator[None]:
        """One at a time for each name: the others find it done."""
        lock, users = self._turns.get(name, (asyncio.Lock(), 0))
        self._turns[name] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._turns.pop(name)
            if users > 1:
                self._turns[name] = (lock, users - 1)


def _unreadable(filename: str, message: str) -> RequestError:
    return RequestError(message, code="INPUT_UNREADABLE", details={"filename": filename})


def _named_files(prompt: Mapping[str, Any], catalog: NodeCatalog) -> Iterator[tuple[str, str, str]]:
    """Node id, input and value of everything that may name an input file."""
    for each in file_inputs(_nodes_of(prompt), catalog):
        value = each.value
        if each.is_folder or not isinstance(value, str) or not value:
            continue
        # What is bound to an upload lies in the input folder, wherever the editor looks.
        if each.is_for_inputs or value.startswith(UPLOADED):
            yield each.node_id, each.input, value


def _nodes_of(prompt: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for node_id, node in prompt.items():
        class_type, given = node.get("class_type"), node.get("inputs")
        if isinstance(class_type, str) and isinstance(given, Mapping):
            yield node_id, class_type, given


def _find_all(folder: Path, named: list[tuple[str, str, str]]) -> list[_FileInput]:
    try:
        root = folder.resolve()
    except (OSError, RuntimeError):
        return []
    found = []
    for node_id, name, value in named:
        path = _find(root, value)
        if path is not None:
            found.append(_FileInput(node_id, name, value, path))
    return found


def _find(root: Path, value: str) -> Path | None:
    """The file of the folder that a value names; None for one that is not there or leads out."""
    name = _plain_name(value)
    if name is None:
        return None
    try:
        path = (root / name).resolve()
        return path if path.is_relative_to(root) and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


def _plain_name(value: str) -> str | None:
    """`x.png [input]` means x.png; what is said to be in another folder is not ours."""
    if not value.endswith("]"):
        return value
    name, _, kind = value.removesuffix("]").rpartition(" [")
    return name if name and kind == "input" else None


def _mark_of(path: Path) -> FileMark:
    found = path.stat()
    return str(path), found.st_size, found.st_mtime_ns


def _hash_of(opened: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := opened.read(CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def _key_of(file: _FileInput, sha256: str) -> UploadKey:
    """What a file is known by on the worker: content, folder and ending."""
    name = PurePosixPath(_plain_name(file.name) or file.name)
    is_listed = len(name.parts) > 1 and name.parts[0] == LISTED_FOLDER
    suffix = name.suffix.lower()
    is_plain = suffix[1:].isascii() and suffix[1:].isalnum() and len(suffix) <= SUFFIX_LIMIT
    subfolder = f"{LISTED_FOLDER}/{SUBFOLDER}" if is_listed else SUBFOLDER
    return sha256, subfolder, suffix if is_plain else ""


def _remember(kept: "OrderedDict[Any, Any]", key: Any, value: Any, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
