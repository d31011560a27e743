"""The API format to the editor's: a graph that opens in ComfyUI and converts back unchanged."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from comfyrail.workflow.catalog import NodeCatalog, OutputPort
from comfyrail.workflow.editor.kept import PROPERTY
from comfyrail.workflow.editor.layout import NODE_WIDTH, Point, ordered_ids, place_nodes
from comfyrail.workflow.editor.model import ALWAYS
from comfyrail.workflow.editor.new_node import NewNode, NodeBuilder
from comfyrail.workflow.editor.opened import NODE_NAME
from comfyrail.workflow.graph import Workflow, is_link

SCHEMA_VERSION = 0.4
UNDECLARED_OUTPUTS = 100_000
"""Outputs that links ask for and no type declares: so many are drawn in all."""
SLOT_HEIGHT = 22
TALL_WIDGET = 120


def workflow_to_editor(workflow: Workflow, catalog: NodeCatalog) -> dict[str, Any]:
    """The graph as the editor saves it.

    Nodes are placed in columns. What the editor has no place for (ids that are not numbers, inputs
    that a type does not have) is kept in the properties of nodes, from where `editor_to_workflow`
    takes it back. Transforms of edges become nodes.
    """
    return _Drawing(workflow.expanded(), catalog).draw()


class _Drawing:
    def __init__(self, workflow: Workflow, catalog: NodeCatalog) -> None:
        self._workflow = workflow
        self._catalog = catalog
        self._numbers = dict(_number_nodes(workflow.nodes))
        self._links: list[list[Any]] = []
        self._outputs: dict[str, dict[int, list[int]]] = {}
        self._extents: dict[str, int] = {}
        self._undeclared = UNDECLARED_OUTPUTS

    def draw(self) -> dict[str, Any]:
        order = ordered_ids(self._workflow)
        builder = NodeBuilder(self._catalog)
        made: dict[str, NewNode] = {}
        for node in self._workflow.nodes.values():
            links = frozenset(name for name, value in node.inputs.items() if self._leads(value))
            number = self._numbers[node.id]
            made[node.id] = builder.build(node, links, None if str(number) == node.id else node.id)
        for new in made.values():
            self._link(new)
        places = place_nodes(
            self._workflow, order, {node_id: self._height(new) for node_id, new in made.items()}
        )
        ranks = {node_id: rank for rank, node_id in enumerate(order)}
        extra = {PROPERTY: dict(self._workflow.metadata)} if self._workflow.metadata else {}
        return {
            "last_node_id": max(self._numbers.values()),
            "last_link_id": len(self._links),
            "nodes": [
                self._drawn(new, places[node_id], ranks[node_id]) for node_id, new in made.items()
            ],
            "links": self._links,
            "groups": [],
            "config": {},
            "extra": extra,
            "version": SCHEMA_VERSION,
        }

    def _leads(self, value: Any) -> bool:
        """Whether an input's value is a link that the editor can have."""
        if not is_link(value) or value[0] not in self._numbers or value[1] < 0:
            return False
        source, slot = value[0], int(value[1])
        extent = self._extents.setdefault(source, len(self._ports(source)))
        if slot < extent:
            return True
        if slot + 1 - extent > self._undeclared:
            return False
        self._undeclared -= slot + 1 - extent
        self._extents[source] = slot + 1
        return True

    def _link(self, new: NewNode) -> None:
        for place, slot in enumerate(new.slots):
            if slot.name not in new.links:
                continue
            source, output = new.node.inputs[slot.name]
            number = len(self._links) + 1
            slot.link = str(number)
            kind = self._output_port(source, int(output)).type
            target = self._numbers[new.node.id]
            self._links.append([number, self._numbers[source], int(output), target, place, kind])
            self._outputs.setdefault(source, {}).setdefault(int(output), []).append(number)

    def _output_port(self, node_id: str, slot: int) -> OutputPort:
        ports = self._ports(node_id)
        return ports[slot] if slot < len(ports) else OutputPort(f"output {slot}", "*")

    def _ports(self, node_id: str) -> Sequence[OutputPort]:
        node_type = self._catalog.get(self._workflow.nodes[node_id].class_type)
        return node_type.outputs if node_type else ()

    def _drawn(self, new: NewNode, place: Point, rank: int) -> dict[str, Any]:
        node = new.node
        properties: dict[str, Any] = {NODE_NAME: node.class_type}
        kept = new.kept.as_property()
        if kept:
            properties[PROPERTY] = kept
        drawn: dict[str, Any] = {
            "id": self._numbers[node.id],
            "type": node.class_type,
            "pos": list(place),
            "size": [NODE_WIDTH, self._height(new)],
            "flags": {},
            "order": rank,
            "mode": ALWAYS,
            "inputs": [
                {
                    "name": slot.name,
                    "type": slot.type,
                    "link": None if slot.link is None else int(slot.link),
                    **({} if slot.widget is None else {"widget": {"name": slot.widget}}),
                }
                for slot in new.slots
            ],
            "outputs": list(self._drawn_outputs(node.id)),
            "properties": properties,
            "widgets_values": new.values,
        }
        if node.title:
            drawn["title"] = node.title
        if new.named:
            drawn["widgets_values_named"] = new.named
        return drawn

    def _drawn_outputs(self, node_id: str) -> Iterator[dict[str, Any]]:
        used = self._outputs.get(node_id, {})
        for slot in range(self._extents.get(node_id, len(self._ports(node_id)))):
            port = self._output_port(node_id, slot)
            yield {"name": port.name, "type": port.type, "links": used.get(slot, [])}

    def _height(self, new: NewNode) -> int:
        texts = sum(isinstance(value, str) and len(value) > 60 for value in new.values)
        rows = max(len(new.slots), len(self._ports(new.node.id))) + len(new.values)
        return SLOT_HEIGHT * (rows + 1) + TALL_WIDGET * texts


def _number_nodes(nodes: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    """Ids as the editor has them: numbers. Others get numbers that are free."""
    own = {each: int(each) for each in nodes if _is_number(each)}
    free = max(own.values(), default=0) + 1
    for node_id in nodes:
        if node_id in own:
            yield node_id, own[node_id]
        else:
            yield node_id, free
            free += 1


def _is_number(node_id: str) -> bool:
    return (
        node_id.isascii()
        and node_id.isdigit()
        and len(node_id) < 16
        and (node_id == "0" or node_id[0] != "0")
    )
