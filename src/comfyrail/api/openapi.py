"""The OpenAPI document, from the operations of all surfaces and the types of their contracts.

The framework adds what it knows of its routes: their parameters, their tags, and what their
docstrings say.
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from comfyrail import __version__
from comfyrail.api.contract import ErrorReply
from comfyrail.api.executions import EXECUTION
from comfyrail.api.feed import SOCKET
from comfyrail.api.hot_paths import HotPath
from comfyrail.api.openapi_descriptions import describe_fields
from comfyrail.api.openapi_errors import MEANINGS, WAIT, samples_of
from comfyrail.api.openapi_examples import Examples
from comfyrail.api.openapi_headers import (
    RATE_HEADERS,
    REPLY_HEADERS,
    REQUEST_HEADERS,
    reply_headers,
    version_header,
)
from comfyrail.api.operations import Operation, Operations
from comfyrail.api.versions import successor_of, version_of

JSON = dict[str, Any]

REFERENCE = "#/components/schemas/{name}"
JSON_TYPE = "application/json"
SCHEMAS: dict[str, JSON] = {
    JSON_TYPE: {},
    "text/event-stream": {
        "type": "object",
        "description": "One of the events.",
        "properties": {"id": {"type": "string"}, "event": {"type": "string"}, "data": {}},
    },
}
"""Of content types that are no plain text."""
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
DESCRIPTION = (
    "Runs ComfyUI workflows on a fleet. Errors have one shape everywhere, but for the surfaces "
    f"that speak as another program does. WebSockets: {EXECUTION}/ws, and {SOCKET} for all events."
)
TOO_MANY = 429


def build_openapi(app: FastAPI, operations: Operations, hot_paths: Iterable[HotPath]) -> JSON:
    """The whole document."""
    shown = {
        (method, _plain_path(path)): each
        for (method, path), each in operations.items()
        if each.is_shown
    }
    with warnings.catch_warnings():
        # HEAD has the name of its GET. It is left out below.
        warnings.simplefilter("ignore")
        document = get_openapi(
            title="Comfyrail", version=__version__, description=DESCRIPTION, routes=app.routes
        )
    known = _framework_knows(document["paths"], hot_paths)
    contracts = _Contracts(shown)
    document["paths"] = {}
    for (method, path), operation in shown.items():
        entry = _Entry(method, path, operation, contracts)
        document["paths"].setdefault(path, {})[method] = entry.describe(known.get((method, path)))
    document["components"] = {
        "schemas": contracts.schemas,
        "responses": contracts.responses,
        "headers": REPLY_HEADERS,
        "securitySchemes": SECURITY_SCHEMES,
    }
    document["tags"] = [{"name": name} for name in _tags(document["paths"])]
    return document


def _framework_knows(
    paths: Mapping[str, JSON], hot_paths: Iterable[HotPath]
) -> dict[tuple[str, str], JSON]:
    known = {
        (method, path): entry
        for path, methods in paths.items()
        for method, entry in methods.items()
    }
    for hot in hot_paths:
        said = " ".join((hot.handler.__doc__ or "").split())
        known[hot.method.lower(), hot.path] = {"description": said}
    return known


def _tags(paths: Mapping[str, JSON]) -> list[str]:
    found = (entry["tags"] for methods in paths.values() for entry in methods.values())
    return list(dict.fromkeys(tag for tags in found for tag in tags))


class _Contracts:
    """Schemas of all types that operations take and give, under their names."""

    def __init__(self, operations: Operations) -> None:
        kinds: dict[Any, None] = {ErrorReply: None}
        for (method, path), operation in operations.items():
            named = (operation.reply, operation.body, *operation.other_replies.values())
            kinds |= dict.fromkeys(kind for kind in named if kind and not isinstance(kind, str))
            for _, body, _ in samples_of(method, path, operation):
                if isinstance(body, msgspec.Struct):
                    kinds[type(body)] = None
        found, self.schemas = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
        self._schema_of = dict(zip(kinds, found, strict=True))
        describe_fields(self.schemas, kinds)
        self.examples = Examples(self.schemas)
        self.responses: JSON = {}
        self._names: dict[bytes, str] = {}

    def content(self, kind: Any, example: Any = None) -> JSON:
        """Of a body or a reply: a type of a contract, or the name of a content type."""
        if isinstance(kind, str):
            return {kind: _with_example(SCHEMAS.get(kind, {"type": "string"}), example)}
        schema: JSON = self._schema_of[kind]
        made = self.examples.of(schema) if example is None else example
        return {JSON_TYPE: _with_example(schema, made)}

    def error_content(self, body: Any) -> JSON:
        if isinstance(body, msgspec.Struct):
            return self.content(type(body), msgspec.to_builtins(body))
        plain = msgspec.to_builtins(body)
        return {JSON_TYPE: _with_example({"type": _json_type(plain)}, plain)}

    def shared(self, status: int, reply: JSON) -> JSON:
        """A reference to a reply that many operations have: it is in the document once."""
        written = msgspec.json.encode(reply)
        if written not in self._names:
            alike = sum(name.startswith(f"Error{status}") for name in self.responses)
            self._names[written] = name = f"Error{status}" + (f"-{alike + 1}" if alike else "")
            self.responses[name] = reply
        return {"$ref": f"#/components/responses/{self._names[written]}"}


def _with_example(schema: JSON, example: Any) -> JSON:
    return {"schema": schema} if example is None else {"schema": schema, "example": example}


def _json_type(value: Any) -> str:
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "string"


class _Entry:
    """One operation's place in the document."""

    def __init__(self, method: str, path: str, operation: Operation, contracts: _Contracts) -> None:
        self._method = method
        self._path = path
        self._operation = operation
        self._contracts = contracts
        self._version = version_of(path)

    def describe(self, known: JSON | None) -> JSON:
        known = known or {}
        operation = self._operation
        said = known.get("description") or f"{operation.summary}."
        entry: JSON = {
            "operationId": _operation_id(self._method, self._path),
            "summary": operation.summary,
            "description": said,
            "tags": known.get("tags") or [self._surface()],
            "parameters": self._parameters(known.get("parameters", ())),
        }
        if operation.body is not None:
            entry["requestBody"] = {
                "required": operation.is_body_required,
                "content": self._contracts.content(operation.body, operation.example),
            }
        entry["responses"] = self._responses()
        entry["security"] = [] if operation.permission is None else SECURITY
        if operation.permission is not None:
            entry["x-permission"] = operation.permission.value
        if self._is_deprecated:
            entry["deprecated"] = True
        more = dict(operation.extra)
        entry["parameters"] += more.pop("parameters", ())
        return entry | more

    @property
    def _is_deprecated(self) -> bool:
        return successor_of(re.sub(r"{\w+}", "x", self._path)) is not None

    def _surface(self) -> str:
        return self._path.strip("/").partition("/")[0] or "pages"

    def _parameters(self, known: Iterable[JSON]) -> list[JSON]:
        found = [_plain_parameter(each) for each in known]
        named = {each["name"] for each in found}
        found += [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", self._path)
            if name not in named
        ]
        headers = list(self._operation.headers)
        if self._method == "post":
            headers.append("Idempotency-Key")
        headers.append("X-Request-ID")
        found += [
            {"name": name, "in": "header", **REQUEST_HEADERS[name]}
            for name in dict.fromkeys(headers)
            if name in REQUEST_HEADERS
        ]
        if self._version is not None:
            found.append({"name": "X-API-Version", "in": "header", **version_header(self._version)})
        return found

    def _responses(self) -> JSON:
        operation, contracts = self._operation, self._contracts
        content = {}
        if operation.reply:
            content = contracts.content(operation.reply, operation.reply_example)
            for other in operation.also_as:
                content |= contracts.content(other)
        replies = {operation.status: content}
        for status in operation.other_statuses:
            replies[status] = content if 200 <= status < 300 else {}
        for status, kind in operation.other_replies.items():
            replies[status] = contracts.content(kind) if kind else {}
        found: JSON = {}
        for status, content in sorted(replies.items()):
            found[str(status)] = {
                "description": HTTPStatus(status).phrase,
                "headers": reply_headers(*self._headers_of(status)),
                **({"content": content} if content else {}),
            }
        return found | self._errors()

    def _errors(self) -> JSON:
        found: JSON = {}
        for status, body, _ in samples_of(self._method, self._path, self._operation):
            if str(status) in found:
                continue
            reply = {
                "description": MEANINGS.get(status) or HTTPStatus(status).phrase,
                "headers": reply_headers(*self._headers_of(status)),
            }
            if self._method != "head":
                reply["content"] = self._contracts.error_content(body)
            found[str(status)] = self._contracts.shared(status, reply)
        return found

    def _headers_of(self, status: int) -> list[str]:
        operation = self._operation
        names = ["X-Request-ID"]
        if self._version is not None:
            names.append("X-API-Version")
        if self._is_deprecated:
            names += ["Deprecation", "Link"]
        if status < 300:
            names += operation.reply_headers
            if self._method == "post":
                names.append("Idempotent-Replayed")
        if status < 400 and "If-None-Match" in operation.headers:
            names.append("ETag")
        if status in WAIT:
            names.append("Retry-After")
        if status == HTTPStatus.UNAUTHORIZED:
            names.append("WWW-Authenticate")
        if operation.permission is not None and status in {operation.status, TOO_MANY}:
            names += RATE_HEADERS
        return names


def _plain_path(path: str) -> str:
    """`/a/{b:path}` is `/a/{b}` in the document."""
    return re.sub(r"{(\w+):\w+}", r"{\1}", path)


def _operation_id(method: str, path: str) -> str:
    """The same for as long as the route is."""
    words = re.sub(r"{(\w+)}", r"by_\1", path).strip("/")
    return f"{method}_{re.sub(r'[^0-9A-Za-z]+', '_', words) or 'root'}"


def _plain_parameter(parameter: JSON) -> JSON:
    """Without what only the framework's own types say: a query that is left out is not null."""
    schema = {name: value for name, value in parameter["schema"].items() if name != "title"}
    kinds = [each for each in schema.pop("anyOf", ()) if each.get("type") != "null"]
    if len(kinds) == 1:
        schema = kinds[0] | schema
    elif kinds:
        schema["anyOf"] = kinds
    schema.pop("description", None)
    return parameter | {"schema": schema}
