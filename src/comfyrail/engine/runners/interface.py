"""What an execution asks of whoever runs its nodes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from comfyrail.engine.definition import NodeDefinition, NodeResult
from comfyrail.engine.invoke import Invocation
from comfyrail.engine.live_graph import BoundNode

Value = TypeVar("Value")


class NodeTask(msgspec.Struct, frozen=True):
    """One node that is to run now.

    `source_keys` has the key and the slot behind every linked input, for those who fetch values
    by key. `invocation` has the values themselves; it is None for a task that goes elsewhere.
    """

    execution_id: str
    node: BoundNode
    key: str
    source_keys: Mapping[str, tuple[str, int]]
    invocation: Invocation | None


class KeptElsewhere(msgspec.Struct, frozen=True):
    """The node has run elsewhere; its values are in the shared cache under its key."""

    ui: Mapping[str, Sequence[Any]] | None = None
    seconds: float = 0.0


class LostInputs(Exception):
    """Values that the cache was thought to have are not there."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(f"{len(keys)} inputs are no longer in the shared cache.")
        self.keys = tuple(keys)


class RunHere(Exception):
    """The node cannot run elsewhere (a value has no form to be sent in): run it in this process."""


def invocation_of(task: NodeTask) -> Invocation:
    """The values of a task that runs here."""
    if task.invocation is None:
        raise RunHere
    return task.invocation


Outcome = list[NodeResult] | KeptElsewhere


class Runner(Protocol):
    """Carries out tasks. Used by the thread that executes, on its event loop."""

    width: int
    """How many tasks may be under way at once."""
    fuses: bool
    """Whether a chain of cheap nodes is better given to it as one call."""

    def is_remote(self, node: BoundNode) -> bool:
        """Whether the node would run elsewhere, so that its values need not be brought here."""
        ...

    def start(self, task: NodeTask) -> Outcome | Awaitable[Outcome]:
        """Run the task: at once, or as something to wait for.

        Raises what the node raises. An awaitable that is cancelled ends when the node has ended.
        """
        ...

    async def run_call(self, call: Callable[[], Value], definition: NodeDefinition) -> Value:
        """Carry out a call that stands for several nodes, with what one such node needs."""
        ...

    def keep_here(self, node: BoundNode) -> None:
        """After RunHere: do not send a node of this type elsewhere again."""
        ...

    def close(self) -> None: ...
