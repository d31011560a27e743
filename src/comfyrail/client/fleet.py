"""Calls about workers and the queue as a whole."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol, TypeVar

import aiohttp
import msgspec

from comfyrail.client.paths import quoted

Reply = TypeVar("Reply")


class Breaker(msgspec.Struct):
    """What keeps jobs away from a worker: all (`inference`), or those with one `model`."""

    kind: str
    state: str
    failures: int
    model: str | None = None
    cause: str | None = None
    until: datetime | None = None


class WorkerTrouble(msgspec.Struct):
    category: str
    code: str
    message: str
    suggested_action: str | None = None
    retry_after: float | None = None


class Worker(msgspec.Struct):
    worker_id: str
    driver: str
    endpoint: str | None
    status: str
    current_jobs: list[str]
    node_types: int
    device: str | None
    error: str | None
    pool: str | None = None
    health: str = "ok"
    cordoned: bool = False
    labels: dict[str, str] = {}
    load: float = 0.0
    cached_models: list[str] = []
    error_detail: WorkerTrouble | None = None
    breakers: list[Breaker] = []


class Pool(msgspec.Struct):
    """Workers of a pool, or all of them together where `pool` is null. `error`: why the pool's last
    worker did not come up.
    """

    total: int
    available: int
    allocated: int
    idle: int
    running: int
    starting: int
    failed: int
    utilization: float
    pool: str | None = None
    driver: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    error: str | None = None
    rests_until: datetime | None = None


class FleetFigures(Pool):
    pools: list[Pool] = []


class QueueClass(msgspec.Struct):
    queue_class: str
    target_seconds: float
    queued: int
    expected_seconds: float
    started: int
    targets_missed: int
    wait_p50: float | None
    wait_p95: float | None


class QueueReport(msgspec.Struct):
    paused: bool
    paused_at: datetime | None
    reason: str | None
    queued: int
    scheduled: int
    processing: int
    late: int
    classes: list[QueueClass]


class OpenProgress(msgspec.Struct):
    fraction: float
    current_node: str | None
    completed_nodes: int
    total_nodes: int
    preview: int | None = None


class OpenPlace(msgspec.Struct):
    """`predicted_wait` in seconds; `waiting_for`: why it does not start."""

    position: int | None
    predicted_wait: float | None
    waiting_for: str | None
    priority: int
    queue_class: str


class OpenExecution(msgspec.Struct):
    """An execution that has not ended."""

    id: str
    title: str | None
    status: str
    reason: str | None
    queue: OpenPlace
    progress: OpenProgress
    worker_id: str | None


class _OpenList(msgspec.Struct):
    executions: list[OpenExecution]


class _WorkerList(msgspec.Struct):
    workers: list[Worker]


class _Logs(msgspec.Struct):
    text: str


class _Ask(Protocol):
    async def __call__(
        self,
        method: str,
        path: str,
        kind: type[Reply],
        body: Mapping[str, Any] | bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Reply: ...


class _Call(Protocol):
    def __call__(
        self, method: str, path: str
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]: ...


class Fleet:
    """`client.fleet`: the server's workers."""

    def __init__(self, ask: _Ask, call: _Call) -> None:
        self._ask = ask
        self._call = call

    async def workers(self) -> list[Worker]:
        return (await self._ask("GET", "/v1/workers", _WorkerList)).workers

    async def worker(self, worker_id: str) -> Worker:
        return await self._ask("GET", _path(worker_id), Worker)

    async def figures(self) -> FleetFigures:
        """How many workers there are and what they do, in all and by pool."""
        return await self._ask("GET", "/v1/fleet", FleetFigures)

    async def add(
        self,
        url: str | None = None,
        *,
        driver: str | None = None,
        config: Mapping[str, Any] | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Worker:
        """Add a running worker by its URL, or let a driver make one."""
        given = {"url": url, "driver": driver, "config": config, "name": name, "labels": labels}
        body = {key: value for key, value in given.items() if value is not None}
        return await self._ask("POST", "/v1/workers", Worker, body)

    async def remove(self, worker_id: str) -> None:
        async with self._call("DELETE", _path(worker_id)):
            return

    async def drain(self, worker_id: str) -> Worker:
        return await self._ask("POST", _path(worker_id, "/drain"), Worker)

    async def cordon(self, worker_id: str) -> Worker:
        return await self._ask("POST", _path(worker_id, "/cordon"), Worker)

    async def resume(self, worker_id: str) -> Worker:
        return await self._ask("POST", _path(worker_id, "/resume"), Worker)

    async def logs(self, worker_id: str, lines: int = 200) -> str:
        path = _path(worker_id, f"/logs?lines={lines}")
        return (await self._ask("GET", path, _Logs)).text


class Queue:
    """`client.queue`: the server's queue."""

    def __init__(self, ask: _Ask) -> None:
        self._ask = ask

    async def report(self) -> QueueReport:
        return await self._ask("GET", "/v1/queue", QueueReport)

    async def executions(self, limit: int = 50) -> list[OpenExecution]:
        """One's executions that have not ended, in the order in which they will run."""
        path = f"/v1/queue/executions?limit={limit}"
        return (await self._ask("GET", path, _OpenList)).executions

    async def pause(self, reason: str | None = None) -> QueueReport:
        return await self._ask("POST", "/v1/queue/pause", QueueReport, {"reason": reason})

    async def resume(self) -> QueueReport:
        return await self._ask("POST", "/v1/queue/resume", QueueReport)


def _path(worker_id: str, below: str = "") -> str:
    return f"/v1/workers/{quoted(worker_id)}{below}"
