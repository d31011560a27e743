"""What to do after a node has failed, by its policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from comfyrail.engine.blocking import ExecutionBlocker
from comfyrail.engine.events import NodeRecovered
from comfyrail.engine.failures import message_of
from comfyrail.engine.live_graph import BoundNode, LiveGraph
from comfyrail.engine.policies import FAIL, ErrorPolicy


@dataclass(frozen=True, slots=True)
class RecoveryStep:
    """`values` stand in for the outputs; `fallback` is a node that runs in place of the failed."""

    action: Literal["retry", "fallback", "skip", "halt", "fail"]
    event: NodeRecovered | None = None
    pause: float = 0.0
    values: Sequence[Any] = ()
    fallback: BoundNode | None = None


class Recovery:
    """The policies of one execution. A policy counts for a node id before a node type, and both
    before what the node type's definition says.
    """

    def __init__(
        self, policies: Mapping[str, ErrorPolicy], default: ErrorPolicy, graph: LiveGraph
    ) -> None:
        self._policies = policies
        self._default = default
        self._graph = graph
        self._fallen_back: set[str] = set()
        self.not_needed: frozenset[str] = frozenset()
        """Nodes that no wanted output needs: they may fail."""

    def after(self, node: BoundNode, error: Exception, attempt: int) -> RecoveryStep:
        policy = self._policy_of(node)
        if policy.kind == "retry":
            if attempt < policy.attempts:
                event = _recovered(node, "retry", attempt, error)
                return RecoveryStep("retry", event, policy.pause_before(attempt + 1))
            policy = policy.then or FAIL
        if policy.kind == "fallback":
            return self._fall_back(node, policy, error, attempt)
        if policy.kind == "skip":
            event = _recovered(node, "skip", attempt, error)
            blocked = (ExecutionBlocker(),) * len(node.definition.outputs)
            return RecoveryStep("skip", event, values=blocked)
        return RecoveryStep("halt" if policy.kind == "halt" else "fail")

    def _policy_of(self, node: BoundNode) -> ErrorPolicy:
        if node.id in self._fallen_back:
            return FAIL
        if node.id in self.not_needed:
            return ErrorPolicy("skip")
        for name in (node.id, self._graph.real_id(node.id), node.definition.name):
            found = self._policies.get(name)
            if found is not None:
                return found
        return node.definition.on_error or self._default

    def _fall_back(
        self, node: BoundNode, policy: ErrorPolicy, error: Exception, attempt: int
    ) -> RecoveryStep:
        event = _recovered(node, "fallback", attempt, error)
        if policy.node_type is not None:
            self._fallen_back.add(node.id)
            return RecoveryStep("fallback", event, fallback=self._stand_in(node, policy.node_type))
        count = len(node.definition.outputs)
        value = policy.value
        one_each = isinstance(value, list | tuple) and len(value) == count
        values = value if one_each else [value] * count
        return RecoveryStep("fallback", event, values=values)

    def _stand_in(self, node: BoundNode, node_type: str) -> BoundNode:
        """Another node type with the inputs of a node, as far as it takes them."""
        stand_in = self._graph.bind_as(node, node_type)
        # What it gives must not be found later under the key of the node that failed.
        definition = replace(stand_in.definition, cacheable=False)
        return msgspec.structs.replace(stand_in, definition=definition)


def _recovered(
    node: BoundNode, action: Literal["retry", "fallback", "skip"], attempt: int, error: Exception
) -> NodeRecovered:
    return NodeRecovered(node.id, node.definition.name, action, attempt, message_of(error))
