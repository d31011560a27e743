"""A graph while it runs: nodes tied to their definitions when they are needed, and grown by
nodes that expand.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.registry import NodeView
from comfyrail.workflow.graph import is_link

MOST_ADDED = 100_000


class Link(NamedTuple):
    source: str
    slot: int


class BoundNode(msgspec.Struct, frozen=True):
    """`literals` holds every other value of the prompt, also those that the node type ignores."""

    id: str
    definition: NodeDefinition
    literals: Mapping[str, Any]
    links: Mapping[str, Link]
    taken: frozenset[str] | None = None
    """The literals that the node takes; None means all of them."""

    def own_literals(self) -> Mapping[str, Any]:
        """The literal values that the node type takes."""
        if self.taken is None:
            return self.literals
        return {name: value for name, value in self.literals.items() if name in self.taken}

    def eager_sources(self) -> list[str]:
        """The nodes that must have run before this one can be looked at."""
        lazy = self.definition.lazy_inputs
        if not lazy:
            return [link.source for link in self.links.values()]
        return [link.source for name, link in self.links.items() if name not in lazy]


class UnknownNode(KeyError):
    """A link leads to a node that the graph does not have."""

    def __str__(self) -> str:
        return f"There is no node '{self.args[0]}' in the graph."


class DuplicateNode(ValueError):
    """An expansion has a node whose id is in the graph already."""


class ExpansionTooLarge(ValueError):
    """Nodes expand without an end."""


class LiveGraph:
    """The prompt and what nodes have put in their places. Used by one thread."""

    def __init__(self, prompt: Mapping[str, Any], types: NodeView) -> None:
        self._prompt = prompt
        self._types = types
        self._bound: dict[str, BoundNode] = {}
        self._added: dict[str, Mapping[str, Any]] = {}
        self._parents: dict[str, str] = {}
        self._displays: dict[str, str] = {}

    def __getitem__(self, node_id: str) -> BoundNode:
        """Raises UnknownNode; whatever a foreign node type raises when it is asked; and KeyError
        where an expansion names a type that does not exist.
        """
        bound = self._bound.get(node_id)
        if bound is None:
            bound = self._bind(node_id)
            self._bound[node_id] = bound
        return bound

    def replace(self, node: BoundNode) -> None:
        """Let this stand for the node of its id from now on."""
        self._bound[node.id] = node

    def entry(self, node_id: str) -> Mapping[str, Any]:
        found = self._added.get(node_id)
        if found is None:
            found = self._prompt.get(node_id)
        if found is None:
            raise UnknownNode(node_id)
        return found

    def expand(self, parent_id: str, nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """Put nodes in; gives the id under which each of them is shown."""
        if len(self._added) + len(nodes) > MOST_ADDED:
            raise ExpansionTooLarge(
                f"Node '{parent_id}' expands, and more than {MOST_ADDED} nodes have been put in."
            )
        for node_id in nodes:
            if node_id in self._prompt or self._parents.get(node_id, parent_id) != parent_id:
                raise DuplicateNode(
                    f"Node '{parent_id}' expands into a node with the id '{node_id}', "
                    "which the graph has already."
                )
        displays: dict[str, str] = {}
        for node_id, entry in nodes.items():
            # A node that had to run again puts the same nodes in again.
            self._bound.pop(node_id, None)
            self._added[node_id] = entry
            self._parents[node_id] = parent_id
            self._displays[node_id] = str(entry.get("override_display_id", parent_id))
        for node_id in nodes:
            displays[node_id] = self.display_id(node_id)
        return displays

    def type_of(self, node_id: str) -> str:
        return str(self.entry(node_id)["class_type"])

    def bind_as(self, node: BoundNode, node_type: str) -> BoundNode:
        """Another node type with the inputs of a node, as far as it has ports for them.

        Raises ValueError where there is no such type, or it gives less than the node.
        """
        if node_type not in self._types:
            raise ValueError(f"There is no node type '{node_type}' to fall back to.")
        definition = self._types[node_type]
        if len(definition.outputs) < len(node.definition.outputs):
            raise ValueError(
                f"'{node_type}' gives {len(definition.outputs)} outputs, "
                f"{node.definition.name} has {len(node.definition.outputs)}."
            )
        inputs = self.entry(node.id).get("inputs") or {}
        ports = definition.ports_for(inputs)
        return bind_node(
            node.id, definition, {name: inputs[name] for name in inputs if name in ports}
        )

    def is_output(self, node_id: str) -> bool:
        return self._types[self.entry(node_id)["class_type"]].is_output

    def is_added(self, node_id: str) -> bool:
        return node_id in self._added

    def parent_of(self, node_id: str) -> str | None:
        return self._parents.get(node_id)

    def display_id(self, node_id: str) -> str:
        return _follow(self._displays, node_id)

    def real_id(self, node_id: str) -> str:
        """The node of the prompt that this one came of."""
        return _follow(self._parents, node_id)

    def all_ids(self) -> set[str]:
        return {*self._prompt, *self._added}

    def _bind(self, node_id: str) -> BoundNode:
        entry = self.entry(node_id)
        definition = self._types[entry["class_type"]]
        return bind_node(node_id, definition, entry.get("inputs") or {})


def bind_node(node_id: str, definition: NodeDefinition, inputs: Mapping[str, Any]) -> BoundNode:
    """Tell links from literals, as the definition takes them."""
    literals: dict[str, Any] = {}
    links: dict[str, Link] = {}
    ports = definition.ports_for(inputs)
    ignored = False
    for name, value in inputs.items():
        declared = name in ports
        if is_link(value) and (declared or definition.takes_undeclared):
            links[name] = Link(value[0], int(value[1]))
        else:
            literals[name] = value
            ignored = ignored or not declared
    taken = frozenset(name for name in literals if name in ports) if ignored else None
    return BoundNode(node_id, definition, literals, links, taken)


def upstream_first(graph: LiveGraph, wanted: Iterable[str]) -> list[str]:
    """The wanted nodes and all that feeds them, each after its sources, without recursion.

    A cycle, which only expansions can make, is left as it is: its nodes come in some order.
    """
    order: list[str] = []
    seen: set[str] = set()
    for root in wanted:
        if root in seen:
            continue
        seen.add(root)
        path = [(root, iter([link.source for link in graph[root].links.values()]))]
        while path:
            node_id, sources = path[-1]
            for source in sources:
                if source not in seen:
                    seen.add(source)
                    feeds = [link.source for link in graph[source].links.values()]
                    path.append((source, iter(feeds)))
                    break
            else:
                order.append(node_id)
                path.pop()
    return order


def links_of(values: Sequence[Any]) -> list[Link]:
    """The links among the results that an expansion gives for its node."""
    return [Link(value[0], int(value[1])) for value in values if is_link(value)]


def _follow(steps: Mapping[str, str], node_id: str) -> str:
    seen = {node_id}
    while (following := steps.get(node_id)) is not None and following not in seen:
        seen.add(following)
        node_id = following
    return node_id
