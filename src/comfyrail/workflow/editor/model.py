"""The editor's graph as it is read: nodes, slots, links and subgraphs, before any meaning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from comfyrail.workflow.graph import Area

ALWAYS = 0
MUTED = 2
BYPASSED = 4

SUBGRAPH_INPUTS = "-10"
"""The node that stands for the inputs of a subgraph, inside of it."""


@dataclass(slots=True)
class InputSlot:
    """An input of a node. `widget` names the widget that it belongs to, where it has one."""

    name: str
    type: str
    link: str | None = None
    widget: str | None = None


@dataclass(frozen=True, slots=True)
class EditorLink:
    id: str
    origin: str
    origin_slot: int
    target: str
    target_slot: int


@dataclass(slots=True)
class EditorNode:
    """`values` are the widgets' values by position or by name; `named` are the same by name.

    `role` is the type of a node that only the editor knows; it is empty for all that are sent.
    """

    id: str
    type: str
    role: str = ""
    title: str | None = None
    mode: int = ALWAYS
    inputs: list[InputSlot] = field(default_factory=list)
    output_types: list[str] = field(default_factory=list)
    values: Sequence[Any] | Mapping[str, Any] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    properties: Mapping[str, Any] = field(default_factory=dict)
    area: Area | None = None


@dataclass(frozen=True, slots=True)
class SubgraphSlot:
    """One input or output of a subgraph, with the links that it has inside."""

    name: str
    type: str
    links: tuple[str, ...]


@dataclass(frozen=True)
class EditorGraph:
    """A whole graph, or what a subgraph is made of."""

    nodes: Mapping[str, EditorNode]
    links: Mapping[str, EditorLink]
    id: str = ""
    name: str = ""
    inputs: tuple[SubgraphSlot, ...] = ()
    outputs: tuple[SubgraphSlot, ...] = ()

    @cached_property
    def places_of_inputs(self) -> Mapping[str, Sequence[int]]:
        """Where the inputs of a name stand: most often one."""
        places: dict[str, list[int]] = {}
        for place, declared in enumerate(self.inputs):
            places.setdefault(declared.name, []).append(place)
        return places


@dataclass(frozen=True, slots=True)
class EditorDocument:
    """A file of the editor: its graph and the subgraphs that nodes are made of, by their id."""

    graph: EditorGraph
    subgraphs: Mapping[str, EditorGraph]
    metadata: Mapping[str, Any] = field(default_factory=dict)
