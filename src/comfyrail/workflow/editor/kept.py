"""What an editor's file keeps of the API format that the editor has no place for.

A node's `properties` may hold anything and the editor saves them again. Under one key a converted
file notes the id, the type, the inputs and the title that would not come back by themselves. A
note on an input counts only while the user has not changed the widget.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from comfyrail.workflow.editor.front_end_nodes import FRONT_END_TYPES, RENAMED_TYPES
from comfyrail.workflow.editor.model import EditorNode

PROPERTY = "comfyrail"


@dataclass(frozen=True, slots=True)
class KeptInput:
    """The API format has `value` (nothing, where `is_absent`) while the widget has `widget`."""

    widget: Any = None
    value: Any = None
    is_absent: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """`inputs` are by the name of the widget; `literals` are values of inputs without one.

    `title` counts where the node has none in the editor (`has_title` is false): null or empty.
    `type` is one that the editor would take for its own, or for another.
    """

    id: str | None = None
    type: str | None = None
    inputs: Mapping[str, KeptInput] = field(default_factory=dict)
    literals: Mapping[str, Any] = field(default_factory=dict)
    title: str | None = None
    has_title: bool = True

    def as_property(self) -> dict[str, Any]:
        """Empty where there is nothing to keep."""
        kept: dict[str, Any] = {}
        if self.id is not None:
            kept["id"] = self.id
        if self.type is not None:
            kept["type"] = self.type
        if self.inputs:
            kept["inputs"] = {
                name: {"widget": each.widget}
                if each.is_absent
                else {"widget": each.widget, "value": each.value}
                for name, each in self.inputs.items()
            }
        if self.literals:
            kept["literals"] = dict(self.literals)
        if not self.has_title:
            kept["title"] = self.title
        return kept


def type_to_keep(class_type: str) -> str | None:
    """The type of a node that the editor has another meaning for; None for all others."""
    is_others = class_type in FRONT_END_TYPES or class_type in RENAMED_TYPES
    return class_type if is_others else None


def kept_type(properties: Mapping[str, Any], saved: str) -> str | None:
    """The type that a file keeps for a node which the editor has saved as `saved`."""
    raw = properties.get(PROPERTY)
    kept = raw.get("type") if isinstance(raw, Mapping) else None
    if not isinstance(kept, str) or type_to_keep(kept) is None:
        return None
    return kept if saved in {kept, RENAMED_TYPES.get(kept)} else None


def read_kept(node: EditorNode) -> Kept:
    raw = node.properties.get(PROPERTY)
    if not isinstance(raw, Mapping):
        return Kept()
    given, inputs, literals = raw.get("id"), raw.get("inputs"), raw.get("literals")
    title = raw.get("title")
    return Kept(
        id=given if isinstance(given, str) else None,
        inputs={
            name: KeptInput(each.get("widget"), each.get("value"), is_absent="value" not in each)
            for name, each in (inputs if isinstance(inputs, Mapping) else {}).items()
            if isinstance(each, Mapping)
        },
        literals=literals if isinstance(literals, Mapping) else {},
        title=title if isinstance(title, str) else None,
        has_title="title" not in raw,
    )
