"""One node of the API format as the editor would save it."""

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from comfyrail.workflow.catalog import NodeCatalog, NodeType
from comfyrail.workflow.dynamic_inputs import DYNAMIC_COMBO
from comfyrail.workflow.editor.allowance import Allowance
from comfyrail.workflow.editor.growing import Growing
from comfyrail.workflow.editor.kept import Kept, KeptInput, type_to_keep
from comfyrail.workflow.editor.model import EditorNode, InputSlot
from comfyrail.workflow.editor.node_inputs import (
    CUSTOM_COMBO,
    HeldWidget,
    NodeInputs,
    hold_inputs,
)
from comfyrail.workflow.editor.notes import Notes
from comfyrail.workflow.editor.outgoing import outgoing_value, settle
from comfyrail.workflow.editor.text_writer import TextWriter
from comfyrail.workflow.editor.texts import Moment, escape_choices
from comfyrail.workflow.editor.unknown_types import guess_inputs
from comfyrail.workflow.editor.widget_kinds import ABSENT, CONTROL, Widget
from comfyrail.workflow.editor.widgets import Declared, Socket, declared_inputs, inputs_of_choice
from comfyrail.workflow.graph import Node
from comfyrail.workflow.values import unwrap

_MOMENT = Moment(choose=lambda _: 0, now=lambda: datetime.fromtimestamp(0, UTC))


@dataclass(slots=True)
class NewNode:
    """`slots` are all inputs in the editor's order; `values` are the widgets' saved values;
    `widgets` are the names of all.
    """

    node: Node
    links: frozenset[str]
    slots: list[InputSlot] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept)
    widgets: set[str] = field(default_factory=set)

    def add_widget(self, widget: Widget, literals: Mapping[str, Any]) -> Any:
        """Give a widget its value out of the inputs that are no links, which is returned."""
        value = _saved_value(widget, literals)
        self.widgets.add(widget.name)
        if widget.saved:
            self.values.append(None if value is ABSENT else value)
        if widget.socket is not None:
            self.slots.append(InputSlot(widget.name, widget.socket, widget=widget.name))
        return value


class NodeBuilder:
    """Makes nodes for the editor; what a type declares is read once."""

    def __init__(self, catalog: NodeCatalog) -> None:
        self._catalog = catalog
        self._declared = catalog.prepared(declared_inputs)
        # Whatever a placeholder finds in the whole file, it is not what stands here.
        self._texts = TextWriter(_MOMENT, lambda *_: "_", Notes(), Allowance(sys.maxsize))

    def build(self, node: Node, links: frozenset[str], kept_id: str | None) -> NewNode:
        """A node whose inputs in `links` will be linked; all its others are values."""
        literals = {name: value for name, value in node.inputs.items() if name not in links}
        node_type, declared = self._catalog.get(node.class_type), self._declared[node.class_type]
        if node_type is None or declared is None:
            new = _of_unknown_type(node, links, literals)
        else:
            new = _of_type(node, declared, links, literals)
        new.kept = self._compare(new, _opened(new, node_type, declared), literals, kept_id)
        return new

    def _compare(
        self,
        new: NewNode,
        opened: NodeInputs,
        literals: Mapping[str, Any],
        kept_id: str | None,
    ) -> Kept:
        """What would not come back from the editor as it was, so that it is kept beside."""
        inputs: dict[str, KeptInput] = {}
        sent: set[str] = set()
        for held in opened.widgets:
            name = held.widget.name
            if not held.widget.sent or name in new.links:
                continue
            sent.add(name)
            shown = None if held.value is ABSENT else held.value
            if name not in literals:
                if held.value is not ABSENT:
                    inputs[name] = KeptInput(shown, is_absent=True)
            elif not self._comes_back(held, new.node.class_type, literals[name]):
                inputs[name] = KeptInput(shown, literals[name])
        rest = {name: value for name, value in literals.items() if name not in sent}
        title = new.node.title
        kept_type = type_to_keep(new.node.class_type)
        return Kept(kept_id, kept_type, inputs, rest, title, has_title=bool(title))

    def _comes_back(self, held: HeldWidget, class_type: str, wanted: Any) -> bool:
        if held.value is ABSENT:
            return False
        made = outgoing_value(held, class_type, self._texts)
        return type(made) is type(wanted) and bool(made == wanted)


def _opened(new: NewNode, node_type: NodeType | None, declared: Declared | None) -> NodeInputs:
    """The node as the editor will hold it when it opens the file."""
    saved = EditorNode(
        "", new.node.class_type, inputs=new.slots, values=new.values, named=new.named
    )
    if node_type is None or declared is None:
        return guess_inputs(saved)
    inputs = hold_inputs(saved, node_type, declared)
    for held in inputs.widgets:
        held.value = settle(held, node_type.name)
    return inputs


def _of_unknown_type(node: Node, links: frozenset[str], literals: Mapping[str, Any]) -> NewNode:
    slots = [InputSlot(name, "*") for name in node.inputs if name in links]
    slots.extend(InputSlot(name, "*", widget=name) for name in literals)
    named = {name: unwrap(value) for name, value in literals.items()}
    return NewNode(node, links, slots, list(named.values()), named)


def _of_type(
    node: Node, declared: Declared, links: frozenset[str], literals: Mapping[str, Any]
) -> NewNode:
    new = NewNode(node, links)
    for socket in declared.sockets:
        new.slots.extend(_socket_slots(socket, links))
    growing = list(declared.growing)
    waiting = deque(declared.widgets)
    while waiting:
        widget = waiting.popleft()
        value = new.add_widget(widget, literals)
        if widget.kind == DYNAMIC_COMBO:
            brought = inputs_of_choice(widget, value)
            for socket in brought.sockets:
                new.slots.extend(_socket_slots(socket, links))
            waiting.extendleft(reversed(brought.widgets))
            growing.extend(brought.growing)
    if growing:
        _add_items(new, growing, literals)
    if node.class_type == CUSTOM_COMBO:
        new.values.extend(_own_choices(literals))
    unknown = links - {slot.name for slot in new.slots}
    new.slots.extend(InputSlot(name, "*") for name in node.inputs if name in unknown)
    return new


def _add_items(new: NewNode, growing: list[Growing], literals: Mapping[str, Any]) -> None:
    """The items of lists beyond those that every node has, where they have widgets."""
    for each in growing:
        names = sorted(new.node.inputs.keys() - new.widgets, key=_counted)
        for widget in each.more_widgets(names):
            new.add_widget(widget, literals)
    with_widget = {slot.name for slot in new.slots if slot.widget is not None}
    new.slots = [
        slot for slot in new.slots if slot.widget is not None or slot.name not in with_widget
    ]


def _socket_slots(socket: Socket, links: frozenset[str]) -> Iterator[InputSlot]:
    if not socket.grows:
        yield InputSlot(socket.name, socket.type)
        return
    start = f"{socket.name}."
    for name in sorted((each for each in links if each.startswith(start)), key=_counted):
        yield InputSlot(name, "*")


def _counted(name: str) -> tuple[str, int]:
    """Sorts image10 after image9."""
    stem = name.rstrip("0123456789")
    number = name[len(stem) :]
    return stem, int(number) if 0 < len(number) < 10 else -1


def _own_choices(literals: Mapping[str, Any]) -> Iterator[Any]:
    yield literals.get("index")
    number = 1
    while (name := f"option{number}") in literals:
        yield literals[name]
        number += 1


def _saved_value(widget: Widget, literals: Mapping[str, Any]) -> Any:
    if widget.kind == CONTROL:
        return "fixed"
    if not widget.sent or widget.name not in literals:
        return widget.default
    value = literals[widget.name]
    if isinstance(value, str) and widget.kind == "STRING" and widget.options.get("dynamicPrompts"):
        return escape_choices(value)
    return unwrap(value)
