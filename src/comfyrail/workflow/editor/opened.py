"""The nodes of a file as the editor holds them once it has opened it, whatever uses them."""

from collections.abc import Iterator, Sequence

from comfyrail.workflow.catalog import ANY_TYPES, NodeCatalog
from comfyrail.workflow.editor.allowance import Allowance
from comfyrail.workflow.editor.front_end_nodes import PRIMITIVE
from comfyrail.workflow.editor.instances import InstanceSlots
from comfyrail.workflow.editor.model import (
    BYPASSED,
    MUTED,
    EditorDocument,
    EditorGraph,
    EditorNode,
    InputSlot,
)
from comfyrail.workflow.editor.node_inputs import NodeInputs, hold_inputs
from comfyrail.workflow.editor.notes import Notes
from comfyrail.workflow.editor.outgoing import settle
from comfyrail.workflow.editor.resolution import primitive_value
from comfyrail.workflow.editor.text_writer import TextWriter
from comfyrail.workflow.editor.texts import Moment
from comfyrail.workflow.editor.unknown_types import guess_inputs
from comfyrail.workflow.editor.widget_kinds import ABSENT
from comfyrail.workflow.editor.widgets import declared_inputs

REPLACES_TEXT = "Run widget replace on values"
NODE_NAME = "Node name for S&R"


class OpenedNodes:
    """What is learned of a node is kept for all uses of the subgraph that it is in."""

    def __init__(
        self,
        document: EditorDocument,
        catalog: NodeCatalog,
        moment: Moment,
        notes: Notes,
        allowance: Allowance,
    ) -> None:
        self._document = document
        self._catalog = catalog
        self.texts = TextWriter(moment, self.find_widget, notes, allowance)
        self._declared = catalog.prepared(declared_inputs)
        self._inputs: dict[tuple[str, str], NodeInputs] = {}
        self._settled: set[tuple[str, str]] = set()
        self._is_filling = False
        self._by_name: dict[str, tuple[EditorGraph, EditorNode]] | None = None

    def is_sent(self, node: EditorNode) -> bool:
        """Whether a node is there for workers, and not muted or bypassed."""
        return not (
            node.role or node.type in self._document.subgraphs or node.mode in {MUTED, BYPASSED}
        )

    def inputs(self, graph: EditorGraph, node: EditorNode) -> NodeInputs:
        key = (graph.id, node.id)
        inputs = self._inputs.get(key)
        if inputs is None:
            inputs = self._inputs[key] = self._learn(node)
        # Not while a primitive's own text is filled in: one could ask for the next without end.
        if not self._is_filling and key not in self._settled:
            self._settled.add(key)
            self._apply_primitives(graph, inputs)
        return inputs

    def slots(self, graph: EditorGraph, node: EditorNode) -> Sequence[InputSlot]:
        return self.inputs(graph, node).slots

    def output_types(self, node: EditorNode) -> Sequence[str]:
        definition = self._document.subgraphs.get(node.type)
        if definition is not None:
            return [slot.type for slot in definition.outputs]
        node_type, given = self._catalog.get(node.type), node.output_types
        if node_type is None:
            return given
        return [
            given[place] if port.type in ANY_TYPES and place < len(given) else port.type
            for place, port in enumerate(node_type.outputs)
        ]

    def usual_title(self, node: EditorNode) -> str:
        node_type = self._catalog.get(node.type)
        return (node_type.display_name if node_type else None) or node.type

    def find_widget(self, node_name: str, widget_name: str) -> object:
        """The value of a widget by names; None where there is no such node or widget."""
        if self._by_name is None:
            # A name given for this purpose counts over a title, the first node over others.
            self._by_name = {}
            for name, place in (*self._names_given(), *self._titles()):
                self._by_name.setdefault(name, place)
        found = self._by_name.get(node_name)
        held = self.inputs(*found).by_name.get(widget_name) if found else None
        if held is None or held.value is ABSENT:
            return None
        return "" if held.value is None else held.value

    def _names_given(self) -> Iterator[tuple[str, tuple[EditorGraph, EditorNode]]]:
        for graph, node in self._all_nodes():
            name = node.properties.get(NODE_NAME)
            if isinstance(name, str):
                yield name, (graph, node)

    def _titles(self) -> Iterator[tuple[str, tuple[EditorGraph, EditorNode]]]:
        for graph, node in self._all_nodes():
            yield node.title or self.usual_title(node), (graph, node)

    def _all_nodes(self) -> Iterator[tuple[EditorGraph, EditorNode]]:
        for graph in (self._document.graph, *self._document.subgraphs.values()):
            for node in graph.nodes.values():
                yield graph, node

    def _learn(self, node: EditorNode) -> NodeInputs:
        definition = self._document.subgraphs.get(node.type)
        if definition is not None:
            return NodeInputs(InstanceSlots(node, definition))
        if node.role:
            return NodeInputs(node.inputs)
        node_type, declared = self._catalog.get(node.type), self._declared[node.type]
        if node_type is None or declared is None:
            return guess_inputs(node)
        inputs = hold_inputs(node, node_type, declared)
        for held in inputs.widgets:
            held.value = settle(held, node.type)
        return inputs

    def _apply_primitives(self, graph: EditorGraph, inputs: NodeInputs) -> None:
        """A primitive writes its value into the widgets that it is linked to."""
        if not inputs.widgets:
            return
        for slot in inputs.slots:
            link = graph.links.get(slot.link) if slot.link is not None else None
            origin = graph.nodes.get(link.origin) if link is not None else None
            if origin is None or origin.role != PRIMITIVE or slot.widget is None:
                continue
            value, target = primitive_value(origin), inputs.by_name.get(slot.widget)
            if value is ABSENT or target is None:
                continue
            if isinstance(value, str) and origin.properties.get(REPLACES_TEXT):
                value = self._filled(value)
            target.value = value

    def _filled(self, text: str) -> str:
        self._is_filling = True
        try:
            return self.texts.fill_text(text)
        finally:
            self._is_filling = False
