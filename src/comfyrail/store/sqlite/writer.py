"""One thread writes; whatever waits while a commit is under way shares the next one."""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from comfyrail.clock import Clock, Instant
from comfyrail.errors import StoreUnavailable
from comfyrail.jobs.priority import QueueClass
from comfyrail.store.signals import Signals
from comfyrail.store.sqlite.queries import QUERIES
from comfyrail.store.sqlite.queue_figures import QueueFigures

Result = TypeVar("Result")

_Counted = tuple[QueueClass, int, int, float]

GROUP_LIMIT = 256
PENDING_LIMIT = 20_000


class Transaction:
    """What an operation sees: named queries, the time, and a way to ask for wake-ups.

    An operation checks first and writes then: an error that it raises before its first write
    costs only itself.
    """

    def __init__(self, connection: sqlite3.Connection, now: Instant, figures: QueueFigures) -> None:
        self._connection = connection
        self.now = now
        self.topics: set[str] = set()
        self.figures = figures
        self.counted: list[_Counted] = []

    def run(self, query: str, **values: Any) -> None:
        self._connection.execute(QUERIES[query], values)

    def one(self, query: str, **values: Any) -> sqlite3.Row | None:
        rows = self._connection.execute(QUERIES[query], values).fetchall()
        return rows[0] if rows else None

    def all(self, query: str, **values: Any) -> list[sqlite3.Row]:
        return self._connection.execute(QUERIES[query], values).fetchall()

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
    result: Any = None
    error: BaseException | None = None
    topics: set[str] = field(default_factory=set)
    counted: list[_Counted] = field(default_factory=list)


class Writer:
    """Runs operations in the order given, in groups of one commit each (synchronous FULL)."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        clock: Clock,
        signals: Signals,
        figures: QueueFigures,
    ) -> None:
        self._connection = connection
        self._figures = figures
        self._clock = clock
        self._signals = signals
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._pending = 0
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def write(self, operation: Callable[[Transaction], Result]) -> Result:
        """Run the operation; return when it is on disk.

        Once handed over it happens even if the caller is cancelled meanwhile.
        """
        if self._pending >= PENDING_LIMIT:
            raise StoreUnavailable("Too many writes are waiting. Try again.", retry_after=1.0)
        self._pending += 1
        future: asyncio.Future[Result] = self._loop.create_future()
        self._waiting.put(_Write(operation, future))
        return await asyncio.shield(future)

    async def stop(self) -> None:
        """Finish what was handed over, then end the thread."""
        self._waiting.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        stopping = False
        while not stopping:
            first = self._waiting.get()
            if first is None:
                return
            group = [first]
            while len(group) < GROUP_LIMIT and not self._waiting.empty():
                following = self._waiting.get()
                if following is None:
                    stopping = True
                    break
                group.append(following)
            try:
                self._commit(group)
            except Exception as error:  # noqa: BLE001 - the thread must outlive every fault
                self._roll_back(group)
                self._fail(group, error)
            self._loop.call_soon_threadsafe(self._deliver, group)

    def _commit(self, group: list[_Write]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            clean = all(self._apply(write) for write in group)
            if clean:
                self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back(group)
            self._fail(group, error)
            return
        if not clean:
            self._roll_back(group)
            self._repeat_one_by_one(group)

    def _repeat_one_by_one(self, group: list[_Write]) -> None:
        """After a rollback: the operation that failed must not cost the others anything."""
        if len(group) > 1:
            for write in group:
                write.error, write.topics = None, set()
                self._commit([write])
        elif isinstance(group[0].error, sqlite3.OperationalError):
            self._fail(group, group[0].error)

    def _apply(self, write: _Write) -> bool:
        """Run one operation; False when it failed in a way that needs a rollback."""
        before = self._connection.total_changes
        transaction = Transaction(self._connection, self._clock.now(), self._figures)
        write.counted = transaction.counted
        try:
            write.result = write.operation(transaction)
        except sqlite3.OperationalError as error:
            write.error = error
            return False
        except Exception as error:  # noqa: BLE001 - handed to the caller, whatever it is
            write.error = error
            return self._connection.total_changes == before
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
        for write in group:
            write.topics = set()
            write.error = StoreUnavailable(
                f"The database could not be written: {error}. Check the disk, then try again.",
                retry_after=5.0,
            )

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
