"""One client for every worker that speaks ComfyUI's HTTP protocol."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import aiohttp
import msgspec

from comfyrail.errors import PromptRejected, WorkerProtocolError, WorkerUnreachable
from comfyrail.fleet.comfyui.history import HistoryEntry, WorkerFile, parse_history

CALL_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=5)
DOWNLOAD_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=30)
REPLY_LIMIT = 64 << 20
SOCKET_MESSAGE_LIMIT = 64 << 20
SOCKET_HEARTBEAT_SECONDS = 10.0
DOWNLOAD_CHUNK = 1 << 18

Presence = Literal["queued", "running", "absent"]


class ComfyClient:
    """Calls to one worker. Foreign errors become WorkerUnreachable or WorkerProtocolError."""

    def __init__(self, endpoint: str, http: aiohttp.ClientSession) -> None:
        self.endpoint = endpoint.rstrip("/")
        self._http = http

    async def system_stats(self) -> Mapping[str, Any]:
        stats = await self._get_json("/system_stats")
        if not isinstance(stats, dict) or "system" not in stats:
            raise WorkerProtocolError(f"{self.endpoint} does not answer like a ComfyUI server.")
        return stats

    async def object_info(self) -> bytes:
        """The node catalog as the worker wrote it."""
        return await self._get("/object_info")

    async def submit(self, prompt: Mapping[str, Any], prompt_id: str, client_id: str) -> None:
        """Queue a graph under an id of our own. Raises PromptRejected with the worker's reply."""
        body = {"prompt": prompt, "prompt_id": prompt_id, "client_id": client_id}
        async with self._call("POST", "/prompt", data=msgspec.json.encode(body)) as response:
            content = await self._read(response)
            if response.status == 200:
                return
            reply = _decode_or_none(content)
            if response.status >= 500 or not isinstance(reply, dict):
                text = content[:200].decode(errors="replace")
                raise WorkerProtocolError(
                    f"{self.endpoint} answered {response.status} to a prompt: {text}"
                )
            raise PromptRejected(_rejection_message(reply), reply)

    async def history(self, prompt_id: str) -> HistoryEntry | None:
        return parse_history(await self._get_json(f"/history/{prompt_id}"), prompt_id)

    async def presence(self, prompt_id: str) -> Presence:
        """Where the prompt is in the worker's queue."""
        queue = await self._get_json("/queue")
        for key, presence in (("queue_running", "running"), ("queue_pending", "queued")):
            items = queue.get(key) if isinstance(queue, dict) else None
            for item in items if isinstance(items, list) else ():
                if isinstance(item, list) and len(item) > 1 and item[1] == prompt_id:
                    return "running" if presence == "running" else "queued"
        return "absent"

    async def stop_prompt(self, prompt_id: str) -> None:
        """Take the prompt out of the worker's queue, or interrupt it when it runs."""
        await self._post("/queue", {"delete": [prompt_id]})
        await self._post("/interrupt", {"prompt_id": prompt_id})

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
                yield chunk

    @asynccontextmanager
    async def socket(self, client_id: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        try:
            async with self._http.ws_connect(
                f"{self.endpoint}/ws",
                params={"clientId": client_id},
                heartbeat=SOCKET_HEARTBEAT_SECONDS,
                max_msg_size=SOCKET_MESSAGE_LIMIT,
            ) as socket:
                yield socket
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from error

    async def _get_json(self, path: str) -> Any:
        content = await self._get(path)
        try:
            return msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError) as error:
            raise WorkerProtocolError(f"{self.endpoint}{path} did not answer JSON.") from error

    async def _get(self, path: str) -> bytes:
        async with self._call("GET", path) as response:
            if response.status != 200:
                raise WorkerProtocolError(f"{self.endpoint}{path} answered {response.status}.")
            return await self._read(response)

    async def _post(self, path: str, body: Mapping[str, Any]) -> None:
        async with self._call("POST", path, data=msgspec.json.encode(body)) as response:
            if response.status >= 400:
                raise WorkerProtocolError(f"{self.endpoint}{path} answered {response.status}.")

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        content = bytearray()
        async for chunk in response.content.iter_chunked(DOWNLOAD_CHUNK):
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
        data: bytes | None = None,
        params: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout = CALL_TIMEOUT,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Content-Type": "application/json"} if data is not None else None
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
                yield response
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: BaseException) -> WorkerUnreachable:
        return WorkerUnreachable(f"The worker at {self.endpoint} does not answer: {_why(error)}.")


def _why(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.strerror or "no connection"
    return str(error) or ("it took too long" if isinstance(error, TimeoutError) else "line broke")


def _decode_or_none(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None


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
