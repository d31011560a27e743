"""The level in Redis or Valkey: shared by all workers that reach the server."""

from collections.abc import Iterator, Sequence
from functools import partial

import redis

from comfyrail.clock import Clock, Instant
from comfyrail.engine.caching.codec import Data
from comfyrail.engine.caching.level import Counters, LevelFigures, Lifetime, is_key, size_of
from comfyrail.engine.caching.redis_link import RedisLink

DEFAULT_MAX_ENTRY_BYTES = 64 << 20
KEYS_A_CALL = 1000
PREFIX = "comfyrail:cache:"


class RedisLevel:
    """The server forgets entries when their time is over. How much it holds is its own setting."""

    name = "redis"
    is_slow = False

    def __init__(
        self,
        link: RedisLink,
        clock: Clock,
        *,
        ttl_seconds: float | None = None,
        max_entry_bytes: int = DEFAULT_MAX_ENTRY_BYTES,
    ) -> None:
        self._link = link
        self._lifetime = Lifetime(ttl_seconds, clock)
        self._max_entry_bytes = max_entry_bytes
        self.counters = Counters()

    def locate(self, keys: Sequence[str]) -> set[str]:
        good = [key for key in keys if is_key(key)]
        found: set[str] = set()
        for start in range(0, len(good), KEYS_A_CALL):
            some = good[start : start + KEYS_A_CALL]
            found |= self._link.ask(partial(_which_exist, keys=some), set())
        return found

    def read(self, key: str) -> Data | None:
        data: bytes | None = None
        if is_key(key):
            data = self._link.ask(lambda client: _as_bytes(client.get(PREFIX + key)), None)
        self.counters.add(hits=data is not None, misses=data is None)
        return data

    def write(self, key: str, parts: Sequence[Data], created: Instant) -> bool:
        kept = False
        left = self._lifetime.milliseconds_left(created)
        if is_key(key) and left != 0 and size_of(parts) <= self._max_entry_bytes:
            value = b"".join(parts)
            kept = self._link.ask(
                lambda client: bool(client.set(PREFIX + key, value, px=left)), default=False
            )
        self.counters.add(writes=kept, dropped=not kept)
        return kept

    def discard(self, key: str) -> None:
        if is_key(key):
            self._link.ask(lambda client: client.unlink(PREFIX + key), None)

    def clear(self) -> None:
        self._link.ask(_remove_all, None)

    def close(self) -> None:
        self._link.close()

    def figures(self) -> LevelFigures:
        return self.counters.figures()


def _which_exist(client: redis.Redis, *, keys: list[str]) -> set[str]:
    """One cheap question about all; only where the answer is "some", one for each."""
    names = [PREFIX + key for key in keys]
    count = client.exists(*names)
    if count in {0, len(names)}:
        return set(keys) if count else set()
    pipeline = client.pipeline(transaction=False)
    for name in names:
        pipeline.exists(name)
    return {key for key, exists in zip(keys, pipeline.execute(), strict=True) if exists}


def _remove_all(client: redis.Redis) -> None:
    for names in _in_portions(client.scan_iter(match=PREFIX + "*", count=KEYS_A_CALL)):
        client.unlink(*names)


def _in_portions(names: Iterator[bytes]) -> Iterator[list[bytes]]:
    portion: list[bytes] = []
    for name in names:
        portion.append(name)
        if len(portion) == KEYS_A_CALL:
            yield portion
            portion = []
    if portion:
        yield portion


def _as_bytes(value: object) -> bytes | None:
    return value if isinstance(value, bytes) else None
