"""The paths that every job goes through, in front of the framework's layers.

Submit and status take a Starlette request and give a response like any route, and are in the
OpenAPI; only the way to them is shorter (docs/decisions/0007-hot-paths-in-front.md).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from comfyrail.access.permissions import Permission
from comfyrail.api.errors import error_response, route_error
from comfyrail.api.permission_check import check_permission
from comfyrail.errors import ComfyrailError

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class HotPath:
    """A path whose last part may be a parameter: `/a/b` or `/a/{name}`."""

    path: str
    method: str
    handler: Handler
    permission: Permission

    @property
    def prefix(self) -> str:
        return self.path.partition("{")[0]

    @property
    def parameter(self) -> str | None:
        return self.path.partition("{")[2].rstrip("}") or None


class HotPaths:
    """Answers its own paths and hands everything else to the app."""

    def __init__(self, app: FastAPI, paths: tuple[HotPath, ...]) -> None:
        self._app = app
        self._whole: dict[str, list[HotPath]] = {}
        self._by_prefix: dict[str, list[HotPath]] = {}
        for path in paths:
            group = self._whole if path.parameter is None else self._by_prefix
            group.setdefault(path.prefix, []).append(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._find(scope) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        scope["app"] = self._app
        request = Request(scope, receive)
        try:
            response = await self._answer(found, request)
        except ComfyrailError as error:
            response = error_response(error, scope)
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> list[HotPath] | None:
        path: str = scope["path"]
        if path in self._whole:
            return self._whole[path]
        for prefix, group in self._by_prefix.items():
            if path.startswith(prefix) and (rest := path[len(prefix) :]) and "/" not in rest:
                scope["path_params"] = {group[0].parameter: rest}
                return group
        return None

    async def _answer(self, group: list[HotPath], request: Request) -> Response:
        """By method; all of a group have the same path."""
        method = "GET" if request.method == "HEAD" else request.method
        for hot in group:
            if hot.method == method:
                check_permission(request.scope, hot.permission)
                return await hot.handler(request)
        return route_error(request, 405, {"Allow": ", ".join(_methods(group))})


def _methods(group: list[HotPath]) -> list[str]:
    named = {hot.method for hot in group}
    return sorted(named | {"HEAD"} if "GET" in named else named)
