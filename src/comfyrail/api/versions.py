"""Versions of the API: which one a request means, which one answers, and what comes after v1.

v1 goes on working. Its routes that v2 has too say so in their headers (RFC 9745).
"""

import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from comfyrail.api.errors import error_response
from comfyrail.errors import MalformedRequest

HEADER = "X-API-Version"
V1_DEPRECATED_SINCE = 1794787200
"""2026-11-16, when v2 came."""
NAMES = {"1": "1", "1.0": "1", "2": "2", "2.0": "2"}
"""What a request may call a version."""

_HEADER = HEADER.lower().encode()
_DEPRECATION = (b"deprecation", f"@{V1_DEPRECATED_SINCE}".encode())
_STATED = {name: (_HEADER, name.encode()) for name in set(NAMES.values())}

_PARTS = r"execute|runsync|executions|execution(/[\w.~-]{1,64}(?:/[\w.~-]{1,64}){0,2})"
_HAS_SUCCESSOR = re.compile(rf"/v1/workflows/(?:{_PARTS})")


def version_of(path: str) -> str | None:
    """That of a path; None where it has none."""
    if path.startswith("/v1/"):
        return "1"
    return "2" if path.startswith("/v2/") else None


def successor_of(path: str) -> str | None:
    """The same thing in v2, for a path of v1."""
    if not path.startswith(("/v1/workflows/execut", "/v1/workflows/runsync")):
        return None
    found = _HAS_SUCCESSOR.fullmatch(path)
    if found is None:
        return None
    if found[1]:
        return f"/v2/workflows/executions{found[1]}"
    return f"/v2{path.removeprefix('/v1')}"


class StatedVersions:
    """Outside of everything: every reply of a path with a version says it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        version = version_of(scope["path"]) if scope["type"] == "http" else None
        if version is None:
            await self._app(scope, receive, send)
            return
        headers = [_STATED[version]]
        if version == "1" and (successor := successor_of(scope["path"])) is not None:
            link = f'<{successor}>; rel="successor-version"'
            headers += [_DEPRECATION, (b"link", link.encode())]

        async def send_stated(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        await self._app(scope, receive, send_stated)


class AgreedVersions:
    """Inside the guard: refuses a request that means another version than its path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in {"http", "websocket"}:
            refusal = _disagreement(scope)
            if refusal is not None:
                await error_response(refusal, scope)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _disagreement(scope: Scope) -> MalformedRequest | None:
    for name, value in scope["headers"]:
        if name == _HEADER:
            version = version_of(scope["path"])
            return None if version is None else _judge(value.decode("latin-1"), version)
    return None


def _judge(asked: str, version: str) -> MalformedRequest | None:
    meant = NAMES.get(asked.strip())
    if meant == version:
        return None
    if meant is None:
        return MalformedRequest(
            f"There is no API version {asked[:40]!r}. There are 1 and 2.",
            code="UNSUPPORTED_API_VERSION",
            details={"supported": sorted(set(NAMES.values()))},
        )
    return MalformedRequest(
        f"{HEADER} says {meant}, the path is one of version {version}. Use the paths under "
        f"/v{meant}/, or leave the header out.",
        code="API_VERSION_MISMATCH",
        details={"path_version": version},
    )
