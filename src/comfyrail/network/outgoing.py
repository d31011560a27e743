"""HTTP requests to addresses that users chose, safe against SSRF.

- A name is resolved once for each connection, every address that it has is judged at that moment,
  and the connection goes to one of exactly these: what a name means later does not matter (DNS
  rebinding).
- Redirects are followed by hand: each hop is judged like the first URL, never from https to http.
- Time, redirects and the size of a reply are limited; nothing is unpacked. Proxies, cookies and
  passwords of the surroundings are not used.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Self

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from comfyrail.errors import AddressRefused, OutgoingError, ResponseTooLarge
from comfyrail.network.addresses import Network, is_public, is_public_name, read_address
from comfyrail.network.urls import WebUrl, read_web_url

RESOLVING_AT_ONCE = 4
MOST_CONNECTIONS = 100
REDIRECTS = frozenset((301, 302, 303, 307, 308))
HEADERS_FOR_ANYONE = frozenset(("accept", "accept-encoding", "range", "user-agent"))
"""Those that go along when a redirect leads to another origin."""
USER_AGENT = "comfyrail"

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})

AllowsHost = Callable[[str], bool]
"""Whether a host, in its normal form, may be asked."""


@dataclass(frozen=True, slots=True)
class OutgoingLimits:
    total_seconds: float = 10.0
    """For a request with all its redirects, to the last byte."""
    connect_seconds: float = 5.0
    redirects: int = 5
    response_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class OutgoingResponse:
    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes
    url: str
    """Of the last hop."""


@dataclass(frozen=True, slots=True)
class OutgoingStream:
    """A reply that is read a part at a time, within the limits of its size and time."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    url: str
    """Of the last hop."""
    chunks: AsyncIterator[bytes]


class PatientResolver(AbstractResolver):
    """The system's resolver in threads of its own: a name server that hangs holds up nobody else.

    A call of the system cannot be broken off; those that wait for one of the threads can.
    """

    def __init__(self, at_once: int = RESOLVING_AT_ONCE) -> None:
        self._threads = ThreadPoolExecutor(at_once, "resolver")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _look_up, host, port, family)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(address[1]),
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class CheckedResolver(AbstractResolver):
    """Gives the addresses of a name if all of them may be connected to, and else none."""

    def __init__(self, inner: AbstractResolver, exceptions: Sequence[Network] = ()) -> None:
        self._inner = inner
        self._exceptions = exceptions

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        results = await self._inner.resolve(host, port, family)
        # One that is private among public ones is no accident.
        if not all(is_public(result["host"], self._exceptions) for result in results):
            raise _not_public(host)
        for result in results:
            result["flags"] = result["flags"] | socket.AI_NUMERICHOST
        return results

    async def close(self) -> None:
        await self._inner.close()


class OutgoingHttp:
    """A client for such requests. Used as an async context manager, or closed by its owner.

    `exceptions` are networks that count as public, for tests and for services of one's own.
    `most_connections`: at once; 0: as many as its callers ask for, who limit themselves.
    """

    def __init__(
        self,
        *,
        limits: OutgoingLimits | None = None,
        exceptions: Sequence[Network] = (),
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
        most_connections: int = MOST_CONNECTIONS,
    ) -> None:
        self._most_connections = most_connections
        self._limits = limits or OutgoingLimits()
        self._exceptions = tuple(exceptions)
        self._resolver = resolver
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        body: bytes | AsyncIterator[bytes] | None = None,
        allows: AllowsHost | None = None,
        limits: OutgoingLimits | None = None,
        read_at_most: int | None = None,
        glance_seconds: float | None = None,
        verify_ssl: bool = True,
    ) -> OutgoingResponse:
        """Ask, and read the whole reply, or its first `read_at_most` bytes.

        A reply of any status is a reply. A request with a body is not redirected: the reply is
        then the redirect. A body that comes in parts needs its length among the headers. With
        `glance_seconds` the status is what counts: of the reply's body is taken what comes in that
        time, however it ends. Raises AddressRefused, ResponseTooLarge or OutgoingError.
        """
        limits = limits or self._limits
        check_headers(headers)
        asking = _Asking(
            method.upper(), dict(headers), body, limits, read_at_most, glance_seconds, verify_ssl
        )
        with _told_as_ours(limits):
            async with asyncio.timeout(limits.total_seconds):
                return await self._follow(asking, url, allows)

    @asynccontextmanager
    async def stream(
        self, url: str, *, allows: AllowsHost | None = None, limits: OutgoingLimits | None = None
    ) -> AsyncIterator[OutgoingStream]:
        """Ask for a file that is too large for memory. It raises the same; `chunks` too."""
        limits = limits or self._limits
        asking = _Asking("GET", {}, None, limits)
        with _told_as_ours(limits):
            async with asyncio.timeout(limits.total_seconds), AsyncExitStack() as stack:
                target: WebUrl | None = self._judge(url, allows)
                for _ in range(limits.redirects + 1):
                    if target is None:
                        break
                    response = await stack.enter_async_context(self._send(asking, target))
                    stack.callback(response.close)
                    said = _headers_of(response)
                    following = self._hop(asking, target, response.status, said, allows)
                    if following is None:
                        chunks = _limited(response, limits.response_bytes)
                        yield OutgoingStream(response.status, said, str(target.url), chunks)
                        return
                    target = following
                raise _too_many_redirects(limits)

    async def _follow(
        self, asking: "_Asking", url: str, allows: AllowsHost | None
    ) -> OutgoingResponse:
        target = self._judge(url, allows)
        for _ in range(asking.limits.redirects + 1):
            response = await self._ask_once(asking, target)
            following = self._hop(asking, target, response.status, response.headers, allows)
            if following is None:
                return response
            target = following
        raise _too_many_redirects(asking.limits)

    def _hop(
        self,
        asking: "_Asking",
        target: WebUrl,
        status: int,
        headers: Mapping[str, str],
        allows: AllowsHost | None,
    ) -> WebUrl | None:
        """Where a reply leads on to; None for one that is to be taken as it is."""
        location = headers.get("location")
        if status not in REDIRECTS or location is None or asking.body is not None:
            return None
        following = self._judge(_joined(target, location), allows)
        if target.url.scheme == "https" and following.url.scheme == "http":
            raise OutgoingError("It redirects from https to http.", "redirect")
        if following.origin != target.origin:
            asking.leave_origin()
        if status == 303 and asking.method != "HEAD":
            asking.method = "GET"
        return following

    def _judge(self, url: str, allows: AllowsHost | None) -> WebUrl:
        target = read_web_url(url)
        # aiohttp asks no resolver for an address, so that one is judged here.
        if not is_public_name(target.host, self._exceptions):
            raise _not_public(target.host)
        if allows is not None and not allows(target.host):
            raise AddressRefused(f"The domain '{target.host}' is not allowed.", "domain")
        return target

    async def _ask_once(self, asking: "_Asking", target: WebUrl) -> OutgoingResponse:
        async with self._send(asking, target) as response:
            return OutgoingResponse(
                status=response.status,
                headers=_headers_of(response),
                body=await _read(response, asking),
                url=str(target.url),
            )

    def _send(
        self, asking: "_Asking", target: WebUrl
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._open_session().request(
            asking.method,
            target.url,
            headers=asking.headers,
            data=asking.body,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=asking.limits.connect_seconds),
            ssl=asking.verify_ssl,
        )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            resolver = CheckedResolver(self._resolver or PatientResolver(), self._exceptions)
            options: dict[str, Any] = {} if self._tls is None else {"ssl": self._tls}
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    resolver=resolver,
                    use_dns_cache=False,
                    limit=self._most_connections,
                    **options,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
                auto_decompress=False,
                trust_env=False,
                requote_redirect_url=False,
            )
        return self._session


@dataclass(slots=True)
class _Asking:
    """A request on its way through redirects."""

    method: str
    headers: dict[str, str]
    body: bytes | AsyncIterator[bytes] | None
    limits: OutgoingLimits
    read_at_most: int | None = None
    glance_seconds: float | None = None
    verify_ssl: bool = True

    def leave_origin(self) -> None:
        """Another origin does not get what may be secret."""
        self.headers = {
            name: value
            for name, value in self.headers.items()
            if name.lower() in HEADERS_FOR_ANYONE
        }


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[Any]:
    return socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, family=family, flags=socket.AI_ADDRCONFIG
    )


def check_headers(headers: Mapping[str, str]) -> None:
    """Refuse names and values that would end a header or begin another one."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or _CONTROL.search(value):
            raise AddressRefused(
                f"The header {name[:80]!r} has characters that are not allowed there.", "header"
            )


@contextmanager
def _told_as_ours(limits: OutgoingLimits) -> Iterator[None]:
    """What goes wrong on the way, as OutgoingError."""
    try:
        yield
    except TimeoutError as error:
        raise OutgoingError(
            f"It did not answer within {limits.total_seconds:g} s.", "timeout"
        ) from error
    except aiohttp.ClientSSLError as error:
        raise OutgoingError("Its certificate cannot be trusted.", "certificate") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise OutgoingError(f"It cannot be reached: {_why(error)}.") from error


def _too_many_redirects(limits: OutgoingLimits) -> OutgoingError:
    return OutgoingError(f"It redirects more than {limits.redirects} times.", "redirect")


def _headers_of(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


async def _limited(response: aiohttp.ClientResponse, limit: int) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in response.content.iter_chunked(1 << 16):
        size += len(chunk)
        if size > limit:
            raise ResponseTooLarge(f"Its reply has more than {limit:,} bytes.", "too_large")
        yield chunk


async def _read(response: aiohttp.ClientResponse, asking: _Asking) -> bytes:
    body = bytearray()
    if asking.glance_seconds is None:
        return await _read_body(response, asking, body)
    try:
        async with asyncio.timeout(asking.glance_seconds):
            return await _read_body(response, asking, body)
    except (TimeoutError, aiohttp.ClientError, OSError):
        response.close()
        return bytes(body)


async def _read_body(response: aiohttp.ClientResponse, asking: _Asking, body: bytearray) -> bytes:
    whole = asking.read_at_most is None
    limit = asking.limits.response_bytes if asking.read_at_most is None else asking.read_at_most
    async for chunk in response.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > limit or (len(body) == limit and not whole):
            # Closed, not released: the rest is not read.
            response.close()
            if whole:
                raise ResponseTooLarge(f"Its reply has more than {limit:,} bytes.", "too_large")
            break
    return bytes(body[:limit])


def _joined(target: WebUrl, location: str) -> str:
    try:
        return str(target.url.join(type(target.url)(location)))
    except ValueError as error:
        raise AddressRefused("It redirects to what is no URL.", "malformed") from error


def _not_public(host: str) -> AddressRefused:
    # Which address it was is not told: that would map the network for the one who asks.
    shown = "The address" if read_address(host) is not None else f"The host '{host}'"
    return AddressRefused(f"{shown} is not, or not only, a public one.", "private_address")


def _why(error: Exception) -> str:
    """In words: what the libraries say has their names in it, and bytes of the other side."""
    if isinstance(error, aiohttp.ClientConnectorError):
        unknown = isinstance(error.os_error, socket.gaierror)
        return "its name is not known" if unknown else "nothing answers there"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "its reply breaks off"
    if isinstance(error, aiohttp.ClientResponseError):
        return "its reply is not what HTTP allows"
    if isinstance(error, aiohttp.ServerDisconnectedError | OSError):
        return "the connection breaks off"
    return "the request cannot be sent" if isinstance(error, ValueError) else "the request fails"
