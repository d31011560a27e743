"""Carry out the tasks of others: fetch the inputs by key, run the node, store what it gave."""

import asyncio
import time
import traceback
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from comfyrail.engine.caching.faults import NotStorable
from comfyrail.engine.caching.result import CachedResult, Slot
from comfyrail.engine.definition import NodeDefinition, NodeResult
from comfyrail.engine.distributed.plain_data import is_plain
from comfyrail.engine.distributed.shared_results import NotTaken, SharedResults
from comfyrail.engine.distributed.task import (
    LARGEST_REPLY,
    MOST_TRACE_LINES,
    RemoteTask,
    TaskReply,
    shortened,
    write_reply,
)
from comfyrail.engine.failures import full_type_name, is_recoverable, kind_of, message_of
from comfyrail.engine.instances import Instances
from comfyrail.engine.invoke import Invocation, join_results
from comfyrail.engine.live_graph import BoundNode
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.runners.interface import KeptElsewhere, NodeTask, Outcome
from comfyrail.engine.runners.sequential import SequentialRunner

log = structlog.get_logger(__name__)


class TaskWorker:
    """Runs one task at a time. Belongs to one thread."""

    def __init__(self, registry: NodeRegistry, results: SharedResults) -> None:
        self._registry = registry
        self._results = results
        self._instances = Instances()
        self._runner = SequentialRunner()
        self._loop = asyncio.Runner()

    def carry_out(self, task: RemoteTask, *, is_only_copy: bool = False) -> TaskReply:
        """Run a task to its end; when it is done, its result is in the shared cache.

        A task that was carried out before, here or elsewhere, is not run again. Of several copies
        at once one runs and the others wait for it, unless the caller knows that there are none.
        Raises nothing that a node raises.
        """
        try:
            definition = self._definition_of(task)
            if definition is None:
                return _unknown(task)
            if is_only_copy:
                return self._find_or_compute(task, definition)
            with self._results.reserve(task.key):
                return self._find_or_compute(task, definition)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if isinstance(error, SystemExit) and type(error) is not SystemExit:
                raise  # Celery's way to end the process
            return _failed(task, error)

    def flush(self) -> None:
        """Wait until nothing is left to do in the background."""
        self._results.flush()

    def close(self) -> None:
        self._runner.close()
        self._loop.close()
        self._results.close()

    def _definition_of(self, task: RemoteTask) -> NodeDefinition | None:
        definition = self._registry.get(task.node_type)
        if definition is None or definition.version != task.version:
            return None
        return definition

    def _find_or_compute(self, task: RemoteTask, definition: NodeDefinition) -> TaskReply:
        found = self._results.find(task.key)
        return self._compute(task, definition) if found is None else _done(task, found)

    def _compute(self, task: RemoteTask, definition: NodeDefinition) -> TaskReply:
        gathered = self._gather(task)
        if isinstance(gathered, list):
            return TaskReply(task.id, "lost", lost=tuple(gathered))
        began = time.perf_counter()
        results = self._run(task, definition, gathered)
        seconds = time.perf_counter() - began
        if any(result.expand is not None for result in results):
            return _unstorable(task, "it puts other nodes in its place")
        result = join_results(definition, results, seconds)
        try:
            self._results.publish(task.key, result)
        except NotStorable as error:
            return _unstorable(task, str(error))
        except NotTaken as error:
            return TaskReply(task.id, "unstored", message=str(error))
        return _done(task, result)

    def _gather(self, task: RemoteTask) -> dict[str, Slot] | list[str]:
        """The values of all inputs, or the keys of those that are lost."""
        inputs: dict[str, Slot] = {name: (value,) for name, value in task.literals.items()}
        found: dict[str, CachedResult | None] = {}
        for name, (key, slot) in task.sources.items():
            if key not in found:
                found[key] = self._results.get(key)
            result = found[key]
            if result is not None:
                inputs[name] = result.slots[slot] if 0 <= slot < len(result.slots) else (None,)
        lost = [key for key, result in found.items() if result is None]
        return lost or inputs

    def _run(
        self, task: RemoteTask, definition: NodeDefinition, inputs: Mapping[str, Slot]
    ) -> list[NodeResult]:
        """As the sequential strategy would. The time that it may take is the coordinator's."""
        limited = replace(definition, timeout=task.timeout)
        invocation = Invocation(
            limited, self._instances.of(task.node_id, definition).run, inputs, _fixed(task, limited)
        )
        node = BoundNode(task.node_id, limited, task.literals, {})
        outcome = self._runner.start(
            NodeTask(task.execution_id, node, task.key, task.sources, invocation)
        )
        if not isinstance(outcome, list | KeptElsewhere):
            outcome = self._loop.run(_wait_for(outcome))
        if isinstance(outcome, KeptElsewhere):
            raise TypeError("A node that runs here cannot be elsewhere.")
        return outcome


async def _wait_for(outcome: Awaitable[Outcome]) -> Outcome:
    return await outcome


def _fixed(task: RemoteTask, definition: NodeDefinition) -> dict[str, Any]:
    """Hidden inputs: only the node's id is known elsewhere."""
    return {name: task.node_id for name, kind in definition.hidden.items() if kind == "UNIQUE_ID"}


def _done(task: RemoteTask, result: CachedResult) -> TaskReply:
    if result.ui is None:
        return TaskReply(task.id, "done", seconds=result.seconds)
    ui: dict[str, list[Any]] = dict(result.ui)  # type: ignore[arg-type] # checked below
    if not is_plain(ui):
        return _unstorable(task, "what it shows is not plain data")
    reply = TaskReply(task.id, "done", ui=ui, seconds=result.seconds)
    if len(write_reply(reply)) > LARGEST_REPLY:
        return _unstorable(task, "what it shows is too large")
    return reply


def _unstorable(task: RemoteTask, reason: str) -> TaskReply:
    return TaskReply(task.id, "unstorable", message=shortened(reason))


def _unknown(task: RemoteTask) -> TaskReply:
    log.warning("node_type_unknown", node_type=task.node_type, version=task.version)
    return TaskReply(
        task.id, "unknown", message=shortened(f"there is no {task.node_type} ({task.version})")
    )


def _failed(task: RemoteTask, error: BaseException) -> TaskReply:
    trace = traceback.format_tb(error.__traceback__)[-MOST_TRACE_LINES:]
    return TaskReply(
        task.id,
        "failed",
        message=shortened(message_of(error)),
        error_type=shortened(full_type_name(error)),
        kind=kind_of(error),
        recoverable=is_recoverable(error),
        trace=tuple(map(shortened, trace)),
    )
