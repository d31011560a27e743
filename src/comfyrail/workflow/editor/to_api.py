"""The editor's format to the API format, as the editor itself exports it."""

from collections.abc import Iterator, Mapping
from typing import Any

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.editor.allowance import Allowance
from comfyrail.workflow.editor.kept import Kept, read_kept
from comfyrail.workflow.editor.model import EditorDocument, EditorNode
from comfyrail.workflow.editor.node_inputs import HeldWidget
from comfyrail.workflow.editor.notes import UNKNOWN_NODE_TYPE, ConversionNote, Notes
from comfyrail.workflow.editor.opened import OpenedNodes
from comfyrail.workflow.editor.outgoing import outgoing_value, wrap_list
from comfyrail.workflow.editor.positions import places_in_root
from comfyrail.workflow.editor.promotion import ShownWidgets
from comfyrail.workflow.editor.reading import read_document
from comfyrail.workflow.editor.resolution import FromNode, GivenValue, LinkResolver
from comfyrail.workflow.editor.scopes import Scope, unfold
from comfyrail.workflow.editor.texts import Moment
from comfyrail.workflow.editor.widget_kinds import ABSENT
from comfyrail.workflow.graph import Node, Workflow

Ids = Mapping[tuple[Scope, str], str]
"""The ids of nodes in the workflow, by where they stand in the file."""


def editor_to_workflow(
    raw: Mapping[str, Any], catalog: NodeCatalog, moment: Moment | None = None
) -> tuple[Workflow, tuple[ConversionNote, ...]]:
    """Convert a saved graph of the editor.

    The catalog says which widgets a node has and in which order; a node whose type it lacks is
    converted as far as the file itself names its inputs, with a note. Raises MalformedWorkflow
    where there is nothing to convert or no end to it.
    """
    notes = Notes()
    document = read_document(raw, notes)
    workflow = _Conversion(document, catalog, moment or Moment(), notes).convert()
    return workflow, notes.all()


class _Conversion:
    def __init__(
        self, document: EditorDocument, catalog: NodeCatalog, moment: Moment, notes: Notes
    ) -> None:
        self._document = document
        self._notes = notes
        self._allowance = Allowance()
        self._nodes = OpenedNodes(document, catalog, moment, notes, self._allowance)
        self._kept: dict[tuple[str, str], Kept] = {}
        self._compared: dict[tuple[int, int], bool] = {}
        self._links = LinkResolver(
            document.subgraphs, self._nodes.slots, self._nodes.output_types, notes
        )

    def convert(self) -> Workflow:
        shown = ShownWidgets(self._document.subgraphs, self._nodes.inputs)
        ids = self._choose_ids(unfold(self._document, shown, self._allowance))
        nodes: dict[str, Node] = {}
        for (scope, node_id), chosen in ids.items():
            node = scope.graph.nodes[node_id]
            kept = self._kept_of(scope, node)
            title = self._title_of(node, kept)
            self._allowance.spend(len(node.type) + len(title or ""))
            inputs = dict(self._inputs_of(scope, node, kept, ids))
            nodes[chosen] = Node(chosen, node.type, inputs, title)
            self._note_unknown(scope, node, chosen)
        if not nodes:
            raise MalformedWorkflow(
                "No node of the workflow would run: all are notes, muted or bypassed.",
                details={"path": "nodes"},
            )
        return Workflow(nodes, dict(self._document.metadata), places_in_root(ids))

    def _choose_ids(self, scopes: list[Scope]) -> Ids:
        """Ids of the nodes that are sent. One that was kept counts for the first that has it."""
        sent = [
            (scope, node)
            for scope in scopes
            for node in scope.graph.nodes.values()
            if self._nodes.is_sent(node)
        ]
        for scope, node in sent:
            self._allowance.spend(len(scope.prefix) + len(node.id))
        kept = {
            node.id: self._kept_of(scope, node).id for scope, node in sent if scope.parent is None
        }
        taken = {
            f"{scope.prefix}{node.id}"
            for scope, node in sent
            if scope.parent is not None or kept[node.id] is None
        }
        ids: dict[tuple[Scope, str], str] = {}
        for scope, node in sent:
            own = f"{scope.prefix}{node.id}"
            wanted = None if scope.parent is not None else kept[node.id]
            if wanted is None or wanted in taken:
                chosen = own if wanted is None else _free_id(own, taken)
            else:
                chosen = wanted
            taken.add(chosen)
            ids[scope, node.id] = chosen
        return ids

    def _kept_of(self, scope: Scope, node: EditorNode) -> Kept:
        key = (scope.graph.id, node.id)
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = read_kept(node)
        return kept

    def _inputs_of(
        self, scope: Scope, node: EditorNode, kept: Kept, ids: Ids
    ) -> Iterator[tuple[str, Any]]:
        for name, value in self._found_inputs(scope, node, kept, ids):
            self._allowance.spend_value(value)
            yield name, value

    def _found_inputs(
        self, scope: Scope, node: EditorNode, kept: Kept, ids: Ids
    ) -> Iterator[tuple[str, Any]]:
        """Inputs by name; a later one of the same name counts, as a link does over a widget."""
        inputs = self._nodes.inputs(scope.graph, node)
        overrides = scope.overrides.get(node.id, {})
        for held in inputs.widgets:
            name = held.widget.name
            current = HeldWidget(held.widget, overrides[name]) if name in overrides else held
            value = self._sent_value(current, node, kept)
            if value is not ABSENT:
                yield name, value
        for place, slot in enumerate(inputs.slots):
            source = self._links.resolve(scope, node, place) if slot.link is not None else None
            if isinstance(source, GivenValue):
                yield slot.name, wrap_list(source.value)
            elif isinstance(source, FromNode):
                yield slot.name, [ids[source.scope, source.node], source.slot]
        yield from kept.literals.items()

    def _sent_value(self, held: HeldWidget, node: EditorNode, kept: Kept) -> Any:
        if not held.widget.sent:
            return ABSENT
        note = kept.inputs.get(held.widget.name)
        value = None if held.value is ABSENT else held.value
        if note is not None and self._is_same(note.widget, value):
            return ABSENT if note.is_absent else note.value
        if held.value is ABSENT:
            return ABSENT
        return outgoing_value(held, node.type, self._nodes.texts)

    def _is_same(self, one: Any, other: Any) -> bool:
        """Both are values of the file: long ones are compared once for all uses of a node."""
        key = (id(one), id(other))
        is_same = self._compared.get(key)
        if is_same is None:
            is_same = self._compared[key] = bool(one == other)
        return is_same

    def _note_unknown(self, scope: Scope, node: EditorNode, chosen: str) -> None:
        inputs = self._nodes.inputs(scope.graph, node)
        if inputs.is_known:
            return
        lost = f" {inputs.unnamed} of its values have no name and are left out."
        self._notes.add(
            UNKNOWN_NODE_TYPE,
            f"Node {chosen} is of the type '{node.type}', which the node catalog does not have."
            f"{lost if inputs.unnamed else ''} Take the catalog of a worker that has this type.",
            chosen,
            node_type=node.type,
            values_left_out=inputs.unnamed,
        )

    def _title_of(self, node: EditorNode, kept: Kept) -> str | None:
        if node.title is None and not kept.has_title:
            return kept.title
        return node.title or self._nodes.usual_title(node)


def _free_id(wanted: str, taken: set[str]) -> str:
    number = 1
    chosen = wanted
    while chosen in taken:
        number += 1
        chosen = f"{wanted}-{number}"
    return chosen
