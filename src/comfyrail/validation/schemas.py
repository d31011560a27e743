"""JSON Schemas (draft 2020-12) of a workflow and of each node type, as data for editors.

They describe the form that is right as it stands. Validation takes more: what ComfyUI converts,
such as "64" for an INT, is no fault there.
"""

from collections.abc import Mapping
from typing import Any

from comfyrail.validation.literals import (
    LARGEST_NUMBER,
    LINKED_TYPES,
    SMALLEST_NUMBER,
    is_left_to_the_worker,
)
from comfyrail.validation.node_checks import dynamic_choices
from comfyrail.workflow.catalog import InputPort, NodeType
from comfyrail.workflow.dynamic_inputs import AUTOGROW, DYNAMIC_COMBO, DYNAMIC_SLOT

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_LINK: Mapping[str, Any] = {
    "type": "array",
    "description": "A link: the id of a node, and the number of its output from 0.",
    "prefixItems": [{"type": "string"}, {"type": "integer", "minimum": 0}],
    "items": False,
    "minItems": 2,
}
_META: Mapping[str, Any] = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "transforms": {"type": "object"}},
}


def workflow_schema() -> dict[str, Any]:
    """Of a workflow in ComfyUI's API format, bare or in an envelope."""
    nodes = {"type": "object", "minProperties": 1, "additionalProperties": {"$ref": "#/$defs/node"}}
    return {
        "$schema": DRAFT,
        "title": "Workflow",
        "anyOf": [
            nodes,
            {"type": "object", "required": ["nodes"], "properties": {"nodes": nodes}},
        ],
        "$defs": {
            "node": {
                "type": "object",
                "required": ["class_type"],
                "properties": {
                    "class_type": {"type": "string", "minLength": 1},
                    "inputs": {"type": ["object", "null"]},
                    "_meta": dict(_META),
                },
            }
        },
    }


def node_schema(node_type: NodeType) -> dict[str, Any]:
    """Of one node of this type."""
    properties: dict[str, Any] = {}
    patterns: dict[str, Any] = {}
    for name, port in node_type.inputs.items():
        if port.type in {AUTOGROW, DYNAMIC_COMBO, DYNAMIC_SLOT}:
            # Which parts there are depends on the values: they are checked by validation only.
            patterns[f"^{_escaped(name)}\\."] = True
        if port.type != AUTOGROW:
            properties[name] = _port_schema(node_type.name, port)
    return {
        "$schema": DRAFT,
        "title": node_type.display_name or node_type.name,
        "type": "object",
        "required": ["class_type", "inputs"],
        "properties": {
            "class_type": {"const": node_type.name},
            "inputs": {
                "type": "object",
                "properties": properties,
                "patternProperties": patterns,
                "required": [
                    port.name
                    for port in node_type.inputs.values()
                    if port.required and port.type != AUTOGROW
                ],
            },
            "_meta": dict(_META),
        },
    }


def _port_schema(class_type: str, port: InputPort) -> dict[str, Any]:
    if port.type in LINKED_TYPES:
        return dict(_LINK)
    schema: dict[str, Any] = {"anyOf": [_literal_schema(class_type, port), dict(_LINK)]}
    if port.default is not None:
        schema["default"] = port.default
    return schema


def _literal_schema(class_type: str, port: InputPort) -> dict[str, Any]:
    if is_left_to_the_worker(class_type, port):
        return {"type": "string"}
    choices = port.choices if port.choices is not None else dynamic_choices(port)
    if choices is not None:
        return {"enum": list(choices)}
    if port.type in {"INT", "FLOAT"}:
        return {
            "type": "integer" if port.type == "INT" else "number",
            "minimum": SMALLEST_NUMBER if port.minimum is None else port.minimum,
            "maximum": LARGEST_NUMBER if port.maximum is None else port.maximum,
        }
    kinds = {"STRING": "string", "BOOLEAN": "boolean"}
    return {"type": kinds[port.type]} if port.type in kinds else {}


def _escaped(name: str) -> str:
    """For a pattern; names are letters, digits and signs that mean something there."""
    return "".join(each if each.isalnum() or each == "_" else f"\\{each}" for each in name)
