"""Reads, in a few threads with a connection each: they neither wait for the writer nor stop it.

What may take long has lanes of its own: whoever searches through everything keeps nobody waiting
who only asks for the state of a job.
"""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from comfyrail.errors import StoreUnavailable
from comfyrail.store.sqlite.database import connect
from comfyrail.store.sqlite.statements import execute, execute_given
from comfyrail.store.sqlite.trouble import store_error

Result = TypeVar("Result")

READER_THREADS = 2
SEARCH_THREADS = 2
SCAN_THREADS = 1
SEARCH_SECONDS = 5.0
MOST_SEARCHES = 64
"""Under way and waiting."""
STEPS_BETWEEN_LOOKS = 20_000
"""Of SQLite's machine: well under a millisecond."""


class Snapshot:
    """Named queries of one read."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def one(self, query: str, **values: Any) -> sqlite3.Row | None:
        row: sqlite3.Row | None = execute(self._connection, query, values).fetchone()
        return row

    def all(self, query: str, **values: Any) -> list[sqlite3.Row]:
        return execute(self._connection, query, values).fetchall()

    def all_given(self, query: str, **values: Any) -> list[sqlite3.Row]:
        """Without the conditions whose values are None."""
        return execute_given(self._connection, query, values).fetchall()


class Readers:
    """Whatever is asked, on one consistent snapshot of the database each time."""

    def __init__(self, folder: Path) -> None:
        self._reads = _Lane(folder, "store-reader", READER_THREADS)
        self._scans = _Lane(folder, "store-scan", SCAN_THREADS)
        self._searches = _Lane(folder, "store-search", SEARCH_THREADS, SEARCH_SECONDS)
        self._searching = 0

    async def read(self, query: Callable[[Snapshot], Result]) -> Result:
        """What is answered from an index at once."""
        return await self._reads.run(query)

    async def scan(self, query: Callable[[Snapshot], Result]) -> Result:
        """What reads many rows, but never more than so many."""
        return await self._scans.run(query)

    async def search(self, query: Callable[[Snapshot], Result]) -> Result:
        """What may have to look at everything. Raises StoreUnavailable where that takes too long,
        or where too many do so at the same time.
        """
        if self._searching >= MOST_SEARCHES:
            raise StoreUnavailable(
                f"{MOST_SEARCHES} searches are under way already. Try again in a moment.",
                code="TOO_MANY_SEARCHES",
                retry_after=SEARCH_SECONDS,
            )
        self._searching += 1
        try:
            return await self._searches.run(query)
        finally:
            self._searching -= 1

    def stop(self) -> None:
        for lane in (self._reads, self._scans, self._searches):
            lane.stop()


class _Lane:
    """A few threads with a connection each. One that has failed is given up: the next read makes a
    new one. `limit`: seconds that a read may take.
    """

    def __init__(self, folder: Path, name: str, threads: int, limit: float | None = None) -> None:
        self._folder = folder
        self._limit = limit
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, query: Callable[[Snapshot], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, query)

    def stop(self) -> None:
        self._threads.shutdown(cancel_futures=self._limit is not None)
        for connection in self._connections:
            connection.close()

    def _read(self, query: Callable[[Snapshot], Result]) -> Result:
        connection = self._connection()
        if self._limit is not None:
            _stop_after(connection, self._limit)
        try:
            connection.execute("BEGIN")
            try:
                return query(Snapshot(connection))
            finally:
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._give_up(connection)
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise _too_long(self._limit) from None
            raise store_error(error, self._folder, "read") from error

    def _give_up(self, connection: sqlite3.Connection) -> None:
        """What is left of a broken read, such as an open transaction, would spoil the next."""
        self._local.connection = None
        self._connections.remove(connection)
        with contextlib.suppress(sqlite3.Error):
            connection.close()

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = connect(self._folder, read_only=True)
            self._connections.append(connection)
            self._local.connection = connection
        return connection


def _stop_after(connection: sqlite3.Connection, seconds: float) -> None:
    end = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > end, STEPS_BETWEEN_LOOKS)


def _too_long(limit: float | None) -> StoreUnavailable:
    return StoreUnavailable(
        f"The search has taken longer than {limit:g} seconds. Narrow it: name an execution, a "
        "batch, a workflow or a time, or write rarer words.",
        code="SEARCH_TOO_LONG",
    )
