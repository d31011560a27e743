"""Keeps one worker alive: started by its host, linked, started again when it ends; and stopped
when it has been drained.
"""

import asyncio
import random
from collections.abc import Callable

import structlog

from comfyrail.clock import Instant
from comfyrail.errors import DriverRefused, WorkerError
from comfyrail.fleet.attempts import Attempts
from comfyrail.fleet.caretaker import Caretaker
from comfyrail.fleet.comfyui.client import QUICK_SECONDS, ComfyClient
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.fleet.context import WorkerContext
from comfyrail.fleet.drivers.interface import WorkerHost
from comfyrail.fleet.knowledge import WorkerKnowledge
from comfyrail.fleet.link import WorkerLink
from comfyrail.ids import WorkerId

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
        self.error: str | None = None
        self.is_ready = False
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
        self.error = None
        try:
            await self.stop_host()
        except WorkerError as error:
            self.note_error(error.message)
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
                self._refuse(error.message)
                pause = REFUSED_RETRY_SECONDS
            except WorkerError as error:
                self.is_refused = False
                self.note_error(error.message)
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
        quick = min(QUICK_SECONDS, self._context.times.unreachable_limit / 3)
        client = ComfyClient(endpoint, self._context.http, quick)
        self.connection = WorkerConnection(client, f"comfyrail-{self._id}-{self._added_at}")
        ended = asyncio.create_task(self._host.wait_ended(), name=f"ended-{self._id}")
        linked = asyncio.create_task(self._link.keep(self.connection), name=f"link-{self._id}")
        try:
            await asyncio.wait({ended, linked}, return_when=asyncio.FIRST_COMPLETED)
            if linked.done():
                linked.result()
            cause = await ended
        finally:
            ended.cancel()
            linked.cancel()
            await asyncio.gather(ended, linked, return_exceptions=True)
            self._context.places.release(self._id, keep=self._host.place)
            self._set_ready(False)
        self.note_error(cause)
        self._attempts.lose_all(cause)
        self._lost()

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

    def _refuse(self, message: str) -> None:
        self.is_refused = True
        self.note_error(message)
        self._news()

    def _set_ready(self, ready: bool) -> None:
        if ready == self.is_ready:
            return
        self.is_ready = ready
        now = self._context.clock.monotonic()
        self._attempts.meter.set_up(now, is_up=ready)
        self._context.catalog.note_online(self._id, online=ready)
        if ready:
            self.was_ready = True
            self.error = None
            self.failed_starts = 0
            self.first_ready = now if self.first_ready is None else self.first_ready
            log.info(
                "worker_ready", worker_id=self._id, node_types=len(self._knowledge.catalog.types)
            )
        else:
            self.unready_since = now
            self._attempts.forget_models()
        self._news()

    def note_error(self, message: str) -> None:
        if message != self.error:
            log.warning("worker_trouble", worker_id=self._id, error=message)
        self.error = message
