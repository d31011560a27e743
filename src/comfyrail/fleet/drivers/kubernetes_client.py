"""The few requests to a Kubernetes API server that one worker's pod needs."""

import asyncio
import contextlib
import math
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec

from comfyrail.engine.distributed.kubernetes_api import GONE, VersionGone
from comfyrail.errors import DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.fleet.drivers.kubernetes_access import ClusterAccess

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
WATCH_SECONDS = 240
SILENCE_SECONDS = WATCH_SECONDS + 30.0
LARGEST_ANSWER = 4 << 20
LARGEST_LOG = 1 << 20
MOST_ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 8.0
LONGEST_RETRY_AFTER = 3600.0

_TRY_AGAIN = {429, 500, 502, 503, 504}


class PodApi:
    """One pod by its name. Errors: DriverRefused for what only a person can mend, and
    WorkerUnreachable for the rest, after some attempts.
    """

    def __init__(self, http: aiohttp.ClientSession, access: ClusterAccess, name: str) -> None:
        self._http = http
        self._access = access
        self.name = name
        self.namespace = access.namespace
        self._pods = f"{access.url}/api/v1/namespaces/{quote(access.namespace, safe='')}/pods"
        self._pod = f"{self._pods}/{quote(name, safe='')}"

    async def get(self) -> dict[str, Any] | None:
        return await self._ask("GET", self._pod, may_miss=True)

    async def create(self, pod: Mapping[str, Any]) -> None:
        """One of that name may be there already: look who made it."""
        await self._ask("POST", self._pods, body=pod, may_exist=True)

    async def delete(self, uid: str, grace_seconds: int) -> None:
        """Only the pod with this uid: not one that has taken its name meanwhile."""
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": grace_seconds,
            "preconditions": {"uid": uid},
        }
        await self._ask("DELETE", self._pod, body=options, may_miss=True, may_exist=True)

    async def log(self, lines: int, container: str) -> str:
        """Raises WorkerError where there is none."""
        query = {"tailLines": str(lines), "limitBytes": str(LARGEST_LOG), "container": container}
        async with self._request("GET", f"{self._pod}/log", query=query) as reply:
            content = await _read(reply, LARGEST_LOG)
            if reply.status != 200:
                raise WorkerError(
                    f"The pod {self.name} has no log: {_said(content)}.", code="NO_LOG"
                )
            return content.decode(errors="replace")

    async def follow(self) -> AsyncGenerator[dict[str, Any] | None, None]:
        """The pod as it is, and again each time that it changes; None while it is not there.

        A stream that breaks is taken up where it was; when the server has forgotten that version,
        the pod is listed again. To be closed by the caller (`aclosing`): it holds a connection.
        """
        version: str | None = None
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                if version is None:
                    pod, version = await self._list()
                    yield pod
                async with contextlib.aclosing(self._watch(version)) as events:
                    async for event in events:
                        pause = FIRST_PAUSE_SECONDS
                        found, version = _read_event(event)
                        if event.get("type") != "BOOKMARK":
                            yield found
                await asyncio.sleep(FIRST_PAUSE_SECONDS)
            except VersionGone:
                version = None
                await asyncio.sleep(FIRST_PAUSE_SECONDS)
            except (aiohttp.ClientError, OSError, TimeoutError):
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spread
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                version = None if pause >= LONGEST_PAUSE_SECONDS else version

    async def _list(self) -> tuple[dict[str, Any] | None, str]:
        found = await self._ask("GET", self._pods, query=self._selector()) or {}
        items, metadata = found.get("items"), found.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if not isinstance(items, list) or not isinstance(version, str):
            raise WorkerUnreachable(f"{self._access.url} answered nonsense to a list of pods.")
        for pod in items:
            if isinstance(pod, dict) and _name_of(pod) == self.name:
                return pod, version
        return None, version

    async def _watch(self, version: str) -> AsyncGenerator[dict[str, Any], None]:
        query = {
            **self._selector(),
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        async with self._request("GET", self._pods, query=query, is_watch=True) as reply:
            if reply.status == GONE:
                raise VersionGone
            if reply.status != 200:
                content = await _read(reply, LARGEST_ANSWER)
                if reply.status in _TRY_AGAIN:
                    raise aiohttp.ClientPayloadError(_said(content))
                raise self._refused(reply, content)
            async for line in _lines(reply.content):
                try:
                    event = msgspec.json.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    raise aiohttp.ClientPayloadError("an event that is none") from error
                if isinstance(event, dict):
                    yield event

    def _selector(self) -> dict[str, str]:
        return {"fieldSelector": f"metadata.name={self.name}"}

    async def _ask(
        self,
        method: str,
        url: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        may_miss: bool = False,
        may_exist: bool = False,
    ) -> dict[str, Any] | None:
        """The answer; None for a 404 or a 409 that may be."""
        pause = FIRST_PAUSE_SECONDS
        trouble: WorkerError | None = None
        for _ in range(MOST_ATTEMPTS):
            if trouble is not None:
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spread
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            try:
                async with self._request(method, url, body=body, query=query) as reply:
                    content = await _read(reply, LARGEST_ANSWER)
                    if (may_miss and reply.status == 404) or (may_exist and reply.status == 409):
                        return None
                    if reply.ok:
                        return self._decode(content)
                    trouble = self._refused(reply, content)
                    if reply.status not in _TRY_AGAIN:
                        raise trouble
                    pause = min(max(pause, trouble.retry_after or 0.0), LONGEST_PAUSE_SECONDS)
            except aiohttp.ClientConnectorCertificateError as error:
                raise DriverRefused(
                    f"The certificate of {self._access.url} is not trusted: {error}. Name the "
                    "cluster's authority in the kubeconfig or in ca_file.",
                    code="KUBERNETES_ACCESS",
                ) from error
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                why = str(error) or "it took too long"
                trouble = WorkerUnreachable(
                    f"The Kubernetes API at {self._access.url} cannot be reached: {why}."
                )
        assert trouble is not None  # noqa: S101 - every attempt that did not return set it
        raise trouble

    @contextlib.asynccontextmanager
    async def _request(
        self,
        method: str,
        url: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        is_watch: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        limits = aiohttp.ClientTimeout(
            total=None if is_watch else ANSWER_SECONDS,
            sock_connect=CONNECT_SECONDS,
            sock_read=SILENCE_SECONDS if is_watch else None,
        )
        async with self._http.request(
            method,
            url,
            json=body,
            params=query,
            headers=await self._access.headers(),
            timeout=limits,
            ssl=self._access.tls,
            allow_redirects=False,
        ) as reply:
            yield reply

    def _decode(self, content: bytes) -> dict[str, Any]:
        try:
            answer = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise WorkerUnreachable(f"{self._access.url} did not answer JSON: {error}.") from error
        if not isinstance(answer, dict):
            raise WorkerUnreachable(f"{self._access.url} did not answer with an object.")
        return answer

    def _refused(self, reply: aiohttp.ClientResponse, content: bytes) -> WorkerError:
        status, said = reply.status, _said(content)
        details = {"status": status, "pod": self.name, "namespace": self.namespace}
        if status == 403 and "exceeded quota" in said:
            return WorkerUnreachable(
                f"The namespace {self.namespace} has no room for the pod: {said}.",
                code="KUBERNETES_QUOTA",
                details=details,
            )
        if status in _TRY_AGAIN:
            return WorkerUnreachable(
                f"The Kubernetes API at {self._access.url} is in trouble ({status}): {said}.",
                details=details,
                retry_after=retry_after_of(reply.headers, content),
            )
        advice = {
            401: "The credential is wrong or has ended.",
            403: "The account needs the rights get, list, watch, create and delete on pods, and "
            "get on pods/log and pods/proxy.",
            404: "Does the namespace exist?",
            422: "Change the worker's settings.",
        }.get(status, "")
        return DriverRefused(
            f"The Kubernetes API at {self._access.url} refused ({status}): {said}. {advice}",
            code="KUBERNETES_REFUSED",
            details=details,
        )


def retry_after_of(headers: Mapping[str, str], content: bytes) -> float | None:
    """The seconds that a server asks for, in its header or in its Status; None where it does not,
    or says what makes no sense.
    """
    seconds: Any = headers.get("Retry-After")
    if seconds is None:
        with contextlib.suppress(Exception):
            seconds = msgspec.json.decode(content)["details"]["retryAfterSeconds"]
    try:
        wanted = float(seconds)
    except (TypeError, ValueError):
        return None
    return min(wanted, LONGEST_RETRY_AFTER) if math.isfinite(wanted) and wanted >= 0 else None


def _read_event(event: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """The pod after an event, and its version. Raises VersionGone when a new list is needed."""
    pod = event.get("object")
    metadata = pod.get("metadata") if isinstance(pod, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    if event.get("type") == "ERROR" or not isinstance(pod, dict) or not isinstance(version, str):
        raise VersionGone
    return (None if event.get("type") == "DELETED" else pod), version


def _name_of(pod: dict[str, Any]) -> Any:
    metadata = pod.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


async def _read(reply: aiohttp.ClientResponse, limit: int) -> bytes:
    content = bytearray()
    async for piece in reply.content.iter_chunked(1 << 16):
        content += piece
        if len(content) > limit:
            raise aiohttp.ClientPayloadError("an answer that is too large")
    return bytes(content)


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    rest = bytearray()
    async for piece in stream.iter_any():
        rest += piece
        while (end := rest.find(b"\n")) >= 0:
            line = bytes(rest[:end]).strip()
            del rest[: end + 1]
            if line:
                yield line
        if len(rest) > LARGEST_ANSWER:
            raise aiohttp.ClientPayloadError("an event without an end")


def _said(content: bytes) -> str:
    """What the server says of a refusal; it sends an object of kind Status."""
    try:
        message = msgspec.json.decode(content)["message"]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError, RecursionError):
        message = content[:500].decode(errors="replace")
    return str(message)[:500].strip().rstrip(".")
