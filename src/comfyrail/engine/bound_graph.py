"""A checked prompt tied to the definitions of its nodes: only what the wanted outputs need."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.registry import NodeRegistry
from comfyrail.workflow.graph import is_link
from comfyrail.workflow.order import topological_order


class Link(NamedTuple):
    source: str
    slot: int


@dataclass(frozen=True, slots=True)
class BoundNode:
    """`literals` holds every other value of the prompt, also those that the node type ignores."""

    id: str
    definition: NodeDefinition
    literals: Mapping[str, Any]
    links: Mapping[str, Link]

    def own_literals(self) -> dict[str, Any]:
        """The literal values that the node type takes."""
        ports = self.definition.ports
        return {name: value for name, value in self.literals.items() if name in ports}


@dataclass(frozen=True, slots=True)
class BoundGraph:
    """The wanted outputs and all that feeds them, each node after its sources."""

    nodes: Mapping[str, BoundNode]
    outputs: tuple[str, ...]

    def sources_of(self, node_id: str) -> list[str]:
        return [link.source for link in self.nodes[node_id].links.values()]


def bind_graph(
    prompt: Mapping[str, Any], outputs: Iterable[str], registry: NodeRegistry
) -> BoundGraph:
    """Take the nodes that `outputs` need from a prompt that `check_prompt` found good."""
    wanted = tuple(outputs)
    found: dict[str, BoundNode] = {}
    waiting = list(reversed(wanted))
    while waiting:
        node_id = waiting.pop()
        if node_id not in found:
            bound = _bind_node(node_id, prompt[node_id], registry)
            found[node_id] = bound
            waiting.extend(link.source for link in bound.links.values())
    in_prompt_order = {node_id: found[node_id] for node_id in prompt if node_id in found}
    order = topological_order(
        {
            node_id: [link.source for link in bound.links.values()]
            for node_id, bound in in_prompt_order.items()
        }
    )
    return BoundGraph({node_id: found[node_id] for node_id in order}, wanted)


def _bind_node(node_id: str, entry: Mapping[str, Any], registry: NodeRegistry) -> BoundNode:
    definition = registry[entry["class_type"]]
    literals: dict[str, Any] = {}
    links: dict[str, Link] = {}
    for name, value in entry["inputs"].items():
        if name in definition.ports and is_link(value):
            links[name] = Link(value[0], int(value[1]))
        else:
            literals[name] = value
    return BoundNode(node_id, definition, literals, links)
