"""Chains of cheap nodes as one task: handing each over would cost more than running it [12.8]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from comfyrail.engine.caching.result import CachedResult, Slot
from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.invoke import Invocation, join_results
from comfyrail.engine.live_graph import BoundNode
from comfyrail.engine.run_parts import RunParts

LONGEST_CHAIN = 64


@dataclass(frozen=True, slots=True)
class ChainLink:
    """A node of a chain: `given` are the inputs that do not come from the node before it."""

    node: BoundNode
    given: Mapping[str, Slot]

    def inputs(self, before: BoundNode, slots: Sequence[Slot]) -> dict[str, Slot]:
        """All inputs, once the node before it has run."""
        fed = {
            name: slots[link.slot] if link.slot < len(slots) else (None,)
            for name, link in self.node.links.items()
            if link.source == before.id
        }
        return {**self.given, **fed}


@dataclass(slots=True)
class ChainRun:
    """What became of a chain: results as far as it came, and the error that stopped it."""

    results: list[CachedResult]
    inputs: list[Mapping[str, Slot]]
    error: Exception | None = None


class FusedChains:
    """For one execution."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts

    def followers(self, node: BoundNode) -> list[ChainLink]:
        """The cheap nodes that can only run one after the other behind this cheap one. They are
        taken out of the plan: whoever asks must finish them.
        """
        parts = self._parts
        chain: list[ChainLink] = []
        last = node
        keys = {parts.keys[node.id]}
        while is_fusable(last.definition) and len(chain) < LONGEST_CHAIN:
            follower_id = parts.plan.sole_consumer(last.id)
            if follower_id is None or parts.is_taken(follower_id):
                break
            follower = parts.graph[follower_id]
            if not is_fusable(follower.definition) or parts.keys[follower_id] in keys:
                break
            given = parts.invocations.gather(follower, (), without=last.id)
            if isinstance(given, list):
                break
            parts.plan.hold_back(follower_id)
            keys.add(parts.keys[follower_id])
            chain.append(ChainLink(follower, given))
            last = follower
        return chain

    def make(self, link: ChainLink, inputs: Mapping[str, Slot]) -> Invocation:
        return self._parts.invocations.make(link.node, inputs)

    def run(self, first: Invocation, node: BoundNode, chain: Sequence[ChainLink]) -> ChainRun:
        """Run all of them, in any thread."""
        done = ChainRun([], [first.inputs])
        try:
            done.results.append(join_results(first.definition, first.run()))
            before = node
            for link in chain:
                inputs = link.inputs(before, done.results[-1].slots)
                done.inputs.append(inputs)
                invocation = self.make(link, inputs)
                done.results.append(join_results(invocation.definition, invocation.run()))
                before = link.node
        except Exception as error:  # noqa: BLE001 - told to whoever started the chain
            done.error = error
        return done


def is_fusable(definition: NodeDefinition) -> bool:
    return (
        definition.is_cheap
        and not definition.is_async
        and not definition.lazy_inputs
        and not definition.raw_links
        and not definition.expands
        and not definition.takes_context
        and definition.instantiate is None
        and definition.timeout is None
        and definition.runs_in == "thread"
    )
