"""An asynchronous client of API v1."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
import msgspec

from comfyrail.client.event_stream import read_events

DEFAULT_SERVER = "http://127.0.0.1:8080"
CALL_TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=5)
STREAM_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=60)
RECONNECT_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
DOWNLOAD_CHUNK = 1 << 18

Reply = TypeVar("Reply")


class ServerUnreachable(Exception):
    """Nothing answers at the server's address."""


class RequestFailed(Exception):
    """The server said no; `body` is its error as the API reference describes it."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(str(body.get("message") or f"The server answered {status}."))
        self.status = status
        self.body = dict(body)

    @property
    def findings(self) -> list[dict[str, Any]]:
        details = self.body.get("details")
        found = details.get("findings") if isinstance(details, dict) else None
        return list(found) if isinstance(found, list) else []


class Output(msgspec.Struct):
    output_id: str
    node_id: str
    kind: str
    filename: str
    temporary: bool
    partial: bool
    content_type: str
    size: int
    sha256: str
    url: str


class Result(msgspec.Struct):
    outputs: list[Output]


class ExecutionFailure(msgspec.Struct):
    category: str
    code: str
    message: str
    details: dict[str, Any]


class Execution(msgspec.Struct):
    execution_id: str
    status: str
    priority: int
    submitted_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    queue_position: int | None
    progress: float
    current_node: str | None
    completed_nodes: int
    total_nodes: int
    attempts: int
    worker_id: str | None
    result: Result | None
    error: ExecutionFailure | None

    @property
    def is_final(self) -> bool:
        return self.status in {"completed", "failed", "cancelled"}


class Event(msgspec.Struct):
    execution_id: str
    number: int
    type: str
    timestamp: datetime
    data: dict[str, Any]


class Worker(msgspec.Struct):
    worker_id: str
    driver: str
    endpoint: str | None
    status: str
    current_jobs: list[str]
    node_types: int
    device: str | None
    error: str | None


class _Accepted(msgspec.Struct):
    execution_id: str


class _ExecutionList(msgspec.Struct):
    executions: list[Execution]


class _OutputList(msgspec.Struct):
    outputs: list[Output]


class _WorkerList(msgspec.Struct):
    workers: list[Worker]


class ComfyrailClient:
    """Use as `async with ComfyrailClient() as client`."""

    def __init__(self, server: str = DEFAULT_SERVER) -> None:
        self.server = server.rstrip("/")
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._http is not None:
            await self._http.close()

    async def execute(
        self,
        workflow: Mapping[str, Any],
        input_params: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> str:
        """Submit a workflow; returns the execution's id. Options: priority, timeout."""
        body = {"workflow": workflow, "input_params": dict(input_params or {}), **options}
        return (await self._ask("POST", "/v1/workflows/execute", _Accepted, body)).execution_id

    async def execution(self, execution_id: str) -> Execution:
        return await self._ask("GET", f"/v1/workflows/execution/{execution_id}", Execution)

    async def executions(self, status: str | None = None, limit: int = 50) -> list[Execution]:
        """The newest executions first."""
        path = f"/v1/workflows/executions?limit={limit}" + (f"&status={status}" if status else "")
        return (await self._ask("GET", path, _ExecutionList)).executions

    async def cancel(self, execution_id: str) -> Execution:
        return await self._ask("POST", f"/v1/workflows/execution/{execution_id}/cancel", Execution)

    async def outputs(self, execution_id: str) -> list[Output]:
        path = f"/v1/workflows/execution/{execution_id}/outputs"
        return (await self._ask("GET", path, _OutputList)).outputs

    async def events(self, execution_id: str, after: int = 0) -> AsyncIterator[Event]:
        """Events until the final one; reconnects by itself and goes on where it was."""
        failures = 0
        while True:
            try:
                async for name, data in self._stream(execution_id, after):
                    failures = 0
                    if name == "close":
                        return
                    event = msgspec.json.decode(data, type=Event)
                    after = event.number
                    yield event
            except ServerUnreachable:
                if failures >= len(RECONNECT_SECONDS):
                    raise
            await asyncio.sleep(RECONNECT_SECONDS[min(failures, len(RECONNECT_SECONDS) - 1)])
            failures += 1

    async def download(self, output: Output) -> AsyncIterator[bytes]:
        async with self._call("GET", output.url, timeout=STREAM_TIMEOUT) as response:
            async for chunk in response.content.iter_chunked(DOWNLOAD_CHUNK):
                yield chunk

    async def workers(self) -> list[Worker]:
        return (await self._ask("GET", "/v1/workers", _WorkerList)).workers

    async def add_worker(self, url: str) -> Worker:
        return await self._ask("POST", "/v1/workers", Worker, {"url": url})

    async def remove_worker(self, worker_id: str) -> None:
        async with self._call("DELETE", f"/v1/workers/{worker_id}"):
            return

    async def is_alive(self) -> bool:
        return await self._answers("/health")

    async def is_ready(self) -> bool:
        """Whether a job would run now; False also while nothing answers."""
        return await self._answers("/ready")

    async def _answers(self, path: str) -> bool:
        try:
            async with self._call("GET", path):
                return True
        except (ServerUnreachable, RequestFailed):
            return False

    async def _stream(self, execution_id: str, after: int) -> AsyncIterator[tuple[str, str]]:
        path = f"/v1/workflows/execution/{execution_id}/events"
        headers = {"Last-Event-ID": str(after)}
        async with self._call("GET", path, headers=headers, timeout=STREAM_TIMEOUT) as response:
            async for item in read_events(response.content):
                yield item

    async def _ask(
        self, method: str, path: str, kind: type[Reply], body: Mapping[str, Any] | None = None
    ) -> Reply:
        async with self._call(method, path, body) as response:
            return msgspec.json.decode(await response.read(), type=kind)

    @asynccontextmanager
    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout = CALL_TIMEOUT,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self._http is None:
            raise RuntimeError("Use the client as an asynchronous context manager.")
        sent = dict(headers or {})
        data = None
        if body is not None:
            data = msgspec.json.encode(body)
            sent["Content-Type"] = "application/json"
        try:
            async with self._http.request(
                method, f"{self.server}{path}", data=data, headers=sent, timeout=timeout
            ) as response:
                if response.status >= 400:
                    raise RequestFailed(response.status, _error_of(await response.read()))
                yield response
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise ServerUnreachable(f"No answer from {self.server}: {_why(error)}") from error


def _why(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.strerror or "no connection"
    return str(error) or ("it took too long" if isinstance(error, TimeoutError) else "line broke")


def _error_of(content: bytes) -> dict[str, Any]:
    try:
        error = msgspec.json.decode(content)["error"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}
