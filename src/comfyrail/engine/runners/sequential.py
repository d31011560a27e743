"""One node after the other, in the thread that executes. Coroutine functions overlap."""

import asyncio
from collections.abc import Awaitable, Callable

from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.failures import NodeTimeout
from comfyrail.engine.invoke import Invocation
from comfyrail.engine.live_graph import BoundNode
from comfyrail.engine.runners.daemon_threads import DaemonThreads
from comfyrail.engine.runners.interface import NodeTask, Outcome, Value, invocation_of

MOST_COROUTINES = 1000


class SequentialRunner:
    width = MOST_COROUTINES
    fuses = False

    def __init__(self) -> None:
        self._threads = DaemonThreads(1, "timed-node")

    def is_remote(self, _: BoundNode) -> bool:
        return False

    def keep_here(self, _: BoundNode) -> None:
        """All nodes are here."""

    def start(self, task: NodeTask) -> Outcome | Awaitable[Outcome]:
        invocation = invocation_of(task)
        definition = invocation.definition
        if definition.is_async:
            return within(definition.timeout, run_coroutine(invocation))
        if definition.timeout is not None:
            # Only so can it be left behind when it does not look up.
            return within(definition.timeout, self._threads.run(invocation.run))
        return invocation.run()

    async def run_call(self, call: Callable[[], Value], _: NodeDefinition) -> Value:
        return call()

    def close(self) -> None:
        self._threads.close()


async def run_coroutine(invocation: Invocation) -> Outcome:
    return await invocation.run_async()


async def within(seconds: float | None, outcome: Awaitable[Outcome]) -> Outcome:
    """Wait for it at most so long. Raises NodeTimeout."""
    if seconds is None:
        return await outcome
    try:
        async with asyncio.timeout(seconds) as limit:
            return await outcome
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise NodeTimeout(f"The node did not finish within {seconds:g} s.") from error
