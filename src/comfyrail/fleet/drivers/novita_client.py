"""Requests to Novita's API for GPU instances."""

import asyncio
import contextlib
import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from comfyrail.errors import DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.fleet.drivers.novita_instances import Instance, read_instance

PATH = "/gpu-instance/openapi/v1"
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0
LARGEST_ANSWER = 8 << 20
PAGE_SIZE = 100
MOST_PAGES = 50
MOST_ATTEMPTS = 4
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
STOCK_SECONDS = 60.0
"""How long to wait for a product that is sold out, where Novita does not say it."""
LONGEST_RETRY_AFTER = 3600.0

_OUT_OF_STOCK = re.compile(
    r"stock|sold.?out|inventory|no (available|enough)|not enough (gpu|resource|capacity)"
    r"|insufficient[ _](gpu|resource|capacity|inventory)|(resource|gpu|capacity)[ _]insufficient",
    re.IGNORECASE,
)
_NOT_FOUND = "RESOURCE_NOT_FOUND"


class Unsure(WorkerUnreachable):
    """A request may have been carried out though its answer did not come, or made no sense."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    content: bytes
    retry_after: float | None

    @property
    def reason(self) -> str:
        return str(self._table().get("reason") or "")[:100]

    @property
    def message(self) -> str:
        said = self._table().get("message") or self.content[:300].decode(errors="replace")
        return str(said)[:500].strip().rstrip(".")

    def _table(self) -> Mapping[str, Any]:
        try:
            found = msgspec.json.decode(self.content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class NovitaApi:
    """Errors: DriverRefused for what only a person can mend, and WorkerUnreachable for the rest,
    after some attempts.
    """

    def __init__(self, http: aiohttp.ClientSession, base_url: str, key: str) -> None:
        self._http = http
        self._url = base_url.rstrip("/") + PATH
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    async def create(self, body: Mapping[str, Any]) -> str:
        """The id of a new instance. Raises Unsure where there may be one nevertheless: it is not
        asked for twice without looking, as two would be paid for.
        """
        answer = await self._ask_once("POST", "/gpu/instance/create", body=body)
        if answer.status >= 500:
            raise Unsure(_trouble(answer), retry_after=answer.retry_after)
        if answer.status != 200:
            raise _refused(answer)
        made = _decode(answer.content)
        found = made.get("id") if isinstance(made, dict) else None
        if not isinstance(found, str) or not found:
            raise Unsure("Novita did not say which instance it made.")
        return found

    async def get(self, instance_id: str) -> Instance | None:
        """None when there is none of that id."""
        answer = await self._ask("GET", "/gpu/instance", query={"instanceId": instance_id})
        if answer is None:
            return None
        instance = read_instance(_decode(answer.content))
        if instance is None or instance.id != instance_id:
            raise WorkerUnreachable(f"Novita answered nonsense about the instance {instance_id}.")
        return instance

    async def list_named(self, name: str) -> list[Instance]:
        """All instances of exactly that name; Novita's own search is a loose one."""
        found: dict[str, Instance] = {}
        for page in range(MOST_PAGES):
            query = {"pageSize": str(PAGE_SIZE), "pageNum": str(page), "name": name}
            answer = await self._ask("GET", "/gpu/instances", query=query)
            listed = {} if answer is None else _decode(answer.content)
            # An account without instances may leave the list out.
            items = listed.get("instances", []) if isinstance(listed, dict) else listed
            if not isinstance(listed, dict) or not isinstance(items, list | None):
                raise WorkerUnreachable("Novita answered nonsense to a list of instances.")
            instances = [read_instance(item) for item in items or ()]
            # Pages begin with 0 or with 1: the same one may come twice.
            found |= {each.id: each for each in instances if each is not None and each.name == name}
            if len(items or ()) < PAGE_SIZE:
                break
        return list(found.values())

    async def delete(self, instance_id: str) -> None:
        """One that is gone already is no error."""
        await self._ask("POST", "/gpu/instance/delete", body={"instanceId": instance_id})

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> _Answer | None:
        """For requests that may be made twice. None for what is not found."""
        pause = FIRST_PAUSE_SECONDS
        trouble: WorkerError | None = None
        for _ in range(MOST_ATTEMPTS):
            if trouble is not None:
                wanted = max(pause, trouble.retry_after or 0.0)
                if wanted > LONGEST_PAUSE_SECONDS:
                    raise trouble
                await asyncio.sleep(wanted * random.uniform(1.0, 1.3))  # noqa: S311 - spread
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            try:
                answer = await self._ask_once(method, path, body=body, query=query)
            except WorkerUnreachable as error:
                trouble = error
                continue
            if answer.status == 200:
                return answer
            if answer.status == 404 or answer.reason == _NOT_FOUND:
                return None
            trouble = _refused(answer)
            if isinstance(trouble, DriverRefused):
                raise trouble
        assert trouble is not None  # noqa: S101 - every attempt that did not return set it
        raise trouble

    async def _ask_once(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> _Answer:
        try:
            async with self._http.request(
                method,
                self._url + path,
                data=None if body is None else msgspec.json.encode(body),
                params=query,
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS, sock_connect=CONNECT_SECONDS),
                allow_redirects=False,
            ) as reply:
                content = bytearray()
                async for piece in reply.content.iter_chunked(1 << 16):
                    content += piece
                    if len(content) > LARGEST_ANSWER:
                        raise Unsure("Novita sent an answer that is too large.")
                return _Answer(reply.status, bytes(content), _retry_after(reply.headers))
        except aiohttp.ClientConnectorError as error:
            raise WorkerUnreachable(f"Novita cannot be reached: {error}.") from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            why = str(error) or "it took too long"
            raise Unsure(f"Novita did not answer: {why}.") from error


def _refused(answer: _Answer) -> WorkerError:
    details = {"status": answer.status, "reason": answer.reason}
    said = " ".join(part for part in (answer.reason, answer.message) if part)
    if answer.status in {401, 403}:
        return DriverRefused(
            f"Novita does not accept the API key ({answer.status}): {said}. Set "
            "COMFYRAIL_SECRET_NOVITA_API_KEY to a valid one; the account must be allowed to rent.",
            code="NOVITA_KEY_REFUSED",
            details=details,
        )
    if answer.status == 429 or answer.status >= 500:
        return WorkerUnreachable(_trouble(answer), details=details, retry_after=answer.retry_after)
    if "BALANCE" in answer.reason:
        return DriverRefused(
            f"The Novita account has no money left: {said}. Top it up.",
            code="NOVITA_BALANCE",
            details=details,
        )
    if _OUT_OF_STOCK.search(said):
        return WorkerUnreachable(
            f"Novita has no such GPU free now: {said}.",
            code="NOVITA_OUT_OF_STOCK",
            details=details,
            retry_after=answer.retry_after or STOCK_SECONDS,
        )
    return DriverRefused(
        f"Novita refused ({answer.status}): {said}. Change the worker's settings.",
        code="NOVITA_REFUSED",
        details=details,
    )


def _trouble(answer: _Answer) -> str:
    what = "asks for fewer requests" if answer.status == 429 else "is in trouble"
    return f"Novita {what} ({answer.status}): {answer.message}."


def _decode(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unsure(f"Novita did not answer JSON: {error}.") from error


def _retry_after(headers: Mapping[str, str]) -> float | None:
    with contextlib.suppress(ValueError):
        seconds = float(headers.get("Retry-After", ""))
        if math.isfinite(seconds) and seconds >= 0:
            return min(seconds, LONGEST_RETRY_AFTER)
    return None
