"""What holds for every route: foreign pages are kept out, malformed requests get a clear reply."""

import ipaddress
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

from comfyrail.engine.server.replies import refuse
from comfyrail.errors import MalformedRequest

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def guard_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
    """403 for a page of another origin that talks to a worker on the same machine.

    A browser would let any web site do so; on another host the browser's own rules apply.
    """
    origin = request.headers.get("Origin")
    if origin is not None and _is_foreign(origin, request.headers.get("Host", "")):
        return web.Response(status=403)
    if request.method == "OPTIONS":
        return web.Response()
    return await handler(request)


@web.middleware
async def explain_malformed(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except MalformedRequest as error:
        return refuse(error.message)
    except web.RequestPayloadError as error:
        return refuse(f"The body cannot be read: {error}")


def _is_foreign(origin: str, host: str) -> bool:
    try:
        ours, theirs = urlsplit(f"//{host}"), urlsplit(origin)
        if not _is_loopback(ours.hostname or ""):
            return False
        same_port = ours.port is None or ours.port == theirs.port
    except ValueError:
        return True
    return ours.hostname != theirs.hostname or not same_port


def _is_loopback(hostname: str) -> bool:
    if hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(hostname).is_loopback
    except ValueError:
        return False
