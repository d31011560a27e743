"""Nodes that choose: one of two values, or a word out of a list that the editor keeps."""

from typing import Any

from comfyrail.engine.builtin.descriptions import describe_as
from comfyrail.engine.builtin.marks import CHEAP
from comfyrail.engine.definition import InputCheck, define_node, node
from comfyrail.workflow.catalog import OutputPort
from comfyrail.workflow.dynamic_inputs import MATCH_TYPE

_TEMPLATE = "switch"
_EITHER = (
    MATCH_TYPE,
    {"lazy": True, "template": {"template_id": _TEMPLATE, "allowed_types": "*"}},
)


def _choose(switch: bool, on_false: Any, on_true: Any) -> tuple[Any]:
    return (on_true if switch else on_false,)


def _find_needed(switch: bool, on_false: Any = None, on_true: Any = None) -> list[str]:
    """The one that is chosen; the other is not made."""
    if switch:
        return ["on_true"] if on_true is None else []
    return ["on_false"] if on_false is None else []


switch_node = describe_as(
    define_node(
        "ComfySwitchNode",
        _choose,
        required={"switch": ("BOOLEAN", {}), "on_false": _EITHER, "on_true": _EITHER},
        outputs=(OutputPort("output", MATCH_TYPE),),
        category="logic",
        display_name="Switch",
        schema="v3",
        experimental=True,
        check_lazy=_find_needed,
        **CHEAP,
    ),
    output_matchtypes=[_TEMPLATE],
)


@node(
    "CustomCombo",
    required={"choice": ("COMBO", {"multiselect": False, "options": []})},
    outputs=("STRING",),
    category="utils",
    display_name="Custom Combo",
    schema="v3",
    experimental=True,
    # The choices are known to the editor only.
    check=InputCheck(("choice",), lambda _literals, _folders: None),
    **CHEAP,
)
def custom_combo(choice: str) -> str:
    return choice


NODES = (switch_node, custom_combo)
