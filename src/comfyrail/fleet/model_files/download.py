"""Fetching one file: the rest of it where a part is there, again where the line breaks."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from comfyrail.clock import Clock
from comfyrail.errors import AddressRefused, DriverRefused, WorkerUnreachable
from comfyrail.fleet.credentials import secret_named
from comfyrail.fleet.model_files.manifest import ModelFile
from comfyrail.fleet.model_files.part import Part
from comfyrail.fleet.model_files.replies import (
    announced_size,
    first_byte,
    is_encoded,
    retry_after,
    validator_of,
)
from comfyrail.network.urls import WebUrl, read_web_url, without_secrets

REDIRECTS = frozenset((301, 302, 303, 307, 308))
PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))
BUFFER_BYTES = 1 << 20
REAL_PROGRESS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    redirects: int = 5
    tries: int = 5
    """In a row, without a megabyte more."""
    first_pause: float = 0.5
    longest_pause: float = 30.0
    longest_retry_after: float = 120.0
    """A server that asks for more is left alone, and the worker tried again later."""
    connect_seconds: float = 15.0
    read_seconds: float = 30.0
    slow_seconds: float = 60.0
    slow_bytes: int = 60 << 10
    """A line that gives less in `slow_seconds` counts as broken."""


class _LineBroke(Exception):
    """It may go better next time; `pause` is what the server asks for."""

    def __init__(self, why: str, pause: float | None = None) -> None:
        super().__init__(why)
        self.pause = pause


class Downloader:
    def __init__(
        self,
        http: aiohttp.ClientSession,
        clock: Clock,
        secrets: Mapping[str, str],
        limits: DownloadLimits,
    ) -> None:
        self._http = http
        self._clock = clock
        self._secrets = secrets
        self._limits = limits

    async def complete(self, file: ModelFile, part: Part) -> None:
        """Bring an open part to its full length and check it.

        Raises DriverRefused where the server refuses, and, with the part removed, where the
        content is another one; WorkerUnreachable where it may work later. The part then stays.
        """
        await self._fetch(file, part)
        if part.is_right():
            return
        if part.is_patched:
            # Two versions of the file may have come together: one try with a whole one.
            await part.begin_again()
            await self._fetch(file, part)
            if part.is_right():
                return
        await part.remove()
        raise DriverRefused(
            f"What {_shown(file)} gives is not the model {file.path}: its SHA-256 differs from "
            "that in the manifest. Correct the one or the other; nothing of it was kept.",
            code="MODEL_CHECKSUM_DIFFERS",
            details={"model": file.path},
        )

    async def _fetch(self, file: ModelFile, part: Part) -> None:
        failures = 0
        while part.length < file.size:
            before = part.length
            try:
                await self._fetch_rest(file, part)
            except _LineBroke as broken:
                failures = 0 if part.length - before >= REAL_PROGRESS_BYTES else failures + 1
                pause = self._pause(failures, broken)
                if failures >= self._limits.tries or pause > self._limits.longest_retry_after:
                    raise WorkerUnreachable(
                        f"The model {file.path} cannot be fetched from {_shown(file)}: {broken} "
                        f"{part.length:,} of {file.size:,} bytes are there; the rest is tried "
                        "again later.",
                        code="MODEL_UNREACHABLE",
                        retry_after=broken.pause,
                        details={"model": file.path},
                    ) from broken
                await asyncio.sleep(pause)

    def _pause(self, failures: int, broken: _LineBroke) -> float:
        if broken.pause is not None:
            return broken.pause
        grown = self._limits.first_pause * 2.0 ** min(max(failures, 1) - 1, 16)
        spread = random.uniform(0.5, 1.0)  # noqa: S311 - spread, not secrecy
        return min(grown, self._limits.longest_pause) * spread

    async def _fetch_rest(self, file: ModelFile, part: Part) -> None:
        headers = {"Accept-Encoding": "identity"}
        if part.length:
            headers["Range"] = f"bytes={part.length}-"
            if part.note.validator and part.note.url == file.url:
                headers["If-Range"] = part.note.validator
        try:
            async with self._open(file, headers) as response:
                await self._prepare(file, part, response)
                await self._read(file, part, response)
        except TimeoutError as error:
            raise _LineBroke("It does not answer in time.") from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise _LineBroke("The connection breaks off.") from error

    async def _prepare(self, file: ModelFile, part: Part, response: aiohttp.ClientResponse) -> None:
        """Judge the head of a reply, and begin again where it is not the rest."""
        if response.status == 416:
            await part.begin_again()
            raise _LineBroke("It has no such range: the file is fetched from its beginning.")
        if response.status in PASSING:
            raise _LineBroke(f"It answers {response.status}.", retry_after(response.headers))
        if response.status not in {200, 206}:
            raise _refused(
                file, f"answers {response.status}. Is the URL right, and does it need a 'secret'?"
            )
        if is_encoded(response.headers):
            raise _refused(file, "sends it packed, although it was asked not to.")
        partial = response.status == 206
        size = announced_size(response.headers, partial=partial)
        if size is not None and size != file.size:
            await part.remove()
            raise _refused(
                file, f"has {size:,} bytes and the manifest says {file.size:,}. Correct it."
            )
        if partial and first_byte(response.headers) != part.length:
            await part.begin_again()
            raise _LineBroke("It gives another range than was asked for.")
        if partial and part.length:
            part.is_patched = True
        else:
            await part.begin_again(file.url, validator_of(response.headers))

    async def _read(self, file: ModelFile, part: Part, response: aiohttp.ClientResponse) -> None:
        waiting = bytearray()
        pace = _Pace(self._clock, self._limits)
        try:
            async for chunk in response.content.iter_any():
                waiting += chunk
                if part.length + len(waiting) > file.size:
                    waiting.clear()
                    await part.remove()
                    raise _refused(file, f"sends more than the {file.size:,} bytes it should have.")
                if len(waiting) >= BUFFER_BYTES:
                    await part.append(bytes(waiting))
                    waiting.clear()
                pace.note(len(chunk))
        finally:
            # Also of a line that broke: the next try asks only for what comes after.
            if waiting:
                await part.append(bytes(waiting))
        if part.length < file.size:
            raise _LineBroke("It ends too early.")

    @asynccontextmanager
    async def _open(
        self, file: ModelFile, headers: Mapping[str, str]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The reply after redirects, its body still to be read."""
        first = target = self._judge(file, file.url)
        limits = self._limits
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=limits.connect_seconds, sock_read=limits.read_seconds
        )
        for _ in range(limits.redirects + 1):
            secret = self._authorization(file) if target.origin == first.origin else {}
            response = await self._http.get(
                target.url, headers={**headers, **secret}, allow_redirects=False, timeout=timeout
            )
            try:
                location = response.headers.get("Location")
                if response.status not in REDIRECTS or location is None:
                    yield response
                    return
                target = self._follow(file, target, location)
            finally:
                # Closed, not released: what is left of the body is not read.
                response.close()
        raise _refused(file, f"redirects more than {limits.redirects} times.")

    def _judge(self, file: ModelFile, url: str) -> WebUrl:
        try:
            return read_web_url(url)
        except AddressRefused as error:
            raise _refused(file, f"leads to what cannot be asked. {error.message}") from error

    def _follow(self, file: ModelFile, target: WebUrl, location: str) -> WebUrl:
        try:
            following = self._judge(file, str(target.url.join(type(target.url)(location))))
        except ValueError as error:
            raise _refused(file, "redirects to what is no URL.") from error
        if target.url.scheme == "https" and following.url.scheme == "http":
            raise _refused(file, "redirects from https to http.")
        return following

    def _authorization(self, file: ModelFile) -> Mapping[str, str]:
        if file.secret is None:
            return {}
        token = secret_named(self._secrets, file.secret, f"The model {file.path}")
        return {"Authorization": f"Bearer {token}"}


class _Pace:
    """Notices a line that drips."""

    def __init__(self, clock: Clock, limits: DownloadLimits) -> None:
        self._clock = clock
        self._limits = limits
        self._since = clock.monotonic()
        self._bytes = 0

    def note(self, count: int) -> None:
        self._bytes += count
        now = self._clock.monotonic()
        if now - self._since < self._limits.slow_seconds:
            return
        if self._bytes < self._limits.slow_bytes:
            raise _LineBroke("It sends next to nothing.")
        self._since, self._bytes = now, 0


def _shown(file: ModelFile) -> str:
    return without_secrets(file.url)


def _refused(file: ModelFile, what: str) -> DriverRefused:
    return DriverRefused(
        f"The model {file.path} cannot be fetched: {_shown(file)} {what}",
        code="MODEL_REFUSED",
        details={"model": file.path},
    )
