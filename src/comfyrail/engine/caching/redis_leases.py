"""Leases in Redis or Valkey: keys that expire unless their holder renews them."""

import contextlib
import secrets
import threading
from functools import partial

import redis

from comfyrail.engine.caching.leases import LeasesUnavailable
from comfyrail.engine.caching.level import is_key
from comfyrail.engine.caching.redis_link import RedisLink

DEFAULT_LEASE_SECONDS = 10.0
PREFIX = "comfyrail:lease:"

_RENEW = "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('pexpire', KEYS[1], ARGV[2])"
_RELEASE = "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1])"


class RedisLeases:
    """One thread renews all leases of this process, three times in the life of one.

    A process that is killed, or stopped for longer than a lease lasts, loses its leases: then
    two may compute the same, which costs time and does no harm.
    """

    def __init__(self, link: RedisLink, lease_seconds: float = DEFAULT_LEASE_SECONDS) -> None:
        self._link = link
        self._milliseconds = round(lease_seconds * 1000)
        self._lock = threading.Lock()
        self._tokens: dict[str, str] = {}
        self._stopped = threading.Event()
        self._renewer: threading.Thread | None = None

    def acquire(self, key: str) -> "_RedisLease | None":
        if not is_key(key):
            raise LeasesUnavailable(key)
        name, token = PREFIX + key, secrets.token_hex(16)
        is_ours = self._link.ask(lambda client: self._try(client, name, token), None)
        if is_ours is None:
            raise LeasesUnavailable("the server is away")
        if not is_ours:
            return None
        with self._lock:
            self._tokens[name] = token
            if self._renewer is None:
                self._renewer = threading.Thread(
                    target=self._renew_until_stopped, name="cache-leases", daemon=True
                )
                self._renewer.start()
        return _RedisLease(self, name, token)

    def is_held(self, key: str) -> bool:
        return self._link.ask(lambda client: bool(client.exists(PREFIX + key)), default=False)

    def close(self) -> None:
        self._stopped.set()
        if self._renewer is not None:
            self._renewer.join()
        with self._lock:
            held = list(self._tokens.items())
        for name, token in held:
            self.let_go(name, token)

    def let_go(self, name: str, token: str) -> None:
        with self._lock:
            if self._tokens.get(name) != token:
                return
            del self._tokens[name]
        self._link.ask(lambda client: client.eval(_RELEASE, 1, name, token), None)

    def _try(self, client: redis.Redis, name: str, token: str) -> bool | None:
        return bool(client.set(name, token, nx=True, px=self._milliseconds))

    def _renew_until_stopped(self) -> None:
        while not self._stopped.wait(self._milliseconds / 3000):
            with self._lock:
                held = list(self._tokens.items())
            if held:
                self._link.ask(partial(self._renew, held=held), None)

    def _renew(self, client: redis.Redis, *, held: list[tuple[str, str]]) -> None:
        pipeline = client.pipeline(transaction=False)
        for name, token in held:
            pipeline.eval(_RENEW, 1, name, token, self._milliseconds)
        for (name, token), renewed in zip(held, pipeline.execute(), strict=True):
            if not renewed:
                with self._lock, contextlib.suppress(KeyError):
                    if self._tokens[name] == token:
                        del self._tokens[name]


class _RedisLease:
    def __init__(self, keeper: RedisLeases, name: str, token: str) -> None:
        self._keeper = keeper
        self._name = name
        self._token = token

    def release(self) -> None:
        self._keeper.let_go(self._name, self._token)
