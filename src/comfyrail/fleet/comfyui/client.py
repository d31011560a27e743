"""One client for every worker that speaks ComfyUI's HTTP protocol."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal
from urllib.parse import quote

import aiohttp
import msgspec

from comfyrail.clock import SystemClock
from comfyrail.errors import PromptRejected, WorkerProtocolError, WorkerUnreachable
from comfyrail.fleet.comfyui.decoding import decode_reply
from comfyrail.fleet.comfyui.history import HistoryEntry, parse_history
from comfyrail.fleet.comfyui.shown import WorkerFile
from comfyrail.fleet.comfyui.uploads import (
    UPLOAD_TIMEOUT,
    InputFile,
    UploadBody,
    UploadedName,
    explain_refusal,
    read_uploaded,
)
from comfyrail.fleet.patience import Contact

CALL_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
QUICK_SECONDS = 5.0
DOWNLOAD_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=30)
REPLY_LIMIT = 64 << 20
SOCKET_MESSAGE_LIMIT = 64 << 20
SOCKET_HEARTBEAT_SECONDS = 10.0
SOCKET_CLOSE_SECONDS = 1.0
DOWNLOAD_CHUNK = 1 << 18
DECODED_AT_ONCE = 1 << 20
"""Replies up to this size are decoded on the event loop, larger ones in a thread."""

SERVER_MARK = "comfyrail_server"
"""What a Comfyrail server says of itself in place of a worker, in its system_stats."""

FEATURE_FLAGS = '{"type":"feature_flags","data":{"supports_preview_metadata":true}}'

REPLY_KEPT = 8000
PASSED_ON = frozenset({"extra_pnginfo", "preview_method"})
"""Of what a client gives. Not `comfyrail`: options of the engine that nobody has checked."""
FOLDER_LIMIT = 200
# UnicodeError: a host name that cannot be encoded.
FOREIGN_ERRORS = (aiohttp.ClientError, OSError, TimeoutError, UnicodeError)

Presence = Literal["queued", "running", "absent"]


class ComfyClient:
    """Calls to one worker. Foreign errors become WorkerUnreachable or WorkerProtocolError."""

    def __init__(
        self,
        endpoint: str,
        http: aiohttp.ClientSession,
        quick_seconds: float = QUICK_SECONDS,
        contact: Contact | None = None,
    ) -> None:
        """`quick_seconds` limits the small calls by which a session follows its prompt; `contact`
        is told of every answer and of every call that goes without one.
        """
        self.endpoint = endpoint.rstrip("/")
        self.contact = contact or Contact(SystemClock())
        self.times_opened = 0
        """Sockets so far: what the worker knew before the last one it may have forgotten."""
        self._http = http
        self._quick = _exactly(quick_seconds)
        self._calls: dict[str, set[asyncio.Timeout]] = {}
        """Those under way, by the prompt that they are about."""

    async def ask_for_sign(self, seconds: float) -> None:
        """Whether anybody is there: any answer will do. Raises WorkerUnreachable."""
        async with self._call("GET", "/prompt", timeout=_exactly(seconds)):
            return

    def drop_calls(self, prompt_id: str) -> None:
        """Whoever waits for an answer about the prompt gets WorkerUnreachable now."""
        for limit in self._calls.get(prompt_id, ()):
            limit.reschedule(asyncio.get_running_loop().time())

    async def system_stats(self) -> Mapping[str, Any]:
        stats = await self._get_json("/system_stats")
        if not isinstance(stats, dict) or "system" not in stats:
            raise WorkerProtocolError(f"{self.endpoint} does not answer like a ComfyUI server.")
        if isinstance(stats["system"], dict) and SERVER_MARK in stats["system"]:
            raise WorkerProtocolError(
                f"{self.endpoint} is a Comfyrail server, not a worker: its jobs would come back to "
                "itself. Add its workers, or ComfyUI behind it."
            )
        return stats

    async def object_info(self) -> bytes:
        """The node catalog as the worker wrote it."""
        return await self._get("/object_info")

    async def model_folders(self) -> list[str]:
        """The kinds of models that the worker has folders for."""
        folders = await self._get_json("/experiment/models", self._quick)
        entries = folders if isinstance(folders, list) else []
        names = (entry.get("name") for entry in entries[:FOLDER_LIMIT] if isinstance(entry, dict))
        return [name for name in names if isinstance(name, str)]

    async def models_in(self, folder: str) -> list[Any]:
        """Its models of one kind, as `{"name", "size", …}`."""
        models = await self._get_json(f"/experiment/models/{quote(folder, safe='')}", self._quick)
        return models if isinstance(models, list) else []

    async def submit(
        self,
        prompt: Mapping[str, Any],
        prompt_id: str,
        client_id: str,
        execution_config: Mapping[str, Any] | None = None,
        *,
        with_previews: bool = False,
        extra_data: Mapping[str, Any] | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        """Queue a graph under an id of our own. Raises PromptRejected with the worker's reply.

        `execution_config` is for Comfyrail's engine; a ComfyUI passes over it. `with_previews`
        asks a worker for pictures while it samples that would send none by itself. `extra_data` is
        what a client gave: PASSED_ON of it is sent. `secrets` are keys for nodes: a worker shows
        them to nobody.
        """
        body: dict[str, Any] = {"prompt": prompt, "prompt_id": prompt_id, "client_id": client_id}
        extra: dict[str, Any] = {"comfyrail": execution_config} if execution_config else {}
        if with_previews:
            extra["preview_method"] = "auto"
        extra |= {key: value for key, value in (extra_data or {}).items() if key in PASSED_ON}
        extra |= secrets or {}
        if extra:
            body["extra_data"] = extra
        data = msgspec.json.encode(body)
        async with self._about(prompt_id), self._call("POST", "/prompt", data=data) as response:
            content = await self._read(response)
            if response.status == 200:
                return
            reply = await _rejection(content) if response.status == 400 else None
            if reply is None:
                text = content[:200].decode(errors="replace")
                raise WorkerProtocolError(
                    f"{self.endpoint} answered {response.status} to a prompt: {text}"
                )
            raise PromptRejected(_rejection_message(reply), reply, _bounded(reply))

    async def history(self, prompt_id: str) -> HistoryEntry | None:
        async with self._about(prompt_id):
            found = await self._get_json(f"/history/{prompt_id}", self._quick)
        return parse_history(found, prompt_id)

    async def presence(self, prompt_id: str) -> Presence:
        """Where the prompt is in the worker's queue."""
        async with self._about(prompt_id):
            queue = await self._queue()
        return next((presence for presence, item in queue if item[1] == prompt_id), "absent")

    async def prompts_of(self, client_id: str) -> list[str]:
        """Prompts in the worker's queue, running ones too, that this client submitted, or one
        whose name is this with a dot and something more.
        """
        found = []
        for _, item in await self._queue():
            extra = item[3] if len(item) > 3 else None
            submitted_by = str(extra.get("client_id")) if isinstance(extra, dict) else ""
            if submitted_by == client_id or submitted_by.startswith(f"{client_id}."):
                found.append(str(item[1]))
        return found

    async def _queue(self) -> list[tuple[Presence, list[Any]]]:
        queue = await self._get_json("/queue", self._quick)
        sections: tuple[tuple[str, Presence], ...] = (
            ("queue_running", "running"),
            ("queue_pending", "queued"),
        )
        found: list[tuple[Presence, list[Any]]] = []
        for key, presence in sections:
            items = queue.get(key) if isinstance(queue, dict) else None
            found.extend(
                (presence, item)
                for item in (items if isinstance(items, list) else ())
                if isinstance(item, list) and len(item) > 1
            )
        return found

    async def stop_prompt(self, prompt_id: str, *, may_wait: bool = False) -> None:
        """Take the prompt out of the worker's queue, or interrupt it when it runs.

        `may_wait`: it is not known to have begun. An interrupt is then sent only if it has: older
        ComfyUIs take any interrupt for whatever runs.
        """
        async with self._about(prompt_id):
            await self._post("/queue", {"delete": [prompt_id]})
            if not may_wait or await self.presence(prompt_id) == "running":
                await self._post("/interrupt", {"prompt_id": prompt_id})

    async def free(self) -> None:
        """Ask the worker to let go of the models and results in its memory, between two prompts."""
        await self._post("/free", {"unload_models": True, "free_memory": True})

    async def has_input(self, name: UploadedName, size: int) -> bool:
        """Whether the worker has an input file of this name and size."""
        query = {"filename": name.name, "subfolder": name.subfolder, "type": "input"}
        async with self._call("HEAD", "/view", params=query, timeout=self._quick) as response:
            return response.status == 200 and response.headers.get("Content-Length") == str(size)

    async def upload_input(self, file: InputFile, wanted: UploadedName) -> UploadedName:
        """Send a file to the worker's input folder; the name that it has there.

        Raises RequestError or WorkerProtocolError when the worker does not take it, OSError and
        InputChanged when the file cannot be read.
        """
        body = UploadBody(file, wanted)
        try:
            async with (
                body.stall_limit(),
                self._call(
                    "POST", "/upload/image", data=body, headers=body.headers, timeout=UPLOAD_TIMEOUT
                ) as response,
            ):
                content = await self._read(response)
                if response.status != 200:
                    raise explain_refusal(self.endpoint, file.name, response.status, content)
                return read_uploaded(self.endpoint, file.name, content)
        except WorkerUnreachable:
            if body.error is not None:  # the line broke because the file could not be read
                raise body.error from None
            raise
        except TimeoutError as error:
            raise self._unreachable(error) from error

    async def download(self, file: WorkerFile) -> AsyncIterator[bytes]:
        """The bytes of an output. Raises WorkerProtocolError when the worker has it no more."""
        query = {"filename": file.filename, "subfolder": file.subfolder, "type": file.folder_type}
        async with self._call("GET", "/view", params=query, timeout=DOWNLOAD_TIMEOUT) as response:
            if response.status != 200:
                raise WorkerProtocolError(
                    f"{self.endpoint} has no file {file.filename!r} ({response.status}).",
                    code="OUTPUT_MISSING",
                )
            async for chunk in response.content.iter_chunked(DOWNLOAD_CHUNK):
                self.contact.note_heard()
                yield chunk

    @asynccontextmanager
    async def socket(self, client_id: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        try:
            async with self._http.ws_connect(
                f"{self.endpoint}/ws",
                params={"clientId": client_id},
                heartbeat=SOCKET_HEARTBEAT_SECONDS,
                autoping=False,
                max_msg_size=SOCKET_MESSAGE_LIMIT,
                timeout=aiohttp.ClientWSTimeout(ws_close=SOCKET_CLOSE_SECONDS),
            ) as socket:
                self.times_opened += 1
                # The first message: pictures then say which prompt they belong to.
                await socket.send_str(FEATURE_FLAGS)
                yield socket
        except FOREIGN_ERRORS as error:
            self.contact.note_unanswered()
            raise self._unreachable(error) from error

    async def _get_json(self, path: str, timeout: aiohttp.ClientTimeout = CALL_TIMEOUT) -> Any:
        content = await self._get(path, timeout)
        try:
            return await decode_anywhere(content)
        except WorkerProtocolError as error:
            raise WorkerProtocolError(f"{self.endpoint}{path} did not answer JSON.") from error

    async def _get(self, path: str, timeout: aiohttp.ClientTimeout = CALL_TIMEOUT) -> bytes:
        async with self._call("GET", path, timeout=timeout) as response:
            if response.status != 200:
                raise WorkerProtocolError(f"{self.endpoint}{path} answered {response.status}.")
            return await self._read(response)

    async def _post(self, path: str, body: Mapping[str, Any]) -> None:
        data = msgspec.json.encode(body)
        async with self._call("POST", path, data=data, timeout=self._quick) as response:
            if response.status >= 400:
                raise WorkerProtocolError(f"{self.endpoint}{path} answered {response.status}.")

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        content = bytearray()
        async for chunk in response.content.iter_chunked(DOWNLOAD_CHUNK):
            self.contact.note_heard()
            content += chunk
            if len(content) > REPLY_LIMIT:
                raise WorkerProtocolError(f"{self.endpoint} sent an answer that is too large.")
        return bytes(content)

    @asynccontextmanager
    async def _call(
        self,
        method: str,
        path: str,
        *,
        data: bytes | UploadBody | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout = CALL_TIMEOUT,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if isinstance(data, bytes):
            headers = {"Content-Type": "application/json"}
        try:
            async with self._http.request(
                method,
                f"{self.endpoint}{path}",
                data=data,
                params=params,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                self.contact.note_heard()
                yield response
        except FOREIGN_ERRORS as error:
            self.contact.note_unanswered()
            raise self._unreachable(error) from error

    @asynccontextmanager
    async def _about(self, prompt_id: str) -> AsyncIterator[None]:
        """For calls that `drop_calls` may break off."""
        try:
            async with asyncio.timeout(None) as limit:
                self._calls.setdefault(prompt_id, set()).add(limit)
                try:
                    yield
                finally:
                    self._calls[prompt_id].discard(limit)
                    if not self._calls[prompt_id]:
                        del self._calls[prompt_id]
        except TimeoutError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: BaseException) -> WorkerUnreachable:
        return WorkerUnreachable(f"The worker at {self.endpoint} does not answer: {_why(error)}.")


def _exactly(seconds: float) -> aiohttp.ClientTimeout:
    """Limits of 5 s and more are rounded up to whole seconds otherwise."""
    return aiohttp.ClientTimeout(total=seconds, ceil_threshold=seconds + 1)


async def decode_anywhere(content: bytes | str) -> Any:
    """Decode a reply without holding up the event loop. Raises WorkerProtocolError."""
    if len(content) <= DECODED_AT_ONCE:
        return decode_reply(content)
    return await asyncio.to_thread(decode_reply, content)


def _why(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.strerror or "no connection"
    return str(error) or ("it took too long" if isinstance(error, TimeoutError) else "line broke")


async def _rejection(content: bytes) -> dict[str, Any] | None:
    """ComfyUI's refusal of a graph, or None when it is something else."""
    try:
        reply = await decode_anywhere(content)
    except WorkerProtocolError:
        return None
    is_refusal = isinstance(reply, dict) and ("error" in reply or "node_errors" in reply)
    return reply if is_refusal else None


def _bounded(reply: dict[str, Any]) -> dict[str, Any]:
    """The reply for the job's error, unless it is too long to keep with it."""
    content = msgspec.json.encode(reply)
    if len(content) <= REPLY_KEPT:
        return reply
    return {"cut": content[:REPLY_KEPT].decode(errors="replace")}


def _rejection_message(reply: Mapping[str, Any]) -> str:
    error = reply.get("error")
    error = error if isinstance(error, dict) else {}
    parts = [str(error.get("message") or "The worker refused the workflow")]
    if error.get("details"):
        parts.append(str(error["details"]))
    nodes = reply.get("node_errors")
    for node_id, node in nodes.items() if isinstance(nodes, dict) else ():
        errors = node.get("errors") if isinstance(node, dict) else None
        parts.extend(
            f"node {node_id}: {each.get('message')} ({each.get('details')})"
            for each in (errors if isinstance(errors, list) else ())
            if isinstance(each, dict)
        )
    return "; ".join(parts)[:2000]
