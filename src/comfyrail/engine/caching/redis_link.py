"""The connection to a Redis or Valkey server that the level and its leases share."""

from collections.abc import Callable
from typing import TypeVar

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from comfyrail.clock import Clock
from comfyrail.engine.caching.breaker import Breaker

CONNECT_SECONDS = 1.0
ANSWER_SECONDS = 3.0

Answer = TypeVar("Answer")

log = structlog.get_logger(__name__)


class RedisLink:
    """Asks the server; trouble with it becomes a default answer and a pause, not an error."""

    def __init__(self, url: str, clock: Clock) -> None:
        """Raises ValueError for a URL that names no server. Does not connect yet."""
        self.breaker = Breaker("redis", clock)
        self._client = redis.Redis.from_url(
            url,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            # Once, at once: a connection kept from before the server was started again.
            retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        )
        self._was_refused = False

    def ask(self, question: Callable[[redis.Redis], Answer], default: Answer) -> Answer:
        """The answer, or the default where the server is away, refuses, or is given a pause."""
        if self.breaker.is_open:
            return default
        try:
            answer = question(self._client)
        except redis.ResponseError as error:
            # It is there, but does not do this: out of memory, a key of another type …
            if not self._was_refused:
                log.warning("cache_level_refused", cache_level="redis", error=str(error))
            self._was_refused = True
            return default
        except (redis.RedisError, OSError) as error:
            self.breaker.trip(error)
            return default
        self.breaker.mend()
        return answer

    def close(self) -> None:
        self._client.close()
