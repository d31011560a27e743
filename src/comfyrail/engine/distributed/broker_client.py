"""Connections to the broker beside Celery's own."""

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 5.0


def connect(broker_url: str, answer_seconds: float = ANSWER_SECONDS) -> redis.Redis:
    """A client that gives up in seconds. Does not connect yet.

    Raises ValueError for a URL that names no server.
    """
    return redis.Redis.from_url(
        broker_url,
        socket_connect_timeout=CONNECT_SECONDS,
        socket_timeout=answer_seconds,
        # Once, at once: a connection kept from before the server was started again.
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    )
