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
from comfyrail.engine.cache import MemoryCache
from comfyrail.engine.events import Event, NodeStarted
from comfyrail.engine.executor import ExecutionRequest, Executor
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.server import create_app, create_worker
from tests.engine.worker_client import WorkerClient


@dataclass
class Engine:
    """An executor, and a list of what it did."""

    folders: Folders
    registry: NodeRegistry = field(default_factory=builtin_registry)
    cache: MemoryCache = field(default_factory=MemoryCache)

    def __post_init__(self) -> None:
        self.executor = Executor(self.registry, self.folders, self.cache, SystemClock())

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
