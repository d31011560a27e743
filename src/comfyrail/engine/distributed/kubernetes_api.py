"""The few requests to a Kubernetes API server that Jobs need."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import aiohttp

from comfyrail.engine.distributed.kubernetes_address import ClusterAddress
from comfyrail.engine.distributed.loop_thread import close_session
from comfyrail.engine.distributed.remote_errors import ServiceRefused, ServiceUnreachable

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
WATCH_SECONDS = 300
SILENCE_SECONDS = WATCH_SECONDS + 30.0
LARGEST_EVENT = 16 << 20
MOST_ATTEMPTS = 4
LONGEST_PAUSE_SECONDS = 8.0

GONE = 410
_TRY_AGAIN = {409, 429, 500, 502, 503, 504}


class VersionGone(Exception):
    """The server has forgotten what happened since that version: list again."""


class KubernetesApi:
    """Jobs of one namespace. Belongs to one event loop."""

    def __init__(self, address: ClusterAddress) -> None:
        self._address = address
        self._jobs = f"{address.url}/apis/batch/v1/namespaces/{quote(address.namespace)}/jobs"
        self._session: aiohttp.ClientSession | None = None

    async def create_job(self, job: Mapping[str, Any]) -> str:
        """Gives the name that the server has chosen. Raises ResourceError."""
        made = await self._ask("POST", self._jobs, body=job)
        return str(made["metadata"]["name"])

    async def delete_job(self, name: str) -> None:
        """Together with its pods. One that is gone already is no error. Raises ResourceError."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        await self._ask("DELETE", f"{self._jobs}/{quote(name)}", body=options, may_miss=True)

    async def list_jobs(self, selector: str) -> tuple[list[dict[str, Any]], str]:
        """The Jobs with these labels, and the version to watch from. Raises ResourceError."""
        found = await self._ask("GET", self._jobs, query={"labelSelector": selector})
        return list(found.get("items") or ()), str(found["metadata"]["resourceVersion"])

    async def watch_jobs(self, selector: str, version: str) -> AsyncIterator[dict[str, Any]]:
        """What happens to these Jobs after a version, until the server ends the stream.

        Raises VersionGone; aiohttp.ClientError and TimeoutError when the stream breaks.
        """
        query = {
            "labelSelector": selector,
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS
        )
        session = self._open()
        async with session.get(
            self._jobs, params=query, headers=self._address.authorization(), timeout=limits
        ) as reply:
            if reply.status == GONE:
                raise VersionGone
            if reply.status != 200:
                raise ServiceRefused(_explain(reply.status, await reply.read()))
            async for line in _lines(reply.content):
                yield json.loads(line)

    async def close(self) -> None:
        await close_session(self._session)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._address.ssl_context())
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        return self._session

    async def _ask(
        self,
        method: str,
        url: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        may_miss: bool = False,
    ) -> dict[str, Any]:
        limits = aiohttp.ClientTimeout(total=ANSWER_SECONDS, sock_connect=CONNECT_SECONDS)
        pause = 0.2
        for attempt in range(1, MOST_ATTEMPTS + 1):
            is_last = attempt == MOST_ATTEMPTS
            try:
                async with self._open().request(
                    method,
                    url,
                    json=body,
                    params=query,
                    headers=self._address.authorization(),
                    timeout=limits,
                ) as reply:
                    content = await reply.read()
                    if reply.ok:
                        answer: dict[str, Any] = json.loads(content)
                        return answer
                    if may_miss and reply.status == 404:
                        return {}
                    if is_last or reply.status not in _TRY_AGAIN:
                        raise ServiceRefused(_explain(reply.status, content))
                    pause = _wanted_pause(reply, pause)
            except (aiohttp.ClientError, TimeoutError, OSError, ssl.SSLError) as error:
                if is_last:
                    raise ServiceUnreachable(
                        f"The Kubernetes API at {self._address.url} cannot be reached: {error}."
                    ) from error
            except ValueError as error:
                raise ServiceRefused(f"The Kubernetes API answered nonsense: {error}") from error
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        raise AssertionError("the last attempt returns or raises")


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length: an event may come in several pieces, and several in one."""
    rest = b""
    async for piece in stream.iter_any():
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(rest) > LARGEST_EVENT:
            raise aiohttp.ClientPayloadError("an event without an end")
    if rest.strip():
        yield rest


def _wanted_pause(reply: aiohttp.ClientResponse, pause: float) -> float:
    """As long as the server asks for."""
    try:
        return min(max(pause, float(reply.headers.get("Retry-After", ""))), LONGEST_PAUSE_SECONDS)
    except ValueError:
        return pause


def _explain(status: int, content: bytes) -> str:
    """What the server says of a refusal; it sends an object of kind Status."""
    try:
        message = json.loads(content)["message"]
    except (ValueError, KeyError, TypeError):
        message = content[:500].decode("utf-8", "replace")
    return f"The Kubernetes API refused ({status}): {message}"
