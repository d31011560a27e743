"""A node class's own judgement of its inputs: VALIDATE_INPUTS, or validate_inputs."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comfyrail.engine.comfyui.calling import as_lists, constants_of
from comfyrail.engine.comfyui.results import as_blocker
from comfyrail.engine.definition import InputFault, NodeInputs

INPUT_TYPES = "input_types"


@dataclass(slots=True)
class ClassCheck:
    """Asks a function of a class, which takes the inputs that it judges by name.

    A function that takes `input_types` judges the types of links too; one that takes any keyword
    judges all inputs.
    """

    ask: Callable[[str], Callable[..., Any]]
    """The function, for the node of this id."""
    names: frozenset[str]
    takes_any: bool
    judges_types: bool
    ports_for: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    """The ports of a node that has these inputs."""
    hidden: Callable[[str], Mapping[str, Any]]
    """The hidden inputs that it gets, for the node of this id."""
    takes_lists: bool
    is_async: bool

    @classmethod
    def of(cls, signature_of: Callable[..., Any], **about: Any) -> "ClassCheck":
        """`signature_of` has the signature of the function that is asked."""
        signature = inspect.getfullargspec(signature_of)
        return cls(
            names=frozenset(signature.args),
            takes_any=signature.varkw is not None,
            judges_types=INPUT_TYPES in signature.args,
            is_async=inspect.iscoroutinefunction(signature_of),
            **about,
        )

    def judges(self, name: str) -> bool:
        """Parts of one input (`images.image0`) are judged together."""
        return self.takes_any or name in self.names or name.partition(".")[0] in self.names

    def find_faults(
        self, inputs: NodeInputs
    ) -> Sequence[InputFault] | Awaitable[Sequence[InputFault]]:
        if not self.names and not self.takes_any:
            return []
        values = self._values(inputs)
        function = self.ask(inputs.node_id)
        if self.is_async:
            return self._await_faults(function, values)
        return _faults(values, function(**values))

    async def _await_faults(
        self, function: Callable[..., Any], values: Mapping[str, Any]
    ) -> Sequence[InputFault]:
        return _faults(values, await function(**values))

    def _values(self, inputs: NodeInputs) -> dict[str, Any]:
        known = constants_of(inputs, self.ports_for) | dict(self.hidden(inputs.node_id))
        values = {name: value for name, value in known.items() if self.judges(name)}
        if self.judges_types:
            links = inputs.links.items()
            values[INPUT_TYPES] = {name: kind for name, kind in links if kind is not None}
        return as_lists(values, inputs.links) if self.takes_lists else values


def _faults(values: Mapping[str, Any], verdict: Any) -> list[InputFault]:
    if verdict is True or as_blocker(verdict) is not None:
        return []
    reason = None if verdict is False else str(verdict)
    return [InputFault(name, reason) for name in values]
