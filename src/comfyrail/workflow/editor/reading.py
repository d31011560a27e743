"""From the editor's JSON to its model. The JSON is anyone's: what makes no sense is left out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.catalog import COMBO
from comfyrail.workflow.editor.front_end_nodes import FRONT_END_TYPES, RENAMED_TYPES
from comfyrail.workflow.editor.kept import kept_type
from comfyrail.workflow.editor.model import (
    ALWAYS,
    EditorDocument,
    EditorGraph,
    EditorLink,
    EditorNode,
    InputSlot,
    SubgraphSlot,
)
from comfyrail.workflow.editor.notes import MALFORMED, Notes
from comfyrail.workflow.editor.positions import read_area
from comfyrail.workflow.nearest import shown

NAME_LIMIT = 500
TYPE_LIMIT = 2000
SUBGRAPH_LIMIT = 10_000


def is_editor_format(raw: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether parsed JSON is of the editor: its nodes are a list, not an object."""
    return isinstance(raw, Mapping) and isinstance(raw.get("nodes"), list)


def read_document(raw: Mapping[str, Any], notes: Notes) -> EditorDocument:
    """Read a saved graph or what the editor puts on the clipboard."""
    subgraphs: dict[str, EditorGraph] = {}
    for definition in _definitions(raw):
        key = _key(definition.get("id"))
        if key is not None and key not in subgraphs:
            subgraphs[key] = _read_graph(definition, notes, key)
    graph = _read_graph(raw, notes)
    if not graph.nodes:
        raise MalformedWorkflow("The workflow has no nodes.", details={"path": "nodes"})
    return EditorDocument(graph, subgraphs, _metadata(raw))


def _definitions(raw: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every subgraph's definition, those inside of definitions included."""
    waiting = [raw]
    found = 0
    while waiting:
        holder = waiting.pop()
        definitions = _mapping(holder.get("definitions")).get("subgraphs")
        for each in (*_items(definitions), *_items(holder.get("subgraphs"))):
            if isinstance(each, Mapping):
                found += 1
                if found > SUBGRAPH_LIMIT:
                    raise MalformedWorkflow(
                        f"The workflow has more than {SUBGRAPH_LIMIT} subgraphs.",
                        details={"path": "definitions"},
                    )
                yield each
                waiting.append(each)


def _metadata(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(_mapping(raw.get("extra")).get("comfyrail"))


def _read_graph(raw: Mapping[str, Any], notes: Notes, key: str = "") -> EditorGraph:
    nodes: dict[str, EditorNode] = {}
    in_order: list[EditorNode | None] = []
    for entry in _items(raw.get("nodes")):
        node = _read_node(entry, notes)
        in_order.append(node)
        if node is None:
            continue
        if node.id in nodes:
            notes.add(
                MALFORMED, f"Two nodes have the id {node.id}: the second is left out.", node.id
            )
        else:
            nodes[node.id] = node
    links = {link.id: link for link in _read_links(raw.get("links"), in_order)}
    if "version" not in raw and not key:
        _plug_in(nodes, links)
    name = raw.get("name")
    return EditorGraph(
        nodes=nodes,
        links=links,
        id=key,
        name=name[:NAME_LIMIT] if isinstance(name, str) else key,
        inputs=tuple(_read_subgraph_slots(raw.get("inputs"))),
        outputs=tuple(_read_subgraph_slots(raw.get("outputs"))),
    )


def _plug_in(nodes: Mapping[str, EditorNode], links: Mapping[str, EditorLink]) -> None:
    """Nodes on the clipboard have lost their links: the list of links still knows them."""
    for link in links.values():
        node = nodes.get(link.target)
        if node is not None and 0 <= link.target_slot < len(node.inputs):
            slot = node.inputs[link.target_slot]
            if slot.link is None:
                slot.link = link.id


def _read_node(entry: object, notes: Notes) -> EditorNode | None:
    if not isinstance(entry, Mapping):
        notes.add(MALFORMED, f"A node is {shown(entry)}, not an object: it is left out.")
        return None
    key, kind = _key(entry.get("id")), entry.get("type")
    if key is None or not isinstance(kind, str) or not 0 < len(kind) <= TYPE_LIMIT:
        notes.add(
            MALFORMED,
            f"A node has the id {shown(entry.get('id'))} and the type {shown(kind)}: "
            "it needs both, so it is left out.",
            key,
        )
        return None
    title = entry.get("title")
    values = entry.get("widgets_values")
    properties = _mapping(entry.get("properties"))
    kept = kept_type(properties, kind)
    return EditorNode(
        id=key,
        type=kept or RENAMED_TYPES.get(kind, kind),
        role=kind if kept is None and kind in FRONT_END_TYPES else "",
        title=title if isinstance(title, str) and title else None,
        mode=_whole(entry.get("mode"), ALWAYS),
        inputs=[_read_input(each) for each in _items(entry.get("inputs"))],
        output_types=[
            _type_name(_mapping(each).get("type")) for each in _items(entry.get("outputs"))
        ],
        values=values if isinstance(values, list | Mapping) else (),
        named=_mapping(entry.get("widgets_values_named")),
        properties=properties,
        area=read_area(entry),
    )


def _read_input(entry: object) -> InputSlot:
    slot = _mapping(entry)
    name = slot.get("name")
    widget = _mapping(slot.get("widget")).get("name")
    return InputSlot(
        name=name if isinstance(name, str) else "",
        type=_type_name(slot.get("type")),
        link=_key(slot.get("link")),
        widget=widget if isinstance(widget, str) else None,
    )


def _read_links(raw: object, in_order: Sequence[EditorNode | None]) -> Iterator[EditorLink]:
    """Links as lists, as objects, or as the old clipboard has them: by position of the nodes."""
    for number, entry in enumerate(_items(raw)):
        if isinstance(entry, Mapping):
            fields = [
                entry.get(name)
                for name in ("id", "origin_id", "origin_slot", "target_id", "target_slot")
            ]
        elif isinstance(entry, list) and len(entry) >= 6:
            fields = entry[:5]
        elif isinstance(entry, list) and len(entry) == 5:
            fields = _by_position(number, entry, in_order)
        else:
            continue
        key, origin, target = _key(fields[0]), _key(fields[1]), _key(fields[3])
        if key is not None and origin is not None and target is not None:
            yield EditorLink(key, origin, _whole(fields[2], -1), target, _whole(fields[4], -1))


def _by_position(
    number: int, entry: Sequence[Any], in_order: Sequence[EditorNode | None]
) -> list[Any]:
    ends: list[str | None] = []
    for position in (_whole(entry[0], -1), _whole(entry[2], -1)):
        node = in_order[position] if 0 <= position < len(in_order) else None
        ends.append(node.id if node else None)
    return [f"position {number}", ends[0], entry[1], ends[1], entry[3]]


def _read_subgraph_slots(raw: object) -> Iterator[SubgraphSlot]:
    for entry in _items(raw):
        slot = _mapping(entry)
        name = slot.get("name")
        keys = (_key(each) for each in _items(slot.get("linkIds")))
        yield SubgraphSlot(
            name=name if isinstance(name, str) else "",
            type=_type_name(slot.get("type")),
            links=tuple(key for key in keys if key is not None),
        )


def _key(value: object) -> str | None:
    """An id as text: 5 and "5" are the same node for the editor."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) and 0 < len(value) <= NAME_LIMIT else None


def _whole(value: object, otherwise: int) -> int:
    if isinstance(value, bool):
        return otherwise
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else otherwise


def _type_name(value: object) -> str:
    if isinstance(value, str):
        return value[:TYPE_LIMIT]
    if isinstance(value, list):
        return COMBO
    # A number is a type too: 0 is any, -1 is an event.
    return str(value) if isinstance(value, int) and value else "*"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
