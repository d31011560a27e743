"""One thread writes; whatever waits while a commit is under way shares the next one."""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from comfyrail.clock import Clock, Instant
from comfyrail.errors import StoreUnavailable
from comfyrail.jobs.priority import QueueClass
from comfyrail.store.disk_trouble import StorageTrouble
from comfyrail.store.signals import Signals
from comfyrail.store.sqlite.chores import Chores
from comfyrail.store.sqlite.database import DATABASE_NAME, WAL_NAME, connect, folder_of
from comfyrail.store.sqlite.open_files import OpenFile
from comfyrail.store.sqlite.outbox import Listeners
from comfyrail.store.sqlite.queue_figures import QueueFigures
from comfyrail.store.sqlite.statements import execute
from comfyrail.store.sqlite.trouble import (
    is_locked,
    is_of_the_database,
    is_of_the_disk,
    is_spoiling,
    same_again,
    store_error,
)
from comfyrail.store.storage_watch import ENDING, STORAGE

Result = TypeVar("Result")

_Counted = tuple[QueueClass, int, int, float]

GROUP_LIMIT = 256
PENDING_LIMIT = 20_000
LOCK_SECONDS = 10.0
"""A write is told so when another process has held the database for as long."""
LOCK_SECONDS_AT_THE_END = 1.0
"""The same when the server ends."""
LOCK_LOOK_MILLISECONDS = 200


class Transaction:
    """What an operation sees: named queries, the time, and a way to ask for wake-ups.

    An operation checks first and writes then: an error that it raises before its first write
    costs only itself.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        now: Instant,
        figures: QueueFigures,
        listeners: Listeners,
    ) -> None:
        self._connection = connection
        self.now = now
        self.listeners = listeners
        self.topics: set[str] = set()
        self.figures = figures
        self.counted: list[_Counted] = []

    def run(self, query: str, **values: Any) -> None:
        execute(self._connection, query, values)

    def one(self, query: str, **values: Any) -> sqlite3.Row | None:
        rows = execute(self._connection, query, values).fetchall()
        return rows[0] if rows else None

    def all(self, query: str, **values: Any) -> list[sqlite3.Row]:
        return execute(self._connection, query, values).fetchall()

    def count(self, queue_class: QueueClass, rank: int, jobs: int, seconds: float) -> None:
        """Change the figures of the queue; undone when this does not reach the disk."""
        self.figures.change(queue_class, rank, jobs, seconds)
        self.counted.append((queue_class, rank, jobs, seconds))

    def notify(self, topic: str) -> None:
        """Wake the topic's subscribers once this is on disk."""
        self.topics.add(topic)


@dataclass(slots=True)
class _Write:
    operation: Callable[[Transaction], Any]
    future: asyncio.Future[Any]
    since: float
    result: Any = None
    error: BaseException | None = None
    topics: set[str] = field(default_factory=set)
    counted: list[_Counted] = field(default_factory=list)


class Writer:
    """Runs operations in the order given, in groups of one commit each (synchronous FULL).

    Every write is answered in bounded time, and none of the faults of the disk ends it: a
    connection that a fault has spoilt is made anew.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        clock: Clock,
        signals: Signals,
        figures: QueueFigures,
        listeners: Listeners,
    ) -> None:
        self._connection = connection
        self._listeners = listeners
        self._folder = folder_of(connection)
        self._figures = figures
        self._clock = clock
        self._signals = signals
        self._loop = asyncio.get_running_loop()
        self._given: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._waiting: deque[_Write] = deque()
        self._pending = 0
        self._is_stopping = False
        self._is_spoilt = False
        self._database = OpenFile.at(self._folder / DATABASE_NAME)
        self._wal: OpenFile | None = None
        self.lock_seconds = LOCK_SECONDS
        self._ending = asyncio.Event()
        signals.subscribers[ENDING].add(self._ending)
        self.chores = Chores(self.write)
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def write(self, operation: Callable[[Transaction], Result]) -> Result:
        """Run the operation; return when it is on disk.

        Once handed over it happens even if the caller is cancelled meanwhile. Raises
        StoreUnavailable, or one of its kinds that says what is wrong, when it has not happened.
        """
        if self._pending >= PENDING_LIMIT:
            raise StoreUnavailable("Too many writes are waiting. Try again.", retry_after=1.0)
        self._pending += 1
        future: asyncio.Future[Result] = self._loop.create_future()
        self._given.put(_Write(operation, future, self._clock.monotonic()))
        return await asyncio.shield(future)

    async def stop(self) -> None:
        """Finish what was handed over, then end the thread."""
        await self.chores.stop()
        self._given.put(None)
        await asyncio.to_thread(self._thread.join)
        self._signals.subscribers[ENDING].discard(self._ending)
        self._connection.close()

    def find_loss(self) -> StorageTrouble | None:
        """Whether what is written here would be gone when the server ends. Blocks."""
        for file in (self._database, self._wal):
            if file is not None and not file.is_in_place():
                return StorageTrouble("lost", self._folder, file=file.path)
        return None

    def _run(self) -> None:
        self._be_patient()
        while self._take():
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), GROUP_LIMIT))]
            try:
                self._commit(group)
            except Exception as error:  # noqa: BLE001 - the thread must outlive every fault
                self._roll_back(group)
                self._fail(group, error)
            self._loop.call_soon_threadsafe(self._deliver, group)

    def _take(self) -> bool:
        """Take in enough for a group, once there is something; False: there will be no more."""
        if not self._waiting and not self._is_stopping:
            self._accept(self._given.get())
        while len(self._waiting) < GROUP_LIMIT and self._take_one():
            continue
        return bool(self._waiting)

    def _take_all(self) -> None:
        while self._take_one():
            continue

    def _take_one(self) -> bool:
        """Whether there was anything to take."""
        try:
            self._accept(self._given.get_nowait())
        except queue.Empty:
            return False
        return True

    def _accept(self, write: _Write | None) -> None:
        if write is not None:
            self._waiting.append(write)
        else:
            self._is_stopping = True

    def _commit(self, group: list[_Write]) -> None:
        try:
            self._begin(group)
            clean = all(self._apply(write) for write in group)
            if clean:
                self._refuse_after_a_loss()
                self._connection.execute("COMMIT")
        except (sqlite3.Error, StoreUnavailable) as error:
            self._roll_back(group)
            self._fail(group, error)
            return
        if not clean:
            self._roll_back(group)
            self._repeat_one_by_one(group)

    def _begin(self, group: list[_Write]) -> None:
        """Wait for another process that holds the database, as long as the oldest may wait."""
        if self._is_spoilt:
            self._renew_connection()
        while True:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not is_locked(error):
                    raise
                self._take_all()
                if self._has_waited_too_long(group[0]):
                    self._turn_away_others(error)
                    raise
            else:
                self._remember_log()
                return

    def _remember_log(self) -> None:
        """It is there once a transaction has begun, and the same as long as the connection is."""
        if self._wal is None:
            try:
                self._wal = OpenFile.at(self._folder / WAL_NAME)
            except OSError:
                trouble = StorageTrouble("lost", self._folder, file=self._folder / WAL_NAME)
                raise trouble.error() from None

    def _refuse_after_a_loss(self) -> None:
        trouble = self.find_loss()
        if trouble is not None:
            self._loop.call_soon_threadsafe(self._signals.notify, STORAGE)
            raise trouble.error()

    def _has_waited_too_long(self, write: _Write) -> bool:
        limit = self.lock_seconds
        if self._is_stopping or self._ending.is_set():
            limit = min(limit, LOCK_SECONDS_AT_THE_END)
        return self._clock.monotonic() - write.since >= limit

    def _turn_away_others(self, error: sqlite3.Error) -> None:
        """Answer those behind that have waited as long, however many: not group by group."""
        overdue = []
        while self._waiting and self._has_waited_too_long(self._waiting[0]):
            overdue.append(self._waiting.popleft())
        self._fail(overdue, error)
        self._loop.call_soon_threadsafe(self._deliver, overdue)

    def _renew_connection(self) -> None:
        self._refuse_after_a_loss()
        self._wal = None
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        self._connection = connect(self._folder, may_create=False)
        self._be_patient()
        self._is_spoilt = False

    def _be_patient(self) -> None:
        """Look again often whether a lock has gone: how long a write waits is counted here."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute(f"PRAGMA busy_timeout = {LOCK_LOOK_MILLISECONDS}")

    def _repeat_one_by_one(self, group: list[_Write]) -> None:
        """After a rollback: the operation that failed must not cost the others anything."""
        if len(group) > 1:
            for write in group:
                write.error, write.topics = None, set()
                self._commit([write])
        elif isinstance(group[0].error, sqlite3.Error) and is_of_the_database(group[0].error):
            self._fail(group, group[0].error)

    def _apply(self, write: _Write) -> bool:
        """Run one operation; False when it failed in a way that needs a rollback."""
        before = self._connection.total_changes
        transaction = Transaction(
            self._connection, self._clock.now(), self._figures, self._listeners
        )
        write.counted = transaction.counted
        try:
            write.result = write.operation(transaction)
        except Exception as error:  # noqa: BLE001 - handed to the caller, whatever it is
            write.error = error
            if is_of_the_database(error):
                return False
            return self._connection.total_changes == before and not transaction.counted
        write.topics = transaction.topics
        return True

    def _roll_back(self, group: list[_Write]) -> None:
        for write in reversed(group):
            while write.counted:
                queue_class, rank, jobs, seconds = write.counted.pop()
                self._figures.change(queue_class, rank, -jobs, -seconds)
        with contextlib.suppress(sqlite3.Error):  # some errors have rolled back already
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _fail(self, group: list[_Write], error: Exception) -> None:
        self._is_spoilt |= is_spoiling(error)
        said = store_error(error, self._folder, "written")
        for write in group:
            write.topics = set()
            write.error = same_again(said)
        if is_of_the_disk(error):
            self._loop.call_soon_threadsafe(self._signals.notify, STORAGE)

    def _deliver(self, group: list[_Write]) -> None:
        self._pending -= len(group)
        topics: set[str] = set()
        for write in group:
            if write.error is None:
                topics |= write.topics
            if write.future.cancelled():
                continue
            if write.error is not None:
                write.future.set_exception(write.error)
                write.future.exception()  # a caller that has gone must not cause a warning
            else:
                write.future.set_result(write.result)
        for topic in topics:
            self._signals.notify(topic)
