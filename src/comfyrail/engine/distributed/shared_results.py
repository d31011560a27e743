"""The shared cache levels as those see them who run nodes for others."""

import hashlib
from dataclasses import replace

from comfyrail.clock import Clock, SystemClock
from comfyrail.engine.caching.build import MEGABYTE, CacheConfig, build_cache
from comfyrail.engine.caching.codec import encode_result
from comfyrail.engine.caching.flights import Reservation
from comfyrail.engine.caching.memory import MemoryLevel
from comfyrail.engine.caching.result import CachedResult
from comfyrail.engine.caching.result_cache import ResultCache
from comfyrail.errors import ConfigurationError

FLUSH_SECONDS = 120.0
LONGEST_WAIT_FOR_ANOTHER = 3600.0

NO_SHARED_LEVEL = (
    "The strategy 'distributed' needs a cache level that all machines share. Set "
    "execution_engine.caching.redis_url, disk_path (a folder that all of them see) or object_url."
)


class NotTaken(Exception):
    """The shared levels have not taken a result: too large for them, or they are in trouble."""


class SharedResults:
    """Results by key. What it says to hold is in a level that others can read; memory is only
    used to read the same result once.
    """

    def __init__(self, shared: ResultCache, memory: MemoryLevel, clock: Clock) -> None:
        """`shared` must have no memory level of its own."""
        self._shared = shared
        self._memory = memory
        self._clock = clock

    def get(self, key: str) -> CachedResult | None:
        result = self._memory.get(key)
        if result is None:
            result = self._shared.get(key)
            if result is not None:
                self._memory.put(key, result, self._clock.now())
        return result

    def find(self, key: str) -> CachedResult | None:
        """The result, if others can read it too."""
        return self.get(key) if self._shared.locate([key]) else None

    def publish(self, key: str, result: CachedResult) -> None:
        """Keep a result; it can be read by others when this returns.

        Raises NotStorable for a value with no safe form, NotTaken where no level has kept it.
        """
        self._shared.put(key, result)
        if self._shared.flush(FLUSH_SECONDS) and self._shared.locate([key]):
            self._memory.put(key, result, self._clock.now())
            return
        encode_result(result, key)
        raise NotTaken("No level of the shared cache has kept the result.")

    def reserve(self, key: str) -> Reservation:
        """Wait for the right to run the task of a key, among all who run tasks.

        It is apart from the right to compute the key: that one the coordinator has, who waits for
        the task.
        """
        name = task_lease_key(key)
        while (reservation := self._shared.reserve(name)) is None:
            self._shared.wait_for(name, lambda: False, LONGEST_WAIT_FOR_ANOTHER)
        return reservation

    def flush(self) -> None:
        self._shared.flush(FLUSH_SECONDS)

    def close(self) -> None:
        self._shared.close()


def task_lease_key(key: str) -> str:
    return hashlib.sha256(b"comfyrail task " + key.encode()).hexdigest()


def open_shared_results(config: CacheConfig, clock: Clock | None = None) -> SharedResults:
    """The shared levels of a configuration. Raises ConfigurationError where it has none."""
    clock = clock or SystemClock()
    shared = build_cache(replace(config, memory=False), clock)
    if not shared.is_shared:
        raise ConfigurationError(NO_SHARED_LEVEL)
    memory = MemoryLevel(
        clock,
        max_bytes=config.memory_mb * MEGABYTE if config.memory else 0,
        max_entries=config.memory_entries,
        ttl_seconds=config.ttl_seconds,
    )
    return SharedResults(shared, memory, clock)
