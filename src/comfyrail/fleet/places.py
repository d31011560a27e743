"""Which worker has which server, so that one server is never given to two."""

import asyncio
import ipaddress
import posixpath
import socket
from urllib.parse import unquote, urlsplit

from comfyrail.ids import WorkerId

THIS_MACHINE = "127.0.0.1"
_NAMES_OF_THIS_MACHINE = frozenset(
    ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
)
_PORTS = {"http": 80, "https": 443}


class Places:
    """A worker may have several: where it is in the end, and the URL under which it is reached."""

    def __init__(self) -> None:
        self._takers: dict[str, WorkerId] = {}
        self._taken: dict[WorkerId, set[str]] = {}
        self._freed: dict[str, asyncio.Event] = {}

    def claim(self, worker_id: WorkerId, place: str) -> WorkerId | None:
        """Take a place; the worker that has it already where it is not free."""
        key = one_spelling(place)
        taker = self._takers.setdefault(key, worker_id)
        if taker != worker_id:
            return taker
        self._taken.setdefault(worker_id, set()).add(key)
        return None

    def owner_of(self, place: str) -> WorkerId | None:
        return self._takers.get(one_spelling(place))

    def release(self, worker_id: WorkerId, keep: str | None = None) -> None:
        """Let go of all that a worker has, but for one."""
        taken = self._taken.pop(worker_id, set())
        kept = {one_spelling(keep)} & taken if keep is not None else set()
        if kept:
            self._taken[worker_id] = kept
        for key in taken - kept:
            del self._takers[key]
            freed = self._freed.pop(key, None)
            if freed is not None:
                freed.set()

    async def wait_free(self, place: str) -> None:
        """Return when nobody has it any more; whoever claims it first has it then."""
        key = one_spelling(place)
        while key in self._takers:
            await self._freed.setdefault(key, asyncio.Event()).wait()


def one_spelling(place: str) -> str:
    """The same for all names of one address."""
    try:
        parts = urlsplit(place)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return place
    if not parts.hostname or port is None:
        return place
    path = posixpath.normpath("/" + unquote(parts.path).lstrip("/"))
    return f"{_host(parts.hostname)}:{port}{path.rstrip('/')}"


def _host(name: str) -> str:
    name = name.rstrip(".").lower()
    if name in _NAMES_OF_THIS_MACHINE or name.endswith(".localhost"):
        return THIS_MACHINE
    if name == socket.gethostname().rstrip(".").lower():
        return THIS_MACHINE
    address = _address(name)
    if address is None:
        return name
    return THIS_MACHINE if address.is_loopback or address.is_unspecified else str(address)


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """As systems read it: 127.1 and 0x7f000001 are addresses too."""
    try:
        return ipaddress.IPv4Address(socket.inet_aton(name))
    except (OSError, ValueError):
        pass
    try:
        address = ipaddress.IPv6Address(name)
    except ValueError:
        return None
    return address.ipv4_mapped or address
