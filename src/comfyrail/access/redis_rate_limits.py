"""The same count for all replicas of a server, in Redis or Valkey [11.2]."""

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import Self, TypeVar

import redis.asyncio
import structlog
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from comfyrail.access.rate_limits import WINDOW_SECONDS, ProcessRateLimiter, Verdict
from comfyrail.circuit_breaker import BreakerState, CircuitBreaker
from comfyrail.clock import Clock

ANSWER_SECONDS = 0.5
SLOWEST_ANSWER_SECONDS = 5.0
"""Of a connection itself, which is no longer waited for then."""
CONNECTIONS = 4
PREFIX = "comfyrail:rate:"
FAILURES_TO_OPEN = 3
REST_SECONDS = 1.0
LONGEST_REST_SECONDS = 30.0
SECONDS_BETWEEN_WARNINGS = 60.0
TURNS_FOR_AN_ANSWER = 10
"""Of the event loop: from the socket through the parser to whoever asked."""

# The times of a key's requests, in microseconds of the server's clock, the oldest first. Where that
# clock was set back, time stands still until it has caught up; by more than a window, all is new.
_TAKE = """
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local newest = tonumber(redis.call('LINDEX', KEYS[1], -1) or now)
if newest > now + window then redis.call('DEL', KEYS[1]) elseif newest > now then now = newest end
local oldest = tonumber(redis.call('LINDEX', KEYS[1], 0))
while oldest and now - oldest >= window do
    redis.call('LPOP', KEYS[1])
    oldest = tonumber(redis.call('LINDEX', KEYS[1], 0))
end
local count = redis.call('LLEN', KEYS[1])
local allowed = 0
if count < limit then
    allowed, count = 1, count + 1
    redis.call('RPUSH', KEYS[1], string.format('%.0f', now))
    redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000) + 1000)
end
local leaving = tonumber(redis.call('LINDEX', KEYS[1], math.max(0, count - limit)) or now)
return {allowed, math.max(0, limit - count), math.max(0, leaving + window - now)}
"""

Answer = TypeVar("Answer")

FAULTS = (redis.RedisError, OSError, TimeoutError)

log = structlog.get_logger(__name__)


class RedisRateLimiter:
    """Each process also counts what it lets through itself: where Redis does not answer that count
    alone holds, and one that has used up the limit here need not be asked about there.
    """

    def __init__(self, url: str, clock: Clock, window: float = WINDOW_SECONDS) -> None:
        """Raises ValueError for a URL that names no server. Does not connect yet."""
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=SLOWEST_ANSWER_SECONDS,
            socket_connect_timeout=SLOWEST_ANSWER_SECONDS,
            socket_timeout=SLOWEST_ANSWER_SECONDS,
            # Once, at once: a connection kept from before the server was started again.
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        )
        self._client = redis.asyncio.Redis.from_pool(pool)
        self._script = self._client.register_script(_TAKE)
        self._own = ProcessRateLimiter(clock, window)
        self._window = window
        self._clock = clock
        self._breaker = CircuitBreaker(FAILURES_TO_OPEN, REST_SECONDS, LONGEST_REST_SECONDS, clock)
        self._warning_due = clock.monotonic()

    async def __aenter__(self) -> Self:
        """Connects: the first requests need not wait for that."""
        try:
            await _within(ANSWER_SECONDS, self._client.ping())
        except FAULTS as error:
            self._note_failure(error)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    async def take(self, key: str, limit: int) -> Verdict:
        own, time = self._own.take_at(key, limit)
        if not own.is_allowed or not self._may_ask():
            return own
        shared = await self._ask(key, limit)
        if shared is None:
            return own
        if not shared.is_allowed:
            self._own.give_back(key, time)
        return shared

    def _may_ask(self) -> bool:
        is_closed = self._breaker.state is BreakerState.CLOSED
        return is_closed or self._breaker.try_probe()

    async def _ask(self, key: str, limit: int) -> Verdict | None:
        window = round(self._window * 1_000_000)
        try:
            answer = await _within(
                ANSWER_SECONDS, self._script(keys=[PREFIX + key], args=[limit, window])
            )
        except FAULTS as error:
            self._note_failure(error)
            return None
        except BaseException:
            self._breaker.abandon_probe()
            raise
        self._breaker.note_success()
        allowed, remaining, reset = answer
        return Verdict(bool(allowed), limit, int(remaining), int(reset) / 1_000_000)

    def _note_failure(self, error: Exception) -> None:
        self._breaker.note_failure(type(error).__name__)
        now = self._clock.monotonic()
        if now >= self._warning_due:
            self._warning_due = now + SECONDS_BETWEEN_WARNINGS
            log.warning("rate_limits_not_shared", error=type(error).__name__)


async def _within(seconds: float, question: Awaitable[Answer]) -> Answer:
    """Raise TimeoutError where there is no answer in time. One that has come while this process was
    busy with something else is not late.
    """
    asking = asyncio.ensure_future(question)
    try:
        await asyncio.wait({asking}, timeout=seconds)
        for _ in range(TURNS_FOR_AN_ANSWER):
            if asking.done():
                return asking.result()
            await asyncio.sleep(0)
    finally:
        asking.cancel()
    raise TimeoutError
