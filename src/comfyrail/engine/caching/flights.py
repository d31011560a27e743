"""Who computes what in this process: one at a time for each key."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from comfyrail.engine.caching.leases import Lease


class Reservation:
    """The right to compute one key. Release it when the result is put, or will not come."""

    __slots__ = ("_flights", "ended", "key", "lease")

    def __init__(self, key: str, flights: "Flights") -> None:
        self.key = key
        self.lease: Lease | None = None
        self.ended: threading.Event | None = None
        self._flights = flights

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let the others go on; once is enough, more does no harm."""
        self._flights.end(self)


class Flights:
    def __init__(self, let_go: Callable[[Lease], None]) -> None:
        """`let_go` is given the lease of a reservation that has ended."""
        self._let_go = let_go
        self._lock = threading.Lock()
        self._under_way: dict[str, Reservation] = {}

    def begin(self, key: str) -> Reservation | None:
        """None when another thread has it."""
        with self._lock:
            if key in self._under_way:
                return None
            reservation = self._under_way[key] = Reservation(key, self)
            return reservation

    def end(self, reservation: Reservation) -> None:
        with self._lock:
            if self._under_way.get(reservation.key) is not reservation:
                return
            del self._under_way[reservation.key]
            ended = reservation.ended
        if ended is not None:
            ended.set()
        if reservation.lease is not None:
            self._let_go(reservation.lease)

    def is_under_way(self, key: str) -> bool:
        return key in self._under_way

    def wait(self, key: str, timeout: float) -> None:
        """Until the one that is under way has ended, if one is."""
        with self._lock:
            reservation = self._under_way.get(key)
            if reservation is None:
                return
            if reservation.ended is None:
                reservation.ended = threading.Event()
            ended = reservation.ended
        ended.wait(timeout)
