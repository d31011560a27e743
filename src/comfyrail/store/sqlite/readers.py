"""Reads, in a few threads with a connection each: they neither wait for the writer nor stop it."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from comfyrail.store.sqlite.database import connect
from comfyrail.store.sqlite.statements import execute
from comfyrail.store.sqlite.trouble import store_error

Result = TypeVar("Result")

READER_THREADS = 2


class Snapshot:
    """Named queries of one read."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def one(self, query: str, **values: Any) -> sqlite3.Row | None:
        row: sqlite3.Row | None = execute(self._connection, query, values).fetchone()
        return row

    def all(self, query: str, **values: Any) -> list[sqlite3.Row]:
        return execute(self._connection, query, values).fetchall()


class Readers:
    """A connection that has failed is given up: the next read makes a new one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="store-reader")

    async def read(self, query: Callable[[Snapshot], Result]) -> Result:
        """Run the reads of `query` on one consistent snapshot."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, query)

    def stop(self) -> None:
        self._threads.shutdown()
        for connection in self._connections:
            connection.close()

    def _read(self, query: Callable[[Snapshot], Result]) -> Result:
        connection = self._connection()
        try:
            connection.execute("BEGIN")
            try:
                return query(Snapshot(connection))
            finally:
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._give_up(connection)
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
