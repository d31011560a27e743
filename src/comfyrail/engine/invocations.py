"""What a node is called with: its inputs, hidden ones, its context, and what is around it."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from comfyrail.engine.blocking import ExecutionBlocker
from comfyrail.engine.caching.result import Slot, copy_containers
from comfyrail.engine.context import NodeContext
from comfyrail.engine.invoke import Around, Invocation, spread_over_lists
from comfyrail.engine.live_graph import BoundNode
from comfyrail.engine.run_values import RunValues

if TYPE_CHECKING:
    from comfyrail.engine.execution import Execution


_NOTHING: dict[str, Any] = {}
_CONTAINERS = (list, dict, tuple)


def _own(items: Slot) -> Slot:
    """Items that the node may change as far as they are lists and mappings."""
    if any(type(item) in _CONTAINERS for item in items):
        return tuple([copy_containers(item) for item in items])
    return items


class Invocations:
    """Makes them for one execution."""

    def __init__(self, run: "Execution", values: RunValues) -> None:
        self._run = run
        self._engine = run.engine
        self._values = values

    def gather(
        self, node: BoundNode, asked: Iterable[str], *, without: str | None = None
    ) -> dict[str, Slot] | list[str]:
        """The values of all inputs, lazy ones only where they were asked for, and none of the
        node `without`; or the sources whose values were known and are lost.
        """
        inputs: dict[str, Slot] = {name: (value,) for name, value in node.own_literals().items()}
        lazy = node.definition.lazy_inputs
        lost = []
        for name, link in node.links.items():
            if link.source == without:
                continue
            if name in node.definition.raw_links:
                inputs[name] = ([link.source, link.slot],)
                continue
            if name in lazy and name not in asked:
                inputs[name] = (None,)
                continue
            slots = self._values.get(link.source)
            if slots is None:
                lost.append(link.source)
            else:
                items = slots[link.slot] if link.slot < len(slots) else (None,)
                inputs[name] = items if node.definition.takes_undeclared else _own(items)
        return lost or inputs

    def make(self, node: BoundNode, inputs: Mapping[str, Slot]) -> Invocation:
        return Invocation(
            node.definition,
            self._engine.instances.of(node.id, node.definition).run,
            inputs,
            self._fixed(node, inputs),
            self._around(node.id),
            partial(self._run.tell_blocked, node),
            self._run.calls,
        )

    def ask_what_is_needed(self, node: BoundNode, inputs: Mapping[str, Slot]) -> Any:
        """The names of inputs that a lazy node asks for, or something to await that gives them."""
        check_lazy = self._engine.instances.of(node.id, node.definition).check_lazy
        if check_lazy is None:
            return ()
        if node.definition.takes_lists:
            calls = [{name: list(values) for name, values in inputs.items()}]
        else:
            calls = spread_over_lists(inputs)
        fixed = self._fixed(node, inputs)
        around = self._around(node.id)
        unblocked = [
            (index, call)
            for index, call in enumerate(calls)
            if not any(isinstance(value, ExecutionBlocker) for value in call.values())
        ]
        if inspect.iscoroutinefunction(check_lazy):
            return _ask_later(check_lazy, unblocked, fixed, around)
        answers = []
        for index, call in unblocked:
            with nullcontext() if around is None else around(index):
                answers.append(check_lazy(**call, **fixed))
        return _all_names(answers)

    def _around(self, node_id: str) -> Around | None:
        if not self._engine.has_surroundings:
            return None
        return partial(self._engine.surroundings.call, self._run, node_id)

    def _fixed(self, node: BoundNode, inputs: Mapping[str, Slot]) -> Mapping[str, Any]:
        definition = node.definition
        if not definition.hidden and not definition.takes_context:
            return _NOTHING
        fixed = {name: self._hidden(kind, node) for name, kind in definition.hidden.items()}
        if definition.takes_context:
            engine, run = self._engine, self._run
            fixed["context"] = NodeContext(
                node.id,
                execution_id=run.execution_id,
                folders=engine.folders,
                output_names=engine.output_names,
                interrupt=run.interrupt,
                clock=engine.clock,
                emit=run.emit,
                extra_data=run.extra_data,
                inputs=inputs,
                checkpoint=run.checkpoint,
                key=run.key_of(node.id),
                outputs=definition.outputs,
                measure=partial(engine.hooks.measured, definition),
            )
        return fixed

    def _hidden(self, kind: str, node: BoundNode) -> Any:
        run = self._run
        match kind:
            case "PROMPT":
                return run.prompt
            case "DYNPROMPT":
                return self._engine.surroundings.dynamic_prompt(run)
            case "EXTRA_PNGINFO":
                return run.extra_data.get("extra_pnginfo")
            case "UNIQUE_ID":
                return node.id
            case _:
                return run.secrets.get(kind.lower())


def _all_names(answers: Iterable[Any]) -> list[str]:
    """What a lazy node asks for in all of its calls; anything else than a list asks for nothing."""
    names = [name for answer in answers if isinstance(answer, list | tuple) for name in answer]
    return [name for name in dict.fromkeys(names) if isinstance(name, str)]


async def _ask_later(
    check_lazy: Callable[..., Awaitable[Any]],
    calls: Sequence[tuple[int, Mapping[str, Any]]],
    fixed: Mapping[str, Any],
    around: Around | None,
) -> list[str]:
    answers = []
    for index, call in calls:
        with nullcontext() if around is None else around(index):
            answers.append(await check_lazy(**call, **fixed))
    return _all_names(answers)
