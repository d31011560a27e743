"""Real parts that tests put together: an executor that is watched, a server on a loopback port."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from comfyrail.clock import SystemClock
from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.caching.build import CacheConfig, build_cache
from comfyrail.engine.caching.result_cache import ResultCache
from comfyrail.engine.events import Event, NodeStarted
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.executor import Executor
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.server import create_app, create_worker
from tests.engine.worker_client import WorkerClient

_made: list["Engine"] = []


def close_engines() -> None:
    """Close all engines that a test made."""
    while _made:
        _made.pop().close()


@dataclass
class Engine:
    """An executor, and a list of what it did."""

    folders: Folders
    registry: NodeRegistry = field(default_factory=builtin_registry)
    cache: ResultCache = field(default_factory=lambda: build_cache(CacheConfig()))

    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.executor = Executor(
            self.registry, self.folders, self.cache, SystemClock(), **self.options
        )
        _made.append(self)

    def close(self) -> None:
        self.executor.close()

    def run(
        self,
        prompt: dict[str, Any],
        outputs: list[str],
        *,
        interrupt: Interrupt | None = None,
        watch: Callable[[Event], None] = lambda _: None,
        **extra_data: Any,
    ) -> list[Event]:
        events: list[Event] = []

        def take(event: Event) -> None:
            events.append(event)
            watch(event)

        request = ExecutionRequest(prompt, outputs, extra_data)
        self.executor.run(request, take, interrupt or Interrupt())
        return events


def nodes_run(events: list[Event]) -> list[str]:
    return [event.node_id for event in events if isinstance(event, NodeStarted)]


@asynccontextmanager
async def serving(folders: Folders, **options: Any) -> AsyncIterator[WorkerClient]:
    worker = create_worker(folders, **options)
    runner = web.AppRunner(create_app(worker), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        await web.SockSite(runner, listener).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with aiohttp.ClientSession(url) as session:
            client = WorkerClient(session, worker, url)
            yield client
            await client.close()
    finally:
        await runner.cleanup()
