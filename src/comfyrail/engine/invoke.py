"""Call a node's function: give it its inputs, repeat it over lists, and read what it returns."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec

from comfyrail.engine.blocking import ExecutionBlocker
from comfyrail.engine.caching.result import CachedResult, Slot, freeze_arrays
from comfyrail.engine.definition import NodeDefinition, NodeFunction, NodeResult
from comfyrail.engine.running_calls import RunningCalls
from comfyrail.workflow.graph import is_link

Around = Callable[[int], AbstractContextManager[None]]
"""What is entered around the call of this number."""

_SILENT = ExecutionBlocker()


class NodeExited(RuntimeError):
    """A node called `exit`: its failure, not the worker's end."""

    def __init__(self, error: SystemExit) -> None:
        super().__init__(f"The node tried to end the worker ({error.code}).")


class Invocation(msgspec.Struct, frozen=True):
    """One node with all that a run of it needs. Can be carried out in any thread."""

    definition: NodeDefinition
    function: NodeFunction
    inputs: Mapping[str, Slot]
    fixed: Mapping[str, Any]
    """Given to every call as it is."""
    around: Around | None = None
    on_blocked: Callable[[str], None] | None = None
    """Called with the message of a blocker that stops a call."""
    calls: RunningCalls | None = None
    """Where the calls of the function are noted, so that they can be broken off."""

    def run(self) -> list[NodeResult]:
        """Call the function once for each item of the longest input; shorter ones repeat their
        last item. A node that takes lists is called once, with all items.
        """
        try:
            return [self._call(index, call) for index, call in enumerate(self._calls())]
        except SystemExit as error:
            raise NodeExited(error) from error

    async def run_async(self) -> list[NodeResult]:
        """The same for a coroutine function: the calls overlap."""
        calls = [self._await(index, call) for index, call in enumerate(self._calls())]
        if len(calls) == 1:
            return [await calls[0]]
        return list(await asyncio.gather(*calls))

    def _call(self, index: int, call: Mapping[str, Any]) -> NodeResult:
        blocker = self._blocker_of(call)
        if blocker is not None:
            return self._blocked(blocker)
        if self.around is None:
            returned = self._run_function(call)
        else:
            with self.around(index):
                returned = self._run_function(call)
        return read_result(self.definition, returned)

    def _run_function(self, call: Mapping[str, Any]) -> Any:
        if self.calls is None:
            return self.function(**call, **self.fixed)
        return self.calls.run(self.function, call, self.fixed)

    async def _await(self, index: int, call: Mapping[str, Any]) -> NodeResult:
        blocker = self._blocker_of(call)
        if blocker is not None:
            return self._blocked(blocker)
        try:
            with nullcontext() if self.around is None else self.around(index):
                returned = await self.function(**call, **self.fixed)
        except SystemExit as error:
            raise NodeExited(error) from error
        return read_result(self.definition, returned)

    def _calls(self) -> list[dict[str, Any]]:
        if self.definition.takes_lists:
            return [{name: list(values) for name, values in self.inputs.items()}]
        return spread_over_lists(self.inputs)

    def _blocker_of(self, call: Mapping[str, Any]) -> ExecutionBlocker | None:
        for value in call.values():
            if isinstance(value, ExecutionBlocker):
                return value
            if self.definition.takes_lists:
                for item in value:
                    if isinstance(item, ExecutionBlocker):
                        return item
        return None

    def _blocked(self, blocker: ExecutionBlocker) -> NodeResult:
        """What is stopped passes the stop on, without its message: that was told once."""
        if blocker.message is not None and self.on_blocked is not None:
            self.on_blocked(blocker.message)
        return NodeResult((_SILENT,) * len(self.definition.outputs))


def spread_over_lists(inputs: Mapping[str, Slot]) -> list[dict[str, Any]]:
    """The calls for inputs of several items; none where an input has no item at all."""
    count = 1
    for values in inputs.values():
        if len(values) != 1:
            if not values:
                return []
            count = max(count, len(values))
    if count == 1:
        return [{name: values[0] for name, values in inputs.items()}]
    return [
        {name: values[min(index, len(values) - 1)] for name, values in inputs.items()}
        for index in range(count)
    ]


def read_result(definition: NodeDefinition, returned: Any) -> NodeResult:
    """What a function returned, in one form. Raises TypeError for the wrong number of values."""
    if isinstance(returned, NodeResult):
        result = returned
    elif isinstance(returned, tuple):
        result = NodeResult(returned)
    elif isinstance(returned, ExecutionBlocker):
        result = NodeResult((returned,) * len(definition.outputs))
    else:
        result = NodeResult(() if returned is None and not definition.outputs else (returned,))
    if len(result.outputs) != len(definition.outputs):
        raise TypeError(
            f"{definition.name} returned {len(result.outputs)} outputs, "
            f"its definition has {len(definition.outputs)}."
        )
    return result


def join_results(
    definition: NodeDefinition, results: Sequence[NodeResult], seconds: float = 0.0
) -> CachedResult:
    """The results of all calls as one; arrays in it are read-only."""
    slots = tuple(
        _join(results, index, is_list=port.is_list, whole=port.broadcast)
        for index, port in enumerate(definition.outputs)
    )
    freeze_arrays(slots)
    return CachedResult(slots, _join_ui(results), seconds)


def join_expanded(
    definition: NodeDefinition,
    results: Sequence[NodeResult],
    slot_of: Callable[[Sequence[Any]], Slot],
) -> CachedResult:
    """The same once the nodes have run that expansions put in: `slot_of` follows a link."""
    slots = []
    for index, port in enumerate(definition.outputs):
        items: list[Any] = []
        for result in results:
            value = result.outputs[index]
            if result.expand is not None and is_link(value):
                items.extend(slot_of(value))
            elif port.is_list and not isinstance(value, ExecutionBlocker):
                items.extend(value)
            else:
                items.append(value)
        slots.append(tuple(items))
    return CachedResult(tuple(slots))


def _join(results: Sequence[NodeResult], index: int, *, is_list: bool, whole: bool) -> Slot:
    if not is_list:
        return tuple([result.outputs[index] for result in results])
    items: list[Any] = []
    for result in results:
        value = result.outputs[index]
        if isinstance(value, ExecutionBlocker) or whole:
            items.append(value)
        else:
            items.extend(value)
    return tuple(items)


def _join_ui(results: Sequence[NodeResult]) -> Mapping[str, Sequence[Any]] | None:
    shown = [result.ui for result in results if result.ui is not None]
    if not shown:
        return None
    joined: dict[str, list[Any]] = {}
    for ui in shown:
        for key, items in ui.items():
            joined.setdefault(key, []).extend(items)
    return joined
