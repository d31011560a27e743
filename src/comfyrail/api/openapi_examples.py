"""Examples of replies, made from their schemas: right by construction."""

from collections.abc import Mapping
from typing import Any

JSON = Mapping[str, Any]

EXECUTION_ID = "01a1e08d-7d99-73bc-99d5-580b9460ea66"
OUTPUT_ID = "01a1e08d-7dba-70ff-9141-f18dc40eabff"

TYPICAL: Mapping[str, Any] = {
    "execution_id": EXECUTION_ID,
    "id": EXECUTION_ID,
    "output_id": OUTPUT_ID,
    "batch_id": "01a1e08d-8b52-7104-a1f0-6a4d2f0d9b1e",
    "status": "completed",
    "worker_id": "local-1",
    "node_id": "3",
    "class_type": "SaveImage",
    "filename": "blue_00001_.png",
    "content_type": "image/png",
    "kind": "images",
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "size": 151,
    "priority": 7,
    "effective_priority": 7.42,
    "queue_class": "medium",
    "timeout": 120.0,
    "progress": 1.0,
    "fraction": 1.0,
    "completed_nodes": 3,
    "total_nodes": 3,
    "estimated_duration": 30.0,
    "surface": "v1",
    "version": "0.1.0",
    "name": "blue",
    "message": "It is done.",
    "code": "EXECUTION_TIMEOUT",
    "url": "/v2/workflows/executions/" + EXECUTION_ID + "/outputs/" + OUTPUT_ID,
    "self": "/v2/workflows/executions/" + EXECUTION_ID,
    **{
        link: f"/v2/workflows/executions/{EXECUTION_ID}/{link}"
        for link in ("events", "outputs", "nodes", "logs", "cancel", "retry")
    },
}
"""By name of the field, where its type allows it."""

NULL = frozenset(
    {
        "error",
        "reason",
        "cause",
        "not_before",
        "expires_at",
        "retry_at",
        "retry_of",
        "retry_delay",
        "recovery",
        "waiting_for",
        "batch_id",
        "batch_index",
        "estimated_remaining",
        "queue_position",
        "position",
        "predicted_wait",
        "current_node",
        "next_cursor",
        "next_after",
        "webhook_delivered",
    }
)
"""What is null when all goes well and is done, where it may be."""

TIME = "2026-11-16T09:18:48.174000Z"
DEEPEST = 12


class Examples:
    def __init__(self, schemas: JSON) -> None:
        """`schemas`: those of the components, by name."""
        self._schemas = schemas

    def of(self, schema: JSON, name: str = "", depth: int = 0) -> Any:
        """A value of a schema; every field is there that may be."""
        if "$ref" in schema:
            return self.of(self._schemas[schema["$ref"].rpartition("/")[2]], name, depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return TYPICAL[name] if TYPICAL.get(name) in schema["enum"] else schema["enum"][0]
        if "anyOf" in schema:
            return self._of_any(schema["anyOf"], name, depth)
        return self._of_type(schema, name, depth)

    def _of_type(self, schema: JSON, name: str, depth: int) -> Any:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((each for each in kind if each != "null"), "null")
        match kind:
            case "object":
                return self._of_object(schema, depth)
            case "array":
                return self._of_array(schema, name, depth)
        return _of_plain(schema, kind, name)

    def _of_any(self, choices: list[JSON], name: str, depth: int) -> Any:
        """Not null, unless that is how it usually is, or it goes on for ever."""
        kinds = [each for each in choices if each.get("type") != "null"]
        may_be_null = len(kinds) < len(choices)
        if may_be_null and (depth > DEEPEST or name in NULL):
            return None
        return self.of(kinds[0], name, depth)

    def _of_object(self, schema: JSON, depth: int) -> dict[str, Any]:
        required = set(schema.get("required", ()))
        return {
            name: self.of(each, name, depth + 1)
            for name, each in schema.get("properties", {}).items()
            if name in required or depth < DEEPEST
        }

    def _of_array(self, schema: JSON, name: str, depth: int) -> list[Any]:
        parts = schema.get("prefixItems")
        if parts:
            return [self.of(each, name, depth + 1) for each in parts]
        items = schema.get("items")
        if not isinstance(items, Mapping) or not items or depth > DEEPEST:
            return []
        return [self.of(items, name.removesuffix("s"), depth + 1)]


def _of_plain(schema: JSON, kind: str | None, name: str) -> Any:
    typical = TYPICAL.get(name)
    match kind:
        case "string":
            return _of_text(schema, typical, name)
        case "integer":
            return _in_range(schema, typical if isinstance(typical, int) else 1)
        case "number":
            return _in_range(schema, typical if isinstance(typical, int | float) else 1.5)
        case "boolean":
            return False
        case "null":
            return None
    return {}


def _of_text(schema: JSON, typical: Any, name: str) -> str:
    match schema.get("format"):
        case "date-time":
            return TIME
        case "uuid":
            return EXECUTION_ID
    if schema.get("contentEncoding") == "base64":
        return "aGVsbG8="
    text = typical if isinstance(typical, str) else name.replace("_", " ") or "text"
    longest = schema.get("maxLength", len(text))
    return text[:longest].ljust(schema.get("minLength", 0), "x")


def _in_range(schema: JSON, value: float) -> float:
    lowest = schema.get("minimum", schema.get("exclusiveMinimum"))
    highest = schema.get("maximum", schema.get("exclusiveMaximum"))
    if (lowest is not None and value <= lowest) or (highest is not None and value >= highest):
        ends = [each for each in (schema.get("minimum"), schema.get("maximum")) if each is not None]
        return ends[0] if ends else lowest + 1 if lowest is not None else value
    return value
