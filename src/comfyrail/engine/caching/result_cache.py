"""The results of nodes in levels, and one computation where many ask at once."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from comfyrail.clock import Clock, Instant
from comfyrail.engine.caching.codec import Data, created_at, decode_result, encode_result
from comfyrail.engine.caching.faults import CorruptEntry, NotStorable, UnreadableHere
from comfyrail.engine.caching.flights import Flights, Reservation
from comfyrail.engine.caching.leases import Lease, LeaseKeeper, LeasesUnavailable
from comfyrail.engine.caching.level import CacheLevel, LevelFigures, Lifetime
from comfyrail.engine.caching.memory import MemoryLevel
from comfyrail.engine.caching.result import CachedResult
from comfyrail.engine.caching.writer import BackgroundWriter

DEFAULT_MAX_ENTRY_BYTES = 1 << 30
DEFAULT_QUEUE_BYTES = 256 << 20
CLOSE_SECONDS = 10.0
FIRST_POLL_SECONDS = 0.001
LAST_POLL_SECONDS = 0.05
MOST_REFUSED = 10_000
MOST_UNREAD = 5

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CacheFigures:
    levels: Mapping[str, LevelFigures]
    """By the name of the level, in the order in which they are asked."""
    not_storable: int
    """Results that stayed in memory because they have no safe form outside."""


class ResultCache:
    """Memory first, then the lower levels in their order. May be used from any thread.

    A result is put in memory at once and in the other levels by a thread, in order; those that are
    slow have a thread of their own, so that the quick ones do not wait behind them. When such a
    thread has too much before it, writes are dropped and counted: the caller never waits. With
    memory alone there is no thread and no input or output.

    Nothing here raises for the sake of a level: what cannot be reached or read is a miss.
    """

    def __init__(
        self,
        memory: MemoryLevel,
        lower: Sequence[CacheLevel] = (),
        *,
        clock: Clock,
        leases: Sequence[LeaseKeeper] = (),
        ttl_seconds: float | None = None,
        max_entry_bytes: int = DEFAULT_MAX_ENTRY_BYTES,
        queue_bytes: int = DEFAULT_QUEUE_BYTES,
    ) -> None:
        """`leases`: the first that is available says which process computes what."""
        self._memory = memory
        self._lower = tuple(lower)
        self._quick = [level for level in lower if not level.is_slow]
        self._slow = [level for level in lower if level.is_slow]
        self._leases = tuple(leases)
        self._clock = clock
        self._lifetime = Lifetime(ttl_seconds, clock)
        self._max_entry_bytes = max_entry_bytes
        self._writer = BackgroundWriter("cache-writer", queue_bytes)
        self._slow_writer = BackgroundWriter("cache-slow-writer", queue_bytes)
        self._flights = Flights(self._let_go)
        self._pending: dict[str, CachedResult] = {}
        self._refused: set[str] = set()
        self._unread: dict[str, int] = {}
        self._not_storable = 0

    @property
    def is_shared(self) -> bool:
        """Whether other processes may read and write it too."""
        return bool(self._lower)

    def begin_turn(self) -> None:
        """An execution begins: what it and the last one use may be spared by the memory level."""
        self._memory.begin_turn()

    def locate(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys that some level holds; `get` may still find an entry bad or gone."""
        wanted = list(dict.fromkeys(keys))
        found = self._memory.locate(wanted)
        if self._lower:
            found.update(key for key in wanted if key in self._pending)
            rest = [key for key in wanted if key not in found and key not in self._refused]
            for level in self._lower:
                if not rest:
                    break
                found |= level.locate(rest)
                rest = [key for key in rest if key not in found]
        return found

    def find(self, keys: Iterable[str]) -> dict[str, str]:
        """As `locate`, with the name of the first level that holds each."""
        wanted = list(dict.fromkeys(keys))
        found = dict.fromkeys(self._memory.locate(wanted), self._memory.name)
        for level in self._lower:
            rest = [key for key in wanted if key not in found and key not in self._refused]
            found |= dict.fromkeys(level.locate(rest), level.name) if rest else {}
        return found

    def get(self, key: str) -> CachedResult | None:
        """The result, from the first level that has it; it goes up into the levels above.

        NumPy arrays that come from a lower level are read-only.
        """
        result = self._memory.get(key)
        if result is None and self._lower:
            result = self._pending.get(key) or self._load(key)
        return result

    def put(self, key: str, result: CachedResult) -> None:
        """Keep a result, whose arrays nobody may change from now on."""
        created = self._clock.now()
        size = self._memory.put(key, result, created)
        if self._lower:
            self._pending[key] = result
            work = partial(self._write_result, key, result, created, size)
            if size > self._max_entry_bytes or not self._writer.submit(work, size):
                self._pending.pop(key, None)
                self._count_dropped(self._lower)

    def reserve(self, key: str) -> Reservation | None:
        """The right to compute the key, among all threads and all processes that share a level.

        None when another computes it now, or just has: then `wait_for` it. Does not wait.
        """
        reservation = self._flights.begin(key)
        if reservation is None:
            return None
        if self._memory.holds(key) or (self._lower and not self._may_compute(reservation)):
            reservation.release()
            return None
        return reservation

    def wait_for(
        self, key: str, should_stop: Callable[[], bool], timeout: float
    ) -> CachedResult | None:
        """Wait for the one who computes the key, and give its result.

        None when it let go without one: reserve it again. Also None when `should_stop`, which is
        asked every 50 ms or more often, says so, and after `timeout` seconds.
        """
        deadline = self._clock.monotonic() + timeout
        pause = FIRST_POLL_SECONDS
        while self._is_under_way(key):
            if self._memory.holds(key) or key in self._pending:
                break
            left = deadline - self._clock.monotonic()
            if left <= 0 or should_stop():
                return None
            if self._flights.is_under_way(key):
                self._flights.wait(key, min(left, LAST_POLL_SECONDS))
            else:
                time.sleep(min(left, pause))
                pause = min(2 * pause, LAST_POLL_SECONDS)
        # Whoever computed it has let go only after the result could be seen.
        return self.get(key)

    def flush(self, timeout: float) -> bool:
        """Wait until the levels have what was put so far; False when that took too long."""
        deadline = self._clock.monotonic() + timeout
        is_done = self._writer.flush(timeout)
        return self._slow_writer.flush(max(0.0, deadline - self._clock.monotonic())) and is_done

    def clear(self, *, everywhere: bool = False) -> None:
        """Empty the memory and set the counts to zero; `everywhere`: empty all levels, for all."""
        if everywhere:
            self._writer.forget_writes()
            self._slow_writer.forget_writes()
            self.flush(CLOSE_SECONDS)
            self._pending.clear()
            for level in self._lower:
                level.clear()
        self._memory.clear()
        self._refused.clear()
        self._not_storable = 0
        for level in self._lower:
            level.counters.reset()

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Write what waits, within the time, and let go of everything."""
        deadline = self._clock.monotonic() + timeout
        self._writer.close(timeout)
        self._slow_writer.close(max(0.0, deadline - self._clock.monotonic()))
        for keeper in self._leases:
            keeper.close()
        for level in self._lower:
            level.close()

    def figures(self) -> CacheFigures:
        levels = {level.name: level.figures() for level in self._lower}
        return CacheFigures(
            {self._memory.name: self._memory.figures(), **levels}, self._not_storable
        )

    # Reading

    def _load(self, key: str) -> CachedResult | None:
        for number, level in enumerate(self._lower):
            data = level.read(key)
            result = None if data is None else self._decode(level, key, data)
            if data is not None and result is not None:
                created = created_at(data)
                self._memory.put(key, result, created)
                self._refused.discard(key)
                self._promote(key, data, created, self._lower[:number])
                return result
        if key not in self._refused and self._is_stored(key):
            self._count_unread(key)
        return None

    def _count_unread(self, key: str) -> None:
        """A level has the key and gives nothing: it may have come just now, or never be readable
        here (another user's file). After some times it counts as not there.
        """
        if len(self._unread) >= MOST_REFUSED:
            self._unread.clear()
        self._unread[key] = self._unread.get(key, 0) + 1
        if self._unread[key] >= MOST_UNREAD:
            self._refuse(key)

    def _decode(self, level: CacheLevel, key: str, data: Data) -> CachedResult | None:
        try:
            result = decode_result(data, key)
            if not self._lifetime.is_over(created_at(data)):
                return result
            level.discard(key)
        except UnreadableHere as error:
            if key not in self._refused:
                log.warning(
                    "cache_entry_unreadable", cache_level=level.name, key=key, reason=str(error)
                )
        except CorruptEntry as error:
            log.warning("cache_entry_corrupt", cache_level=level.name, key=key, reason=str(error))
            level.counters.add(corrupt=1)
            level.discard(key)
        if level.locate([key]):
            self._refuse(key)
        return None

    def _refuse(self, key: str) -> None:
        """Remember that a level says it has the key, but cannot give it.

        Without this, whoever wants to compute it would be told for ever that it is there already.
        """
        if len(self._refused) >= MOST_REFUSED:
            self._refused.clear()
        self._refused.add(key)

    # Writing

    def _write_result(self, key: str, result: CachedResult, created: Instant, size: int) -> None:
        try:
            parts = encode_result(result, key, created=created, max_bytes=self._max_entry_bytes)
            self._write(self._quick, key, parts, created)
            if self._slow:
                self._write_later(self._slow, key, parts, created, size)
        except NotStorable as error:
            self._not_storable += 1
            log.debug("cache_result_not_storable", key=key, reason=str(error))
        finally:
            self._pending.pop(key, None)

    def _promote(self, key: str, data: Data, created: Instant, above: Sequence[CacheLevel]) -> None:
        if above:
            work = partial(self._write, above, key, [data], created)
            if not self._writer.submit(work, len(data)):
                self._count_dropped(above)

    def _write_later(
        self,
        levels: Sequence[CacheLevel],
        key: str,
        parts: Sequence[Data],
        created: Instant,
        size: int,
    ) -> None:
        if not self._slow_writer.submit(partial(self._write, levels, key, parts, created), size):
            self._count_dropped(levels)

    def _write(
        self, levels: Sequence[CacheLevel], key: str, parts: Sequence[Data], created: Instant
    ) -> None:
        for level in levels:
            if level.write(key, parts, created):
                self._refused.discard(key)

    def _count_dropped(self, levels: Sequence[CacheLevel]) -> None:
        for level in levels:
            level.counters.add(dropped=1)

    # One computation

    def _may_compute(self, reservation: Reservation) -> bool:
        """Get the lease; then look once more, as the one before may just have finished."""
        try:
            return self._get_lease(reservation) and not self._is_stored(reservation.key)
        except BaseException:
            reservation.release()
            raise

    def _get_lease(self, reservation: Reservation) -> bool:
        for keeper in self._leases:
            try:
                reservation.lease = keeper.acquire(reservation.key)
            except LeasesUnavailable:
                continue
            return reservation.lease is not None
        return True

    def _is_stored(self, key: str) -> bool:
        if key in self._pending:
            return True
        return key not in self._refused and any(level.locate([key]) for level in self._quick)

    def _is_under_way(self, key: str) -> bool:
        return self._flights.is_under_way(key) or any(
            keeper.is_held(key) for keeper in self._leases
        )

    def _let_go(self, lease: Lease) -> None:
        """After the writes that wait, so that the others find the result when they may go on."""
        if not self._writer.submit(lease.release):
            lease.release()
