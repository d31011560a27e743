"""Keeps one worker alive: started by its host, linked, started again when it ends; and stopped
when it has been drained.
"""

import asyncio
import random
from collections.abc import Callable

import structlog

from comfyrail.clock import Instant
from comfyrail.errors import ComfyrailError, DriverRefused, WorkerError, WorkerUnreachable
from comfyrail.fleet.attempts import Attempts
from comfyrail.fleet.caretaker import Caretaker
from comfyrail.fleet.classification import classify_worker_error
from comfyrail.fleet.comfyui.client import QUICK_SECONDS, ComfyClient
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.fleet.context import WorkerContext
from comfyrail.fleet.drivers.interface import WorkerHost
from comfyrail.fleet.knowledge import WorkerKnowledge
from comfyrail.fleet.link import WorkerLink
from comfyrail.fleet.patience import Contact
from comfyrail.fleet.watchdog import EndsHungWorkers, Watchdog, WatchdogRules
from comfyrail.ids import WorkerId
from comfyrail.jobs.events import EventType
from comfyrail.jobs.faults import Fault

log = structlog.get_logger(__name__)

FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 5.0
REFUSED_RETRY_SECONDS = 300.0
"""What only a person can mend is tried again as rarely, or when the worker is resumed."""


class WorkerLife:
    """`news` is called when the worker would take jobs, or no longer; `lost` when it has ended
    with jobs on it.
    """

    def __init__(
        self,
        worker_id: WorkerId,
        host: WorkerHost,
        added_at: Instant,
        context: WorkerContext,
        knowledge: WorkerKnowledge,
        attempts: Attempts,
        caretaker: Caretaker,
        *,
        is_drained: bool,
        news: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        self.connection: WorkerConnection | None = None
        self.is_ready = False
        """Linked, and prepared for jobs."""
        self.is_suspected = False
        """It does not answer just now."""
        self.was_ready = False
        """In this life."""
        self.is_refused = False
        """Only a person can mend it."""
        self.is_stopped = is_drained
        self.failed_starts = 0
        """Tries in a row that did not make it ready."""
        self.added = self.unready_since = context.clock.monotonic()
        self.first_ready: float | None = None
        self._id = worker_id
        self._host = host
        self._added_at = added_at
        self._context = context
        self._knowledge = knowledge
        self._attempts = attempts
        self._news = news
        self._lost = lost
        self._drain_asked = asyncio.Event()
        if is_drained:
            self._drain_asked.set()
        self._try_now = asyncio.Event()
        self._error: str | None = None
        self._fault: Fault | None = None
        """What the error means."""
        self._is_up = False
        self._watchdog: Watchdog | None = None
        self._hung: str | None = None
        """Why it was ended."""
        self._rules = WatchdogRules.for_lease(context.times.unreachable_limit)
        self._link = WorkerLink(
            worker_id,
            context,
            knowledge,
            attempts,
            caretaker,
            set_ready=self._set_ready,
            note_error=self.note_error,
            learned=news,
        )

    @property
    def error(self) -> str | None:
        """What is wrong with it, as far as anything is."""
        if self.is_suspected and self.was_ready and self._watchdog is not None:
            return self._watchdog.complaint
        return self._error

    @property
    def fault(self) -> Fault | None:
        """The same with its meaning and what to do; None where nothing is wrong."""
        message = self.error
        if message is None:
            return None
        if self._fault is not None and self._fault.message == message:
            return self._fault
        return classify_worker_error(WorkerUnreachable(message)).fault

    @property
    def is_draining(self) -> bool:
        return self._drain_asked.is_set()

    def drain(self) -> None:
        """Stop when all jobs have ended."""
        self._drain_asked.set()

    def resume(self) -> None:
        """Live again after a drain; try again at once after a failure."""
        self._drain_asked.clear()
        self._try_now.set()

    async def run(self) -> None:
        while True:
            # One that was drained before the server started begins with being stopped.
            if not self.is_stopped:
                await self._live_until_drained()
            await self._stop_until_resumed()

    async def _live_until_drained(self) -> None:
        life = asyncio.create_task(self._keep_alive(), name=f"life-{self._id}")
        drained = asyncio.create_task(self._until_drained(), name=f"drained-{self._id}")
        try:
            await asyncio.wait({life, drained}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            life.cancel()
            drained.cancel()
            await asyncio.gather(life, drained, return_exceptions=True)

    async def _stop_until_resumed(self) -> None:
        self._error = None
        try:
            await self.stop_host()
        except WorkerError as error:
            self.note_error(error.message, error)
        except Exception as error:  # whoever ends the worker for good tries again
            log.exception("worker_not_stopped", worker_id=self._id)
            self.note_error(f"{type(error).__name__}: {error}")
        self.is_stopped = True
        self._try_now.clear()
        self._news()
        log.info("worker_drained", worker_id=self._id)
        while self._drain_asked.is_set():
            await self._try_now.wait()
            self._try_now.clear()
        self.is_stopped = self.was_ready = False

    async def stop_host(self) -> None:
        """End the worker if it is ours to end. Raises WorkerError when that fails."""
        self._context.places.release(self._id)
        await self._host.stop()

    async def _until_drained(self) -> None:
        while True:
            await self._drain_asked.wait()
            await self._attempts.workload.until_empty()
            if self._drain_asked.is_set():
                return

    async def _keep_alive(self) -> None:
        delay = FIRST_RETRY_SECONDS
        while True:
            self.was_ready = False
            pause: float | None = None
            try:
                if self._claim(self._host.place):
                    await self._live_once()
                else:
                    await self._until_free(self._host.place)
                    continue
            except DriverRefused as error:
                self._refuse(error.message, error)
                pause = REFUSED_RETRY_SECONDS
            except WorkerError as error:
                self.is_refused = False
                self.note_error(error.message, error)
                pause = error.retry_after
            except Exception as error:  # a worker must come back after any fault, also of ours
                log.exception("worker_failed", worker_id=self._id)
                self.note_error(f"{type(error).__name__}: {error}")
            if self.was_ready:
                delay = FIRST_RETRY_SECONDS
            else:
                self.failed_starts += 1
                delay = min(LAST_RETRY_SECONDS, delay * 2)
            self._news()
            await self._rest(pause or delay * random.uniform(0.5, 1.0))  # noqa: S311 - spread

    async def _live_once(self) -> None:
        """One life of the worker: from its start until it is known to have ended."""
        endpoint = await self._host.start()
        if not self._claim(endpoint):
            await self._host.release()
            await self._until_free(endpoint)
            return
        self.is_refused = False
        connection = self.connection = self._connect(endpoint)
        watchdog = self._watchdog = self._watch(connection)
        ended = asyncio.create_task(self._host.wait_ended(), name=f"ended-{self._id}")
        work = {
            asyncio.create_task(watchdog.run(), name=f"watchdog-{self._id}"),
            asyncio.create_task(self._link.keep(connection, watchdog), name=f"link-{self._id}"),
        }
        try:
            done, _ = await asyncio.wait({ended, *work}, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {ended}:
                task.result()
            cause = await ended
        finally:
            for task in (ended, *work):
                task.cancel()
            await asyncio.gather(ended, *work, return_exceptions=True)
            self._context.places.release(self._id, keep=self._host.place)
            self.is_suspected = False
            self._set_ready(False)
        cause = self._hung or cause
        self.note_error(cause)
        self._attempts.lose_all(cause)
        self._lost()

    def _connect(self, endpoint: str) -> WorkerConnection:
        context = self._context
        quick = min(QUICK_SECONDS, context.times.unreachable_limit / 3)
        client = ComfyClient(endpoint, context.http, quick, Contact(context.clock))
        return WorkerConnection(client, f"comfyrail-{self._id}-{self._added_at}")

    # What its watchdog tells

    def _watch(self, connection: WorkerConnection) -> Watchdog:
        self._hung = None
        return Watchdog(
            self._id,
            connection,
            self._rules,
            suspect=self._set_suspected,
            line_lost=lambda: self._take_back_waiting("the line to its worker is gone"),
            lose=self._lose_jobs,
            recover=self._recover,
            end=self._end_hung,
            is_idle=lambda: not self._attempts.workload,
        )

    def _set_suspected(self, is_suspected: bool) -> None:
        self.is_suspected = is_suspected
        if is_suspected:
            self._take_back_waiting("its worker does not answer")
        self._note_whether_up()
        self._news()

    def _take_back_waiting(self, why: str) -> None:
        # They are not stopped on the worker, which would have to answer for that: `_recover` does.
        self._attempts.workload.give_back_waiting(why, still_runs=False)
        self._drop_calls()

    def _lose_jobs(self, cause: str) -> None:
        if self._attempts.workload.jobs:
            self._attempts.lose_all(cause)
            self._drop_calls()
            self._lost()

    def _drop_calls(self) -> None:
        """Whoever gives back a job need not wait for the worker's last answer about it."""
        if self.connection is not None:
            for prompt_id in self._attempts.workload.given_back():
                self.connection.client.drop_calls(prompt_id)

    async def _recover(self, connection: WorkerConnection) -> None:
        if connection.is_open:  # otherwise this is done when it is greeted
            await self._link.stop_strays(connection)

    async def _end_hung(self, cause: str) -> None:
        """A process that is stopped or deadlocked would be out of service for ever."""
        if not self.was_ready or not isinstance(self._host, EndsHungWorkers):
            return
        log.warning("worker_hangs", worker_id=self._id, cause=cause)
        self._hung = cause
        try:
            if await self._host.end_hung():
                return
        except WorkerError as error:
            log.warning("worker_not_ended", worker_id=self._id, error=error.message)
        self._hung = None

    async def _rest(self, seconds: float) -> None:
        self._try_now.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._try_now.wait()
        except TimeoutError:
            return

    def _claim(self, place: str | None) -> bool:
        """Whether no other worker is at this place."""
        if place is None:
            return True
        other = self._context.places.claim(self._id, place)
        if other is not None:
            self._refuse(
                f"The server at {place} is in the fleet already, as worker '{other}'. "
                "Remove one of the two."
            )
        return other is None

    async def _until_free(self, place: str | None) -> None:
        if place is not None:
            await self._context.places.wait_free(place)
            self.is_refused = False

    def _refuse(self, message: str, error: WorkerError | None = None) -> None:
        self.is_refused = True
        self.note_error(message, error or DriverRefused(message))
        self._news()

    def _set_ready(self, ready: bool) -> None:
        if ready == self.is_ready:
            return
        self.is_ready = ready
        now = self._context.clock.monotonic()
        self._note_whether_up()
        if ready:
            self.was_ready = True
            self._error = None
            self.failed_starts = 0
            self.first_ready = now if self.first_ready is None else self.first_ready
            log.info(
                "worker_ready", worker_id=self._id, node_types=len(self._knowledge.catalog.types)
            )
        else:
            self._attempts.forget_models()
        self._news()

    def _note_whether_up(self) -> None:
        is_up = self.is_ready and not self.is_suspected
        if is_up == self._is_up:
            return
        self._is_up = is_up
        now = self._context.clock.monotonic()
        self._attempts.meter.set_up(now, is_up=is_up)
        self._context.catalog.note_online(self._id, online=is_up)
        if is_up:
            self._context.catalog.note_warm(self._id, self._attempts.warm.names())
            self._context.tell(EventType.WORKER_ONLINE, worker_id=self._id)
        else:
            self.unready_since = now
            self._context.tell(EventType.WORKER_OFFLINE, worker_id=self._id, reason=self._error)

    def note_error(self, message: str, error: ComfyrailError | None = None) -> None:
        if message != self._error:
            log.warning("worker_trouble", worker_id=self._id, error=message)
        self._error = message
        self._fault = None if error is None else classify_worker_error(error).fault
