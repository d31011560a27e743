"""Nodes that put other nodes in their place, and what they give once those have run."""

from collections.abc import Sequence
from dataclasses import dataclass

from comfyrail.engine.caching.result import CachedResult, Slot
from comfyrail.engine.definition import NodeResult
from comfyrail.engine.invoke import join_expanded
from comfyrail.engine.live_graph import BoundNode, links_of, upstream_first
from comfyrail.engine.run_parts import RunParts


@dataclass(frozen=True, slots=True)
class Expansion:
    """`displays`: the new nodes, with the ids under which they are shown. `outputs`: those of
    them that are outputs. `wanted`: the nodes whose values the expanded one gives.
    """

    displays: dict[str, str]
    outputs: list[str]
    wanted: list[str]
    known: list[str]
    """Those of the new nodes that need not run."""
    results: Sequence[NodeResult]


class Expansions:
    """For one execution."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._waiting: dict[str, Expansion] = {}

    def __contains__(self, node_id: object) -> bool:
        """Whether the node has expanded, and waits for what it has become."""
        return node_id in self._waiting

    async def put_in(self, node: BoundNode, results: Sequence[NodeResult]) -> Expansion:
        """Add the new nodes to the graph and find out which of them are known. Raises whatever
        is wrong with them.
        """
        parts = self._parts
        displays: dict[str, str] = {}
        wanted: list[str] = []
        for result in results:
            if result.expand is not None:
                displays |= parts.graph.expand(node.id, result.expand)
                for node_id in result.expand:
                    parts.keys.forget(node_id)
                wanted += [link.source for link in links_of(result.outputs)]
        outputs = [node_id for node_id in displays if parts.graph.is_output(node_id)]
        order = upstream_first(parts.graph, [*wanted, *outputs])
        await parts.keys.make(order)
        parts.known.look_for(map(parts.keys.__getitem__, order))
        known = [each for each in order if each in displays and parts.keys[each] in parts.known]
        return Expansion(displays, outputs, wanted, known, results)

    def plan(self, node: BoundNode, expansion: Expansion) -> None:
        """Have the new nodes run, and come back to the node then."""
        parts = self._parts
        self._waiting[node.id] = expansion
        parts.values.expect_reader(expansion.wanted)
        parts.values.expect(parts.plan.demand(expansion.outputs))
        parts.postpone(node.id, expansion.wanted)

    def complete(self, node: BoundNode) -> CachedResult | None:
        """What the node gives; None when a value was lost, and the node waits for it again."""
        parts = self._parts
        expansion = self._waiting[node.id]
        slots: dict[str, tuple[Slot, ...]] = {}
        lost = []
        for source in expansion.wanted:
            found = parts.values.get(source)
            if found is None:
                lost.append(source)
            else:
                slots[source] = found
        if lost:
            parts.postpone(node.id, lost)
            return None
        joined = join_expanded(
            node.definition, expansion.results, lambda link: slots[link[0]][int(link[1])]
        )
        parts.values.reader_done(expansion.wanted)
        return joined

    def sources_of(self, node_id: str) -> Sequence[str]:
        """Where the values of an expanded node come from."""
        return self._waiting[node_id].wanted

    def forget(self, node_id: str) -> None:
        del self._waiting[node_id]
