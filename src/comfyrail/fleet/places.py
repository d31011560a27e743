"""Which worker has which server, so that one server is never given to two."""

import asyncio
from urllib.parse import urlsplit

from comfyrail.ids import WorkerId

_NAMES_OF_THIS_MACHINE = frozenset(
    ("localhost", "0.0.0.0", "::1", "::")  # noqa: S104 - compared, not bound
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
        key = _spelling(place)
        taker = self._takers.setdefault(key, worker_id)
        if taker != worker_id:
            return taker
        self._taken.setdefault(worker_id, set()).add(key)
        return None

    def owner_of(self, place: str) -> WorkerId | None:
        return self._takers.get(_spelling(place))

    def release(self, worker_id: WorkerId, keep: str | None = None) -> None:
        """Let go of all that a worker has, but for one."""
        taken = self._taken.pop(worker_id, set())
        kept = {_spelling(keep)} & taken if keep is not None else set()
        if kept:
            self._taken[worker_id] = kept
        for key in taken - kept:
            del self._takers[key]
            freed = self._freed.pop(key, None)
            if freed is not None:
                freed.set()

    async def wait_free(self, place: str) -> None:
        """Return when nobody has it any more; whoever claims it first has it then."""
        key = _spelling(place)
        while key in self._takers:
            await self._freed.setdefault(key, asyncio.Event()).wait()


def _spelling(place: str) -> str:
    """The same for all names of one address."""
    try:
        parts = urlsplit(place)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return place
    if not parts.hostname or port is None:
        return place
    host = "127.0.0.1" if parts.hostname in _NAMES_OF_THIS_MACHINE else parts.hostname
    return f"{host}:{port}{parts.path.rstrip('/')}"
