"""HEAD for every route that has GET: the same headers, and no body."""

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from comfyrail.api.operations import Operations

SWITCHED_PROTOCOLS = 101


def answer_head_too(router: APIRouter) -> None:
    """Let every GET route of a router answer HEAD."""
    for route in router.routes:
        if isinstance(route, APIRoute) and route.methods and "GET" in route.methods:
            route.methods.add("HEAD")


def methods_of(operations: Operations) -> dict[str, frozenset[str]]:
    """The methods of every path without parameters."""
    found: dict[str, frozenset[str]] = {}
    for (method, path), operation in operations.items():
        if "{" not in path and operation.status != SWITCHED_PROTOCOLS:
            named = {"GET", "HEAD"} if method == "get" else {method.upper()}
            found[path] = found.get(path, frozenset()) | named
    return found


class Heads:
    """Ends the reply to a HEAD with its headers: a stream would go on for as long as its job."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        has_ended = False

        async def send_headers(message: Message) -> None:
            nonlocal has_ended
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})
                has_ended = True

        async def receive_the_end() -> Message:
            """As if the client had gone: what still makes a body may stop."""
            return {"type": "http.disconnect"} if has_ended else await receive()

        await self._app(scope, receive_the_end, send_headers)
