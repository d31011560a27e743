"""Run a checked prompt: one node after the other, reusing results that are known."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comfyrail.clock import Clock
from comfyrail.engine.bound_graph import BoundGraph, BoundNode, bind_graph
from comfyrail.engine.cache import CachedResult, MemoryCache, Slot
from comfyrail.engine.context import NodeContext
from comfyrail.engine.events import (
    ExecutionFailed,
    ExecutionInterrupted,
    ExecutionStarted,
    ExecutionSucceeded,
    NodeExecuted,
    NodeFinished,
    NodesCached,
    NodeStarted,
    Sink,
)
from comfyrail.engine.folders import Folders, path_inside
from comfyrail.engine.interrupt import ExecutionHalted, Interrupt
from comfyrail.engine.invoke import invoke_node
from comfyrail.engine.keys import compute_keys
from comfyrail.engine.output_names import OutputNames
from comfyrail.engine.plan import Plan
from comfyrail.engine.registry import NodeRegistry

SHOWN_INPUT_LENGTH = 200


@dataclass(frozen=True, slots=True)
class ExecutionRequest:
    """A prompt that `check_prompt` found good, and the outputs that are wanted of it."""

    prompt: Mapping[str, Any]
    outputs: Sequence[str]
    extra_data: Mapping[str, Any]


class Executor:
    """Holds what lasts from one execution to the next. Used by one thread at a time."""

    def __init__(
        self, registry: NodeRegistry, folders: Folders, cache: MemoryCache, clock: Clock
    ) -> None:
        self.registry = registry
        self.folders = folders
        self.cache = cache
        self.clock = clock
        self.output_names = OutputNames()

    def run(self, request: ExecutionRequest, emit: Sink, interrupt: Interrupt) -> None:
        """Run to the end; how it ended is the last event. Raises nothing that a node raises."""
        _Run(self, request, emit, interrupt).run()


class _Run:
    """One execution. Values live here only until their last consumer has run."""

    def __init__(
        self, engine: Executor, request: ExecutionRequest, emit: Sink, interrupt: Interrupt
    ) -> None:
        self._engine = engine
        self._request = request
        self._emit = emit
        self._interrupt = interrupt
        self._values: dict[str, tuple[Slot, ...]] = {}
        self._readers_left: dict[str, int] = {}
        self._executed: list[str] = []
        self._finished: list[str] = []

    def run(self) -> None:
        engine = self._engine
        self._emit(ExecutionStarted(engine.clock.now()))
        graph = bind_graph(self._request.prompt, self._request.outputs, engine.registry)
        keys = compute_keys(graph, engine.folders)
        known = self._look_up(graph, keys)
        self._emit(NodesCached(list(known), engine.clock.now()))
        plan = Plan(
            {node_id: graph.sources_of(node_id) for node_id in graph.nodes}, graph.outputs, known
        )
        for node_id in plan.boundary:
            self._keep_for_consumers(node_id, known[node_id], plan)
        self._show_known_outputs(graph, known)
        if self._run_nodes(graph, plan, keys):
            self._emit(ExecutionSucceeded(engine.clock.now()))

    def _look_up(self, graph: BoundGraph, keys: Mapping[str, str]) -> dict[str, CachedResult]:
        known: dict[str, CachedResult] = {}
        for node_id in graph.nodes:
            result = self._engine.cache.get(keys[node_id])
            if result is not None and self._files_are_there(result):
                known[node_id] = result
        self._finished.extend(known)
        return known

    def _files_are_there(self, result: CachedResult) -> bool:
        for items in (result.ui or {}).values():
            for item in items:
                if isinstance(item, Mapping) and "filename" in item:
                    root = self._engine.folders.of(str(item.get("type")))
                    name = (str(item.get("subfolder", "")), str(item["filename"]))
                    path = path_inside(root, *name) if root else None
                    if path is None or not path.exists():
                        return False
        return True

    def _show_known_outputs(self, graph: BoundGraph, known: Mapping[str, CachedResult]) -> None:
        for node_id in graph.outputs:
            result = known.get(node_id)
            if result is not None:
                if result.ui is not None:
                    self._emit(NodeExecuted(node_id, result.ui))
                self._emit(NodeFinished(node_id, cached=True))

    def _run_nodes(self, graph: BoundGraph, plan: Plan, keys: Mapping[str, str]) -> bool:
        """Run what the plan hands out; False when it was failed or interrupted."""
        while (node_id := plan.next_ready()) is not None:
            node = graph.nodes[node_id]
            inputs: dict[str, Slot] = {}
            try:
                self._interrupt.check()
                self._emit(NodeStarted(node_id))
                inputs = self._gather_inputs(node)
                result = invoke_node(node.definition, inputs, self._fixed_inputs(node))
            except ExecutionHalted:
                self._emit(self._interrupted_at(node))
                return False
            except Exception as error:  # noqa: BLE001 - whatever a node raises is its failure
                self._emit(self._failure_of(node, inputs, error))
                return False
            self._complete(node, result, plan, keys)
        return True

    def _complete(
        self, node: BoundNode, result: CachedResult, plan: Plan, keys: Mapping[str, str]
    ) -> None:
        if node.definition.cacheable:
            self._engine.cache.put(keys[node.id], result)
        self._keep_for_consumers(node.id, result, plan)
        self._release_inputs(node)
        self._executed.append(node.id)
        self._finished.append(node.id)
        if result.ui is not None:
            self._emit(NodeExecuted(node.id, result.ui))
        self._emit(NodeFinished(node.id))
        plan.finish(node.id)

    def _keep_for_consumers(self, node_id: str, result: CachedResult, plan: Plan) -> None:
        readers = len(plan.consumers_of(node_id))
        if readers:
            self._values[node_id] = result.slots
            self._readers_left[node_id] = readers

    def _release_inputs(self, node: BoundNode) -> None:
        for link in node.links.values():
            self._readers_left[link.source] -= 1
            if self._readers_left[link.source] == 0:
                del self._values[link.source]

    def _gather_inputs(self, node: BoundNode) -> dict[str, Slot]:
        inputs: dict[str, Slot] = {name: (value,) for name, value in node.own_literals().items()}
        for name, link in node.links.items():
            inputs[name] = self._values[link.source][link.slot]
        return inputs

    def _fixed_inputs(self, node: BoundNode) -> dict[str, Any]:
        definition = node.definition
        available: dict[str, Callable[[], Any]] = {
            "PROMPT": lambda: self._request.prompt,
            "EXTRA_PNGINFO": lambda: self._request.extra_data.get("extra_pnginfo"),
            "UNIQUE_ID": lambda: node.id,
        }
        fixed = {name: available[kind]() for name, kind in definition.hidden.items()}
        if definition.takes_context:
            fixed["context"] = NodeContext(
                node.id,
                folders=self._engine.folders,
                output_names=self._engine.output_names,
                interrupt=self._interrupt,
                clock=self._engine.clock,
                emit=self._emit,
                extra_data=self._request.extra_data,
            )
        return fixed

    def _interrupted_at(self, node: BoundNode) -> ExecutionInterrupted:
        return ExecutionInterrupted(
            node.id, node.definition.name, tuple(self._executed), self._engine.clock.now()
        )

    def _failure_of(
        self, node: BoundNode, inputs: Mapping[str, Slot], error: Exception
    ) -> ExecutionFailed:
        return ExecutionFailed(
            node_id=node.id,
            node_type=node.definition.name,
            exception_type=full_type_name(error),
            message=_message_of(error),
            traceback=traceback.format_tb(error.__traceback__),
            inputs={name: [_short_text(value) for value in slot] for name, slot in inputs.items()},
            executed=tuple(self._executed),
            finished=tuple(self._finished),
            at=self._engine.clock.now(),
        )


def full_type_name(error: BaseException) -> str:
    """The error's class with its module, which is left out for Python's own."""
    kind = type(error)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _message_of(error: Exception) -> str:
    """Python's own MemoryError says nothing."""
    if isinstance(error, MemoryError) and not str(error):
        return "The worker has not enough memory for this node. Use smaller or fewer images."
    return str(error)


def _short_text(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN_INPUT_LENGTH else text[:SHOWN_INPUT_LENGTH] + "…"
