"""Several nodes at once, within what the machine has: in threads, or in processes of their own."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace

from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.invoke import Invocation
from comfyrail.engine.live_graph import BoundNode
from comfyrail.engine.resources.figures import ResourceFigures
from comfyrail.engine.resources.needs import ResourceNeeds
from comfyrail.engine.resources.pool import ResourcePool
from comfyrail.engine.runners.child_processes import ChildProcesses
from comfyrail.engine.runners.daemon_threads import DaemonThreads
from comfyrail.engine.runners.interface import NodeTask, Outcome, Value, invocation_of
from comfyrail.engine.runners.sequential import run_coroutine, within

_UNDECLARED = ResourceNeeds()


class ParallelRunner:
    """At most `threads` nodes at once. A node waits until the pool has what it needs."""

    fuses = True

    def __init__(self, pool: ResourcePool, threads: int, processes: int) -> None:
        self.width = 2 * max(threads, processes)
        self._pool = pool
        self._threads = DaemonThreads(threads, "node")
        self._children = ChildProcesses(processes)
        # Children are waited for in threads of their own: they must not take those of nodes.
        self._child_threads = DaemonThreads(max(processes, 1), "node-process")

    def is_remote(self, _: BoundNode) -> bool:
        return False

    def keep_here(self, _: BoundNode) -> None:
        """All nodes are here."""

    def start(self, task: NodeTask) -> Awaitable[Outcome]:
        return self._run(invocation_of(task))

    async def run_call(self, call: Callable[[], Value], definition: NodeDefinition) -> Value:
        with await self._pool.acquire(self._needs_of(definition)):
            return await run_to_end(self._threads.run(call))

    def figures(self) -> ResourceFigures:
        """What running nodes hold; from any thread."""
        return self._pool.figures()

    def close(self) -> None:
        self._threads.close()
        self._child_threads.close()
        self._children.close()

    async def _run(self, invocation: Invocation) -> Outcome:
        definition = invocation.definition
        with await self._pool.acquire(self._needs_of(definition)):
            if definition.is_async:
                return await within(definition.timeout, run_coroutine(invocation))
            if definition.runs_in == "process" and not definition.takes_context:
                stop = threading.Event()
                call = self._child_threads.run(lambda: self._children.run(invocation, stop))
                return await run_to_end(call, on_cancel=stop.set)
            return await run_to_end(within(definition.timeout, self._threads.run(invocation.run)))

    def _needs_of(self, definition: NodeDefinition) -> ResourceNeeds:
        """What it declares. One that declares nothing must not ask for more than a small machine
        has.
        """
        if definition.needs != _UNDECLARED:
            return definition.needs
        capacity = self._pool.capacity
        return replace(
            _UNDECLARED,
            cpu_cores=min(_UNDECLARED.cpu_cores, capacity.cpu_cores),
            memory_mb=min(_UNDECLARED.memory_mb, capacity.memory_mb),
            disk_space_mb=min(_UNDECLARED.disk_space_mb, capacity.disk_space_mb),
            network_bandwidth_mbps=min(
                _UNDECLARED.network_bandwidth_mbps, capacity.network_bandwidth_mbps
            ),
        )


async def run_to_end(
    outcome: Awaitable[Value], on_cancel: Callable[[], None] = lambda: None
) -> Value:
    """Wait for it; when cancelled, wait all the same, so that nothing runs on after the end."""
    task = asyncio.ensure_future(outcome)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        on_cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise
