"""A way to a pod through the API server, for a server outside of the cluster.

A listener on 127.0.0.1 passes requests and WebSockets on to the API server's proxy of one pod and
one port, and adds the credential. It leads nowhere else: a path that would leave the pod's is
refused, as the credential opens more than that.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import quote, unquote

import aiohttp
import structlog
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from comfyrail.errors import DriverRefused
from comfyrail.fleet.drivers.kubernetes_access import ClusterAccess

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 300.0
PIECE = 1 << 16
LARGEST_MESSAGE = 64 << 20

_OF_ONE_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
_NOT_PASSED_ON = _OF_ONE_HOP | {
    "host",
    "authorization",
    "cookie",
    "origin",
    "accept-encoding",  # what comes back shall be the bytes that the pod sent
    "impersonate-user",
    "impersonate-group",
    "impersonate-uid",
}

log = structlog.get_logger(__name__)


class PodProxy:
    """Open from `start` to `close`."""

    def __init__(
        self, http: aiohttp.ClientSession, access: ClusterAccess, pod: str, port: int
    ) -> None:
        self._http = http
        self._access = access
        namespace = quote(access.namespace, safe="")
        self._target = (
            f"{access.url}/api/v1/namespaces/{namespace}/pods/http:{quote(pod, safe='')}:{port}"
            "/proxy"
        )
        self._runner: web.AppRunner | None = None

    async def start(self) -> str:
        """The URL under which the pod is reached; the same again when it is open already."""
        if self._runner is None:
            app = web.Application(client_max_size=0)
            app.router.add_route("*", "/{path:.*}", self._pass_on)
            self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
            await self._runner.setup()
            await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def close(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        url = self._url_of(request)
        if url is None:
            return web.json_response({"error": "this path leads out of the pod"}, status=400)
        try:
            headers = self._headers_of(request, await self._access.headers())
            if request.headers.get("Upgrade", "").lower() == "websocket":
                return await self._pass_socket_on(request, url, headers)
            return await self._pass_request_on(request, url, headers)
        except DriverRefused as error:
            return web.json_response({"error": error.message}, status=502)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.info("pod_proxy_failed", error=str(error))
            return web.json_response({"error": f"the cluster: {error}"}, status=502)

    def _url_of(self, request: web.Request) -> URL | None:
        path, _, query = request.raw_path.partition("?")
        if not path.startswith("/") or _leaves(path):
            return None
        return URL(f"{self._target}{path}{'?' if query else ''}{query}", encoded=True)

    def _headers_of(self, request: web.Request, credential: dict[str, str]) -> CIMultiDict[str]:
        headers: CIMultiDict[str] = CIMultiDict()
        for name, value in request.headers.items():
            lower = name.lower()
            if lower not in _NOT_PASSED_ON and not lower.startswith(
                ("sec-websocket", "impersonat")
            ):
                headers.add(name, value)
        headers.update(credential)
        headers["Accept-Encoding"] = "identity"
        return headers

    async def _pass_request_on(
        self, request: web.Request, url: URL, headers: CIMultiDict[str]
    ) -> web.StreamResponse:
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS
        )
        async with self._http.request(
            request.method,
            url,
            headers=headers,
            data=_body_of(request) if request.can_read_body else None,
            timeout=limits,
            ssl=self._access.tls,
            allow_redirects=False,
        ) as reply:
            passed = web.StreamResponse(status=reply.status)
            for name, value in reply.headers.items():
                if name.lower() not in _OF_ONE_HOP:
                    passed.headers.add(name, value)
            await passed.prepare(request)
            async for piece in reply.content.iter_chunked(PIECE):
                await passed.write(piece)
            await passed.write_eof()
            return passed

    async def _pass_socket_on(
        self, request: web.Request, url: URL, headers: CIMultiDict[str]
    ) -> web.StreamResponse:
        async with self._http.ws_connect(
            url, headers=headers, ssl=self._access.tls, max_msg_size=LARGEST_MESSAGE, autoping=False
        ) as far:
            near = web.WebSocketResponse(max_msg_size=LARGEST_MESSAGE, autoping=False)
            await near.prepare(request)
            pumps = {
                asyncio.create_task(_pump(near, far), name="pod-socket-out"),
                asyncio.create_task(_pump(far, near), name="pod-socket-in"),
            }
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
                with contextlib.suppress(aiohttp.ClientError, OSError, RuntimeError):
                    await near.close()
            return near


def _leaves(path: str) -> bool:
    """Whether a path could be read as one above its beginning, however it is written."""
    for _ in range(3):
        parts = path.replace("\\", "/").split("/")
        if ".." in parts or "." in parts or "\x00" in path:
            return True
        path = unquote(path)
    return False


async def _body_of(request: web.Request) -> AsyncIterator[bytes]:
    async for piece in request.content.iter_chunked(PIECE):
        yield piece


async def _pump(
    source: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
    target: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
) -> None:
    with contextlib.suppress(aiohttp.ClientError, OSError, RuntimeError):
        async for message in source:
            match message.type:
                case aiohttp.WSMsgType.TEXT:
                    await target.send_str(message.data)
                case aiohttp.WSMsgType.BINARY:
                    await target.send_bytes(message.data)
                case aiohttp.WSMsgType.PING:
                    await target.ping(message.data)
                case aiohttp.WSMsgType.PONG:
                    await target.pong(message.data)
                case _:
                    return
