"""The OpenAPI document: FastAPI's routes, the hot routes, and schemas from the contract."""

from collections.abc import Sequence
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from comfyrail import __version__
from comfyrail.api import contract, executions
from comfyrail.api.operations import Operation
from comfyrail.api.surfaces import OPERATIONS

REFERENCE = "#/components/schemas/{name}"
COMMON_ERRORS = (400, 403, 429, 500, 503)
"""503: the database does not answer, or the server stops."""
ACCESS_ERRORS = (401,)
DISK_FULL = 507
TRIES_A_WRITE = {"/ready"}
SECURITY: list[dict[str, list[str]]] = [{"bearer": []}, {"api_key": []}, {"session": []}]
SECURITY_SCHEMES = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key or a JWT.",
    },
    "api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "session": {"type": "apiKey", "in": "cookie", "name": "comfyrail_session"},
}


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """The whole document."""
    document = get_openapi(
        title="Comfyrail",
        version=__version__,
        description=f"Runs ComfyUI workflows on a fleet. WebSocket: {executions.EXECUTION}/ws.",
        routes=app.routes,
    )
    types = {
        kind
        for operation in OPERATIONS.values()
        for kind in (operation.reply, operation.body, contract.ErrorReply)
        if isinstance(kind, type)
    }
    ordered = sorted(types, key=lambda kind: kind.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template=REFERENCE)
    components = document.setdefault("components", {})
    components["securitySchemes"] = SECURITY_SCHEMES
    known = components.setdefault("schemas", {})
    known.update(schemas)
    for foreign in ("HTTPValidationError", "ValidationError"):
        known.pop(foreign, None)  # ours has one shape for all errors
    for (method, path), operation in OPERATIONS.items():
        if not operation.is_shown:
            continue
        entry = document["paths"].setdefault(path, {}).setdefault(method, {})
        _describe(entry, operation, _errors_of(method, path, operation))
    return document


def _errors_of(method: str, path: str, operation: Operation) -> list[int]:
    writes = path in TRIES_A_WRITE or (method not in {"get", "head"} and operation.writes)
    refusals = () if operation.permission is None else ACCESS_ERRORS
    disk = (DISK_FULL,) if writes else ()
    return sorted({*COMMON_ERRORS, *operation.errors, *refusals, *disk})


def _describe(entry: dict[str, Any], operation: Operation, errors: Sequence[int]) -> None:
    entry["summary"] = operation.summary
    entry.setdefault("parameters", []).extend(
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in operation.parameters
    )
    if operation.body is not None:
        content = _content(operation.body, operation.example)
        entry["requestBody"] = {"required": True, "content": content}
    success: dict[str, Any] = {"description": "Done"}
    if operation.reply:
        success["content"] = _content(operation.reply, operation.reply_example)
    entry["responses"] = {str(operation.status): success}
    for status in operation.other_statuses:
        is_same = 200 <= status < 300
        entry["responses"][str(status)] = success if is_same else {"description": "Not again"}
    for status in errors:
        entry["responses"][str(status)] = {
            "description": "An error",
            "content": _content(contract.ErrorReply),
        }
    entry["security"] = [] if operation.permission is None else SECURITY
    if operation.permission is not None:
        entry["x-permission"] = operation.permission.value
    entry.update(operation.extra)


def _content(kind: type | str, example: Any = None) -> dict[str, Any]:
    content_type, schema = (
        (kind, {"type": "string"})
        if isinstance(kind, str)
        else ("application/json", {"$ref": REFERENCE.format(name=kind.__name__)})
    )
    described: dict[str, Any] = {"schema": schema}
    if example is not None:
        described["example"] = example
    return {content_type: described}
