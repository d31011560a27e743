"""Nodes that hold one value, and the one that shows any value as text."""

import json
from typing import Any

import numpy as np

from comfyrail.engine.builtin.marks import CHEAP
from comfyrail.engine.definition import NodeDefinition, NodeResult, define_node, node

_LARGEST_NUMBER = 2**63 - 1
_RANGE = {"min": -_LARGEST_NUMBER, "max": _LARGEST_NUMBER}


def _pass_on(value: Any) -> tuple[Any]:
    return (value,)


def _primitive(name: str, kind: str, display_name: str, **options: Any) -> NodeDefinition:
    return define_node(
        name,
        _pass_on,
        required={"value": (kind, options)},
        outputs=(kind,),
        category="utils/primitive",
        display_name=display_name,
        schema="v3",
        **CHEAP,
    )


PRIMITIVES = (
    _primitive("PrimitiveString", "STRING", "String", multiline=False),
    _primitive("PrimitiveStringMultiline", "STRING", "String (Multiline)", multiline=True),
    _primitive("PrimitiveInt", "INT", "Int", **_RANGE, control_after_generate=True),
    _primitive("PrimitiveFloat", "FLOAT", "Float", **_RANGE, step=0.1),
    _primitive("PrimitiveBoolean", "BOOLEAN", "Boolean"),
)


@node(
    "PreviewAny",
    required={"source": ("*", {})},
    is_output=True,
    category="utils",
    display_name="Preview as Text",
    **CHEAP,
)
def preview_any(source: Any) -> NodeResult:
    return NodeResult(ui={"text": [_as_text(source)]})


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array of {' by '.join(map(str, value.shape))}:\n{value}"
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    try:
        return json.dumps(value, indent=4)
    except (TypeError, ValueError):
        return str(value)


NODES = (*PRIMITIVES, preview_any)
