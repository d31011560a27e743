"""What the parts of one execution share."""

from dataclasses import dataclass

from comfyrail.engine.invocations import Invocations
from comfyrail.engine.keys import KeyBook
from comfyrail.engine.known_results import KnownResults
from comfyrail.engine.live_graph import LiveGraph
from comfyrail.engine.plan import Plan
from comfyrail.engine.run_values import RunValues


@dataclass(frozen=True, slots=True)
class RunParts:
    graph: LiveGraph
    keys: KeyBook
    known: KnownResults
    values: RunValues
    plan: Plan
    invocations: Invocations
    under_way: dict[str, list[str]]
    """Keys of nodes that run now, and the nodes of the same key that wait for them."""

    def is_taken(self, node_id: str) -> bool:
        """Whether a node of the same key runs, or has run."""
        key = self.keys[node_id]
        return key in self.under_way or key in self.known

    def postpone(self, node_id: str, sources: list[str]) -> None:
        """Hand a node out again when these have run too."""
        self.values.expect(self.plan.postpone(node_id, sources))
