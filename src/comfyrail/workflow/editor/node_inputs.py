"""The inputs of one node as the editor holds them after it has opened a file: its slots in the
order of the node's type, and its widgets with their values.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from comfyrail.workflow.catalog import NodeType
from comfyrail.workflow.dynamic_inputs import DYNAMIC_COMBO
from comfyrail.workflow.editor.model import EditorNode, InputSlot
from comfyrail.workflow.editor.widget_kinds import ABSENT, Widget
from comfyrail.workflow.editor.widgets import (
    Declared,
    Socket,
    inputs_of_choice,
    places_of_forced_inputs,
)

CUSTOM_COMBO = "CustomCombo"


@dataclass(slots=True)
class HeldWidget:
    """A widget and its value, which may be ABSENT."""

    widget: Widget
    value: Any


@dataclass(frozen=True)
class NodeInputs:
    """`unnamed` values belong to widgets that only the node's type could name."""

    slots: Sequence[InputSlot]
    widgets: Sequence[HeldWidget] = ()
    is_known: bool = True
    unnamed: int = 0

    @cached_property
    def by_name(self) -> Mapping[str, HeldWidget]:
        """The first widget of every name."""
        return {held.widget.name: held for held in reversed(self.widgets)}


def hold_inputs(node: EditorNode, node_type: NodeType, declared: Declared) -> NodeInputs:
    """Give the saved values of a node to the widgets that its type has."""
    named = values_by_name(node)
    if named is not None:
        return _hold(node, node_type, declared, _NamedValues(named))
    forced = frozenset(places_of_forced_inputs(node_type, len(node.values)))
    listed = [value for place, value in enumerate(node.values) if place not in forced]
    return _hold(node, node_type, declared, _ListedValues(listed))


def values_by_name(node: EditorNode) -> Mapping[str, Any] | None:
    """The values of widgets by name, where a file has them so.

    Newer files have both a list and names. The editor goes by the list, so it counts where they
    differ. Where they agree the names are the better guide: the type may have changed since.
    """
    if isinstance(node.values, Mapping):
        return node.values
    listed = [value for value in node.values if value is not None]
    named = [value for value in node.named.values() if value is not None]
    return node.named if node.named and (listed == named or not listed) else None


def _hold(
    node: EditorNode,
    node_type: NodeType,
    declared: Declared,
    values: "_ListedValues | _NamedValues",
) -> NodeInputs:
    slots = _Slots(node.inputs)
    for socket in declared.sockets:
        slots.add_socket(socket)
    held: list[HeldWidget] = []
    growing = list(declared.growing)

    def hold(widget: Widget) -> Any:
        value = values.take(widget) if widget.saved else widget.default
        held.append(HeldWidget(widget, value))
        slots.add_widget(widget)
        return value

    waiting = deque(declared.widgets)
    while waiting:
        widget = waiting.popleft()
        value = hold(widget)
        if widget.kind == DYNAMIC_COMBO:
            brought = inputs_of_choice(widget, value)
            for socket in brought.sockets:
                slots.add_socket(socket)
            waiting.extendleft(reversed(brought.widgets))
            growing.extend(brought.growing)
    for each in growing:
        for widget in each.more_widgets(slots.waiting_for_widgets()):
            hold(widget)
    if node_type.name == CUSTOM_COMBO:
        held.extend(_own_choices(held, values.take_options()))
    return NodeInputs(slots.finished(), held)


class _ListedValues:
    """Values in the order of the widgets."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = iter(values)

    def take(self, widget: Widget) -> Any:
        return next(self._values, widget.default)

    def take_options(self) -> list[Any]:
        rest = list(self._values)
        return rest[1:] if rest and not isinstance(rest[0], str) else rest


class _NamedValues:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def take(self, widget: Widget) -> Any:
        return self._values.get(widget.name, widget.default)

    def take_options(self) -> list[Any]:
        names = (f"option{number}" for number in range(1, len(self._values) + 1))
        return [self._values[name] for name in names if name in self._values]


def _own_choices(held: Sequence[HeldWidget], options: Sequence[Any]) -> Iterator[HeldWidget]:
    """The choices of a combo whose user writes them: the place of the chosen one, then all."""
    chosen = held[0].value if held else ABSENT
    yield HeldWidget(
        Widget("index", "HIDDEN", -1), options.index(chosen) if chosen in options else -1
    )
    for number, option in enumerate(options, 1):
        yield HeldWidget(Widget(f"option{number}", "STRING", ""), option)


class _Slots:
    """Puts a node's slots into the order of its type. Those that its type does not have come
    last; slots of widgets that it does not have are dropped, links and all, as in the editor.
    """

    def __init__(self, given: Sequence[InputSlot]) -> None:
        self._given: dict[str, InputSlot] = {}
        for slot in given:
            self._given.setdefault(slot.name, slot)
        self._ordered: list[InputSlot] = []
        self._done: set[str] = set()

    def add_socket(self, socket: Socket) -> None:
        if not socket.grows:
            self._add(socket.name, socket.type, None)
            return
        start = f"{socket.name}."
        for name, slot in self._given.items():
            if name.startswith(start) and slot.widget is None:
                self._add(name, slot.type, None)

    def add_widget(self, widget: Widget) -> None:
        if widget.socket is not None:
            self._add(widget.name, widget.socket, widget.name)

    def waiting_for_widgets(self) -> list[str]:
        """Slots that say they have a widget, which nothing has claimed so far."""
        given = self._given.items()
        return [name for name, slot in given if slot.widget is not None and name not in self._done]

    def finished(self) -> list[InputSlot]:
        extra = (slot for name, slot in self._given.items() if name not in self._done)
        return [*self._ordered, *(slot for slot in extra if slot.widget is None)]

    def _add(self, name: str, kind: str, widget: str | None) -> None:
        if name in self._done:
            return
        self._done.add(name)
        given = self._given.get(name)
        if given is not None and kind == "*":
            kind = given.type
        self._ordered.append(InputSlot(name, kind, given.link if given else None, widget))
