"""A worker as the fleet keeps it: alive, linked, and honest about what it would take."""

from collections.abc import Callable

import structlog

from comfyrail.clock import Instant
from comfyrail.errors import StoreUnavailable, WorkerError
from comfyrail.fleet.attempts import Attempts
from comfyrail.fleet.caretaker import Caretaker
from comfyrail.fleet.context import WorkerContext
from comfyrail.fleet.drivers.interface import WorkerHost, can_remove_outputs, remove_outputs
from comfyrail.fleet.health import Health
from comfyrail.fleet.knowledge import WorkerKnowledge
from comfyrail.fleet.life import WorkerLife
from comfyrail.fleet.traits import WorkerTraits
from comfyrail.fleet.view import WorkerView
from comfyrail.ids import AttemptToken, WorkerId
from comfyrail.jobs.job import Attempt
from comfyrail.jobs.workers import SchedulableWorker, WorkerStatus
from comfyrail.store.signals import WORKERS

log = structlog.get_logger(__name__)

TRUSTED = frozenset((WorkerStatus.IDLE, WorkerStatus.BUSY))


class LiveWorker:
    """Keeps one worker connected and runs attempts on it. `run` goes on until it is cancelled.

    `changed` is called whenever what it would take may have changed; `has_others` says whether
    there are other workers to which its jobs can go.
    """

    def __init__(
        self,
        worker_id: WorkerId,
        host: WorkerHost,
        added_at: Instant,
        context: WorkerContext,
        traits: WorkerTraits | None = None,
        *,
        is_cordoned: bool = False,
        is_drained: bool = False,
        changed: Callable[["LiveWorker"], None],
        has_others: Callable[["LiveWorker"], bool],
    ) -> None:
        self.id = worker_id
        self.traits = traits or WorkerTraits()
        self.added_at = added_at
        self.is_cordoned = is_cordoned
        self._host = host
        self._context = context
        self._tell_fleet = changed
        self._is_leaving = False
        self.health = Health(context.health, context.clock, worker_id, context.suspects)
        self.knowledge = WorkerKnowledge(worker_id, self.traits, context)
        self.attempts = Attempts(
            worker_id,
            context,
            self.knowledge,
            self.health,
            shares_inputs=host.shares_inputs,
            changed=self._work_changed,
            freed=self._notify,
        )
        self._caretaker = Caretaker(
            worker_id,
            context,
            self.knowledge,
            self.health,
            self.attempts,
            self.traits.warm_up,
            self._health_changed,
            lambda: has_others(self),
        )
        self.life = WorkerLife(
            worker_id,
            host,
            added_at,
            context,
            self.knowledge,
            self.attempts,
            self._caretaker,
            is_drained=is_drained,
            news=self._notify,
            lost=self._health_changed,
        )

    async def run(self) -> None:
        await self.life.run()

    # What others ask

    @property
    def driver(self) -> str:
        return self._host.driver

    @property
    def status(self) -> WorkerStatus:
        life = self.life
        if life.is_stopped:
            return WorkerStatus.STOPPED
        if self._is_leaving or life.is_draining:
            return WorkerStatus.DRAINING
        if life.is_refused:
            return WorkerStatus.FAILED
        if self.health.is_blocked:
            return WorkerStatus.UNHEALTHY
        if life.is_ready and not life.is_suspected:
            return WorkerStatus.BUSY if self.attempts.workload else WorkerStatus.IDLE
        has_trouble = life.was_ready or life.error is not None
        return WorkerStatus.UNHEALTHY if has_trouble else WorkerStatus.STARTING

    @property
    def error(self) -> str | None:
        return self.life.error or (self.health.view().cause if self.health.is_blocked else None)

    @property
    def start_seconds(self) -> float | None:
        """What it took from when it was added until it was first ready."""
        first = self.life.first_ready
        return None if first is None else first - self.life.added

    def unready_seconds(self) -> float:
        """How long it has been of no use; 0 while it takes jobs, or would."""
        now = self._context.clock.monotonic()
        if self.status in TRUSTED:
            self.life.unready_since = now
        return now - self.life.unready_since

    def idle_seconds(self) -> float:
        if self.attempts.workload:
            return 0.0
        since = max(self.attempts.idle_since, self.life.first_ready or 0.0)
        return self._context.clock.monotonic() - since

    def age_seconds(self) -> float:
        return self._context.clock.monotonic() - self.life.added

    def view(self) -> WorkerView:
        knowledge, attempts, connection = self.knowledge, self.attempts, self.life.connection
        return WorkerView(
            id=self.id,
            driver=self.driver,
            endpoint=connection.client.endpoint if connection else None,
            status=self.status,
            current_jobs=attempts.workload.jobs,
            node_types=len(knowledge.catalog.types),
            device=knowledge.machine.device,
            memory_total=knowledge.machine.video_memory,
            memory_free=knowledge.video_memory_free,
            added_at=self.added_at,
            last_active_at=attempts.last_active_at,
            error=self.error,
            error_detail=self.life.fault or self.health.fault,
            pool=self.traits.pool,
            labels=knowledge.labels,
            models=sum(len(names) for names in knowledge.machine.models.values()),
            warm_models=tuple(sorted(attempts.warm.names())),
            load=1.0 if attempts.workload else 0.0,
            health=self.health.view(),
            is_cordoned=self.is_cordoned,
        )

    def schedulable(self) -> SchedulableWorker | None:
        """The worker as the scheduler sees it; None while it takes no jobs."""
        profile = self.knowledge.profile
        if self.is_cordoned or profile is None or self.status not in TRUSTED:
            return None
        workload = self.attempts.workload
        return SchedulableWorker(
            self.id,
            profile,
            self.attempts.expected_warm(),
            workload.slots(one_at_a_time=self.health.is_on_probation or self.attempts.is_cautious),
            workload.free_in(),
            1.0 if workload else 0.0,
            self.attempts.idle_since,
        )

    async def logs(self, lines: int) -> str:
        """The last lines of its log. Raises WorkerError where there is none to be had."""
        return await self._host.logs(lines)

    @property
    def can_remove_outputs(self) -> bool:
        return can_remove_outputs(self._host)

    async def remove_outputs(self, folder: str) -> bool:
        """Remove what a run has saved there; False where nobody can. Raises WorkerError."""
        return await remove_outputs(self._host, folder)

    def tokens(self) -> list[AttemptToken]:
        return list(self.attempts.workload.held)

    # What it is told

    def start(self, attempt: Attempt) -> None:
        """Begin an attempt that the scheduler gave it; its end is written by itself."""
        connection = self.life.connection
        if connection is None or self.status not in TRUSTED:
            self.attempts.refuse(attempt.token, "the worker went away before the job began")
        else:
            self.attempts.begin(attempt, connection, adopted=False)

    def cordon(self, *, is_cordoned: bool) -> None:
        """Whether it takes new jobs; those that it has go on."""
        self.is_cordoned = is_cordoned
        self._notify()

    def drain(self) -> None:
        """Take no new jobs, end those that have begun, then stop: see `resume`."""
        if not self.life.is_draining:
            self.life.drain()
            self.attempts.return_waiting("the worker is being drained")
            self._changed()

    def resume(self) -> None:
        """Take jobs again after a drain; try again at once what has failed or is blocked."""
        self.life.resume()
        self.health.hasten_probe()
        self._health_changed()

    async def refresh(self) -> None:
        """Ask a worker that is up for its nodes and models anew: files come and go."""
        connection = self.life.connection
        if not self.life.is_ready or self.life.is_suspected or connection is None:
            return
        try:
            await self.knowledge.ask_for_nodes(connection)
            await self.knowledge.ask_for_models(connection)
        except (WorkerError, StoreUnavailable) as error:
            log.warning("refresh_failed", worker_id=self.id, error=error.message)
        except Exception:  # what one worker says must not fail the request of whoever asked
            log.exception("refresh_failed", worker_id=self.id)
        self._changed()

    async def leave(self) -> None:
        """Take no more jobs; hand the running ones back; end the worker if it is ours to end.
        Raises WorkerError when that fails: it may be called again.
        """
        self._is_leaving = True
        self._changed()
        await self.attempts.leave("the worker was removed")
        await self.attempts.abandon()
        try:
            await self.life.stop_host()
        except WorkerError as error:
            self.life.note_error(error.message, error)
            raise
        self.knowledge.forget()

    async def shut_down(self) -> None:
        """The server stops: the attempts stay as they are, the next server adopts them."""
        await self.attempts.abandon()
        try:
            await self._host.release()
        except WorkerError as error:
            log.warning("worker_not_released", worker_id=self.id, error=error.message)

    def _health_changed(self) -> None:
        self._caretaker.wake()
        self._notify()

    def _work_changed(self) -> None:
        if self.health.is_blocked:
            self._caretaker.wake()
        self._changed()

    def _changed(self) -> None:
        self._tell_fleet(self)

    def _notify(self) -> None:
        self._changed()
        self._context.store.signals.notify(WORKERS)
