"""What lasts from one execution to the next, and the thread's event loop that executions run on."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from comfyrail.clock import Clock
from comfyrail.engine.caching.flights import Reservation
from comfyrail.engine.caching.result import CachedResult, Slot
from comfyrail.engine.caching.result_cache import ResultCache
from comfyrail.engine.checkpoint import Checkpoint
from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.events import Event, ExecutionFailed, ExecutionInterrupted, Sink
from comfyrail.engine.execution import Execution, ExecutionRequest
from comfyrail.engine.failures import ExecutionError
from comfyrail.engine.folders import Folders
from comfyrail.engine.held_values import HeldValues, ValuesInMemory
from comfyrail.engine.hooks import Hook, Hooks
from comfyrail.engine.instances import Instances
from comfyrail.engine.interrupt import ExecutionHalted, Interrupt
from comfyrail.engine.memory.budget import MemoryBudget
from comfyrail.engine.options import RunOptions, read_run_options
from comfyrail.engine.output_names import OutputNames
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.resources.figures import ResourceFigures
from comfyrail.engine.runners.interface import Runner
from comfyrail.engine.runners.sequential import SequentialRunner
from comfyrail.engine.surroundings import Surroundings
from comfyrail.errors import ConfigurationError

LONGEST_WAIT_FOR_ANOTHER = 3600.0
WORTH_ASKING_SECONDS = 0.005
"""Nodes that took less are run without asking whether another process runs the same: asking
costs about as much."""
MOST_KNOWN_COSTS = 10_000

RunnerFactory = Callable[[], Runner]


class Executor:
    """Used by one thread at a time."""

    def __init__(
        self,
        registry: NodeRegistry,
        folders: Folders,
        cache: ResultCache,
        clock: Clock,
        *,
        surroundings: Surroundings | None = None,
        hooks: Iterable[Hook] = (),
        options: RunOptions | None = None,
        runners: dict[str, RunnerFactory] | None = None,
        value_store: Callable[[], HeldValues] = ValuesInMemory,
        checkpoints: Path | None = None,
        budget: MemoryBudget | None = None,
    ) -> None:
        """`budget` is what `cache` and `value_store` count in, where they do."""
        self.registry = registry
        self.folders = folders
        self.cache = cache
        self.clock = clock
        self.surroundings = surroundings or Surroundings()
        self.has_surroundings = surroundings is not None
        self.hooks = Hooks(hooks)
        self.output_names = OutputNames()
        self.instances = Instances()
        self.value_store = value_store
        self.budget = budget
        self._options = options or RunOptions()
        self._factories = {"sequential": SequentialRunner, **(runners or {})}
        self._runners: dict[str, Runner] = {}
        self._checkpoints = checkpoints or folders.output.parent / "checkpoints"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._seconds: dict[str, float] = {}

    def run(self, request: ExecutionRequest, emit: Sink, interrupt: Interrupt) -> Execution:
        """Run to the end; how it ended is the last event. Raises nothing that a node raises.

        `emit` is called from this thread, and from others that nodes run in.
        """
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        execution = Execution(self, request, emit, interrupt)
        try:
            self._loop.run_until_complete(execution.run())
        except BaseException:
            # What was under way must not go on in the next execution.
            self._discard_loop()
            raise
        return execution

    def compute(
        self,
        prompt: Mapping[str, Any],
        wanted: Sequence[str],
        emit: Sink = lambda _: None,
        interrupt: Interrupt | None = None,
    ) -> dict[str, tuple[Slot, ...]]:
        """The values of any nodes of a graph, by node id: for each output the list of its items.

        Raises ExecutionError when it cannot be had.
        """
        for node_id in wanted:
            if node_id not in prompt:
                raise ExecutionError(f"There is no node '{node_id}' in the graph.")
        ends: list[Event] = []

        def watch(event: Event) -> None:
            if isinstance(event, ExecutionFailed | ExecutionInterrupted):
                ends.append(event)
            emit(event)

        request = ExecutionRequest(prompt, wanted, {}, keeps_values=True)
        execution = self.run(request, watch, interrupt or Interrupt())
        for end in ends:
            if isinstance(end, ExecutionFailed):
                raise ExecutionError(f"Node '{end.node_id}' ({end.node_type}): {end.message}")
            raise ExecutionError("The execution was interrupted.")
        return execution.kept_values

    def free(self, *, unload_models: bool, free_memory: bool) -> None:
        """Let go of what is kept between executions."""
        if free_memory:
            self.cache.clear()
            self.instances.clear()
        self.surroundings.free(unload_models=unload_models, free_memory=free_memory)

    def close(self) -> None:
        """Let go of threads and the loop; not while an execution runs."""
        for runner in self._runners.values():
            runner.close()
        self._runners.clear()
        self._discard_loop()
        self.cache.close()

    def _discard_loop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is None:
            return
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def check_options(self, extra_data: Mapping[str, Any]) -> RunOptions:
        """The engine's options with what a request asks for. Raises ConfigurationError.

        May be called from any thread.
        """
        options = read_run_options(extra_data.get("comfyrail"), self._options)
        if options.strategy != "lazy" and options.strategy not in self._factories:
            raise ConfigurationError(
                f"comfyrail.strategy: this worker is not set up for '{options.strategy}'."
            )
        return options

    def runner_for(self, options: RunOptions) -> Runner:
        strategy = "sequential" if options.strategy == "lazy" else options.strategy
        if self.surroundings.one_at_a_time:
            strategy = "sequential"
        runner = self._runners.get(strategy)
        if runner is None:
            runner = self._factories[strategy]()
            self._runners[strategy] = runner
        return runner

    def resource_figures(self) -> ResourceFigures | None:
        """What running nodes hold, where a strategy that was used hands the machine out.

        May be called from any thread.
        """
        for runner in list(self._runners.values()):
            figures: Callable[[], ResourceFigures] | None = getattr(runner, "figures", None)
            if figures is not None:
                return figures()
        return None

    def note_cost(self, definition: NodeDefinition, seconds: float) -> None:
        """Remember how long a node took, the longest of late."""
        if len(self._seconds) > MOST_KNOWN_COSTS:
            self._seconds.clear()
        known = self._seconds.get(definition.name, 0.0)
        self._seconds[definition.name] = max(seconds, known * 0.9)

    def asks_others(self, definition: NodeDefinition) -> bool:
        """Whether a node of this type is run only if no other process runs the same now."""
        if not self.cache.is_shared or not definition.keeps:
            return False
        if definition.is_cheap or definition.is_output:
            return False
        return self._seconds.get(definition.name, 1.0) >= WORTH_ASKING_SECONDS

    def open_checkpoint(self, name: str, nonce: str | None = None) -> Checkpoint:
        """Raises ConfigurationError where another execution writes to it."""
        return Checkpoint(self._checkpoints, name, nonce)

    async def _reserve(self, key: str) -> Reservation | None:
        """The cache's, in a thread; one that comes when nobody waits any more is let go."""
        asking = asyncio.ensure_future(asyncio.to_thread(self.cache.reserve, key))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(_release_late)
            raise

    async def single_flight(self, key: str, interrupt: Interrupt) -> CachedResult | Reservation:
        """The right to make a result, or the result that someone else has made meanwhile."""
        while True:
            reservation = await self._reserve(key)
            if reservation is not None:
                return reservation
            result = await asyncio.to_thread(
                self.cache.wait_for, key, lambda: interrupt.requested, LONGEST_WAIT_FOR_ANOTHER
            )
            if result is not None:
                return result
            if interrupt.requested:
                raise ExecutionHalted


def _release_late(asked: "asyncio.Future[Reservation | None]") -> None:
    if not asked.cancelled() and asked.exception() is None:
        reservation = asked.result()
        if reservation is not None:
            reservation.release()
