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

from comfyrail.api.errors import error_response, request_id_of, route_error
from comfyrail.errors import ComfyrailError

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class HotPath:
    """A path whose last part may be a parameter: `/a/b` or `/a/{name}`."""

    path: str
    method: str
    handler: Handler

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
        self._whole = {path.path: path for path in paths if path.parameter is None}
        self._by_prefix = [(path.prefix, path) for path in paths if path.parameter is not None]

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
            response = error_response(error, request_id_of(request))
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> HotPath | None:
        path: str = scope["path"]
        if path in self._whole:
            return self._whole[path]
        for prefix, hot in self._by_prefix:
            if path.startswith(prefix) and (rest := path[len(prefix) :]) and "/" not in rest:
                scope["path_params"] = {hot.parameter: rest}
                return hot
        return None

    async def _answer(self, hot: HotPath, request: Request) -> Response:
        if request.method != hot.method and (request.method, hot.method) != ("HEAD", "GET"):
            return route_error(request, 405, {"Allow": hot.method})
        return await hot.handler(request)
