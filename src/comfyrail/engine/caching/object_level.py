"""The level in an object store: S3, Google Cloud Storage, Azure, or a folder, by URL."""

import contextlib
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from comfyrail.clock import Clock, Instant
from comfyrail.engine.caching.breaker import Breaker
from comfyrail.engine.caching.codec import Data
from comfyrail.engine.caching.level import Counters, LevelFigures, Lifetime, is_key

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "file")
CONNECT_SECONDS = 2
REQUEST_SECONDS = 30
QUESTIONS_AT_ONCE = 16
DEFAULT_MAX_ENTRY_BYTES = 1 << 30

# What the store raises; a file that is missing is asked for first, as it is one of these.
_TROUBLE = (BaseError, OSError, ValueError)


def open_store(url: str, options: Mapping[str, str]) -> ObjectStore:
    """The store behind a URL.

    Options are those of the store's own kind, such as `endpoint` or `region`; what they do not say
    comes from the environment (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID` …). Raises ValueError or
    obstore's BaseError for a URL or an option that makes no sense. Does not connect.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(f"it should begin with one of: {', '.join(SCHEMES)}")
    if parts.scheme == "file":
        return LocalStore(Path(url2pathname(parts.path)), mkdir=True)
    # Which keys are good depends on the scheme: the store checks them.
    settings: Any = dict(options)
    store: ObjectStore = from_url(
        url,
        config=settings,
        client_options={
            "allow_http": True,
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "timeout": timedelta(seconds=REQUEST_SECONDS),
        },
        retry_config={"max_retries": 1, "retry_timeout": timedelta(seconds=REQUEST_SECONDS)},
    )
    return store


class ObjectLevel:
    """Entries that are over are removed when they are met; set a rule of the store for the rest.

    How much the store holds is its own setting too.
    """

    name = "object"
    is_slow = True

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        *,
        ttl_seconds: float | None = None,
        max_entry_bytes: int = DEFAULT_MAX_ENTRY_BYTES,
    ) -> None:
        self._store = store
        self._max_entry_bytes = max_entry_bytes
        self._lifetime = Lifetime(ttl_seconds, clock)
        self._breaker = Breaker(self.name, clock)
        self._lock = threading.Lock()
        self._questions: ThreadPoolExecutor | None = None
        self.counters = Counters()

    def locate(self, keys: Sequence[str]) -> set[str]:
        good = [key for key in keys if is_key(key)]
        if not good or self._breaker.is_open:
            return set()
        if len(good) == 1:
            return {key for key in good if self._has(key)}
        with self._lock:
            if self._questions is None:
                self._questions = ThreadPoolExecutor(QUESTIONS_AT_ONCE, "cache-object")
            answers = self._questions.map(self._has, good)
        return {key for key, is_there in zip(good, answers, strict=True) if is_there}

    def read(self, key: str) -> Data | None:
        data = self._fetch(key) if is_key(key) and not self._breaker.is_open else None
        self.counters.add(hits=data is not None, misses=data is None)
        return data

    def write(self, key: str, parts: Sequence[Data], created: Instant) -> bool:
        kept = not self._lifetime.is_over(created) and is_key(key) and not self._breaker.is_open
        kept = kept and self._send(key, b"".join(parts))
        self.counters.add(writes=kept, dropped=not kept)
        return kept

    def discard(self, key: str) -> None:
        if is_key(key) and not self._breaker.is_open:
            with contextlib.suppress(*_TROUBLE):
                obstore.delete(self._store, _path_of(key))

    def clear(self) -> None:
        try:
            for objects in obstore.list(self._store):
                paths = [str(found["path"]) for found in objects]
                own = [path for path in paths if path == _path_of(path.rpartition("/")[2])]
                if own:
                    obstore.delete(self._store, own)
        except _TROUBLE as error:
            self._breaker.trip(error)

    def close(self) -> None:
        with self._lock:
            questions, self._questions = self._questions, None
        if questions is not None:
            questions.shutdown()

    def figures(self) -> LevelFigures:
        return self.counters.figures()

    def _has(self, key: str) -> bool:
        if self._breaker.is_open:
            return False
        try:
            found = obstore.head(self._store, _path_of(key))
        except FileNotFoundError:
            return False
        except _TROUBLE as error:
            self._breaker.trip(error)
            return False
        self._breaker.mend()
        return not self._is_over(found["last_modified"])

    def _fetch(self, key: str) -> Data | None:
        try:
            found = obstore.get(self._store, _path_of(key))
            if self._is_over(found.meta["last_modified"]):
                self.discard(key)
                return None
            if found.meta["size"] > self._max_entry_bytes:
                return None
            data = memoryview(found.bytes())
        except FileNotFoundError:
            return None
        except _TROUBLE as error:
            self._breaker.trip(error)
            return None
        self._breaker.mend()
        return data

    def _send(self, key: str, value: bytes) -> bool:
        try:
            obstore.put(self._store, _path_of(key), value)
        except _TROUBLE as error:
            self._breaker.trip(error)
            return False
        self._breaker.mend()
        return True

    def _is_over(self, modified: datetime) -> bool:
        return self._lifetime.is_over(Instant(round(modified.timestamp() * 1000)))


def _path_of(key: str) -> str:
    return f"{key[:2]}/{key}"
