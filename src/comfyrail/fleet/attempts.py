"""The attempts on one worker: begun, followed to their end, and what their end says of it."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog

from comfyrail.clock import Instant
from comfyrail.errors import StaleAttempt, StoreUnavailable, WorkerError
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.fleet.context import WorkerContext
from comfyrail.fleet.figures import BusyMeter
from comfyrail.fleet.health import Health, ran_out_of_memory
from comfyrail.fleet.inputs import WorkerInputs
from comfyrail.fleet.knowledge import WorkerKnowledge
from comfyrail.fleet.session import AttemptSession
from comfyrail.fleet.suspects import suspect_of
from comfyrail.fleet.warm_models import WarmModels
from comfyrail.fleet.workload import Held, Workload
from comfyrail.ids import AttemptToken, WorkerId
from comfyrail.jobs.job import Attempt
from comfyrail.jobs.outcome import Completed, Lost

log = structlog.get_logger(__name__)


class Attempts:
    """`changed` is called when the worker has more or less to do than before; `freed` when it
    would take a further job.
    """

    def __init__(
        self,
        worker_id: WorkerId,
        context: WorkerContext,
        knowledge: WorkerKnowledge,
        health: Health,
        *,
        shares_inputs: bool,
        changed: Callable[[], None],
        freed: Callable[[], None],
    ) -> None:
        self._worker_id = worker_id
        self._context = context
        self._knowledge = knowledge
        self._health = health
        self._changed = changed
        self._freed = freed
        self._inputs = (
            None
            if shares_inputs or context.input_folder is None
            else WorkerInputs(context.input_folder, lambda: knowledge.catalog)
        )
        now = context.clock.monotonic()
        self.workload = Workload(context.prefetch, context.clock, freed)
        self.warm = WarmModels()
        self._expected_warm: frozenset[str] | None = None
        self.meter = BusyMeter(now)
        self.idle_since = now
        self.last_active_at: Instant | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, attempt: Attempt, connection: WorkerConnection, *, adopted: bool) -> None:
        """Run an attempt; its end is written by itself."""
        context = self._context
        session = AttemptSession(
            attempt,
            connection,
            store=context.store,
            sink=context.sink,
            clock=context.clock,
            times=context.times,
            account=context.accounts.open(attempt, self._knowledge.machine.device),
            inputs=self._inputs,
            previews=context.previews,
        )
        models = self._knowledge.models_in(attempt.prompt)
        suspect = suspect_of(attempt.tenant, attempt.prompt, models)
        held = Held(attempt.job_id, session, models, suspect)
        # Before the task runs: the scheduler must see at once that the worker is taken.
        self.workload.add(attempt.token, held)
        self._expected_warm = None
        self.meter.set_busy(context.clock.monotonic(), is_busy=True)
        run = self._run(attempt.token, held, connection.client, adopted=adopted)
        self._own(run, f"attempt-{attempt.job_id}")
        self._changed()

    def refuse(self, token: AttemptToken, why: str) -> None:
        """Hand back an attempt that the worker cannot begin; it costs the job nothing."""
        self._own(self._give_back(token, Lost(why, counted=False)), f"give-back-{token}")

    def lose_all(self, cause: str) -> None:
        """The worker has ended. That is one failure, however many jobs it had; and not that of
        jobs which had not begun while another one ran.
        """
        if not self.workload:
            return
        held_ones = list(self.workload.held.values())
        begun = [held for held in held_ones if held.session.has_begun]
        self._health.note_failure(cause, (begun or held_ones)[0].suspect)
        if begun:
            lost = Lost(cause, counted=False)
            self.workload.give_back(lost, only_waiting=True, still_runs=False)
        self.workload.give_back(Lost(cause), only_waiting=False, still_runs=False)

    def return_waiting(self, why: str) -> None:
        """Those that have not begun go back to the queue."""
        self.workload.give_back(Lost(why, counted=False), only_waiting=True, still_runs=True)

    def drop_stale(self, token: AttemptToken) -> None:
        held = self.workload.held.get(token)
        if held is not None:
            held.session.attempt_is_stale()

    def expected_warm(self) -> frozenset[str]:
        """Models in the worker's memory when it has done what it has."""
        if self._expected_warm is None:
            jobs = [held.models for held in self.workload.held.values()]
            machine = self._knowledge.machine
            self._expected_warm = self.warm.expected(
                jobs, machine.video_memory, keeps=machine.keeps_models
            )
        return self._expected_warm

    def note_models(self, models: Mapping[str, int]) -> None:
        """These are in the worker's memory now, as far as there is room."""
        machine = self._knowledge.machine
        warm = self.warm.use(models, machine.video_memory, keeps=machine.keeps_models)
        self._expected_warm = None
        self._context.catalog.note_warm(self._worker_id, warm)

    def forget_models(self) -> None:
        self.warm = WarmModels()
        self._expected_warm = None

    async def leave(self, why: str) -> None:
        """All go back to the queue, without cost to the jobs; return when that is written."""
        self.workload.give_back(Lost(why, counted=False), only_waiting=False, still_runs=True)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def abandon(self) -> None:
        """Stop following; what is stored stays as it is, and the next server goes on with it."""
        self.workload.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _own(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _give_back(self, token: AttemptToken, lost: Lost) -> None:
        try:
            await self._context.store.finish_attempt(token, lost)
        except (StoreUnavailable, StaleAttempt) as error:
            # Its lease runs out, and it goes back to the queue by that.
            log.warning("not_given_back", worker_id=self._worker_id, error=error.message)
        finally:
            self._freed()

    async def _run(
        self, token: AttemptToken, held: Held, client: ComfyClient, *, adopted: bool
    ) -> None:
        clock = self._context.clock
        begun = clock.monotonic()
        seconds: float | None = None
        try:
            await held.session.run(adopted=adopted)
            if isinstance(held.session.outcome, Completed):
                seconds = clock.monotonic() - max(begun, self.idle_since)
            self._note_end(held)
            if self._health.is_blocked:
                self._changed()  # at once: the prompt may take its time to go
            if held.session.outcome is not None and ran_out_of_memory(held.session.outcome):
                await self._free_memory(client)
            await held.session.until_gone()
        except Exception:  # a fault of ours: the lease runs out and the job goes elsewhere
            log.exception("session_failed", job_id=held.job_id, worker_id=self._worker_id)
        finally:
            self.workload.remove(token, seconds)
            self._expected_warm = None
            self.idle_since = clock.monotonic()
            self.last_active_at = clock.now()
            self.meter.set_busy(self.idle_since, is_busy=bool(self.workload))
            self._changed()
            self._freed()

    def _note_end(self, held: Held) -> None:
        if held.session.has_begun or not held.is_given_back:
            self.note_models(held.models)
        outcome = held.session.outcome
        if outcome is not None and not held.is_given_back:
            self._health.note_end(outcome, held.suspect)

    async def _free_memory(self, client: ComfyClient) -> None:
        """What a job that had too little has left behind is in the way of the next one."""
        try:
            await client.free()
        except WorkerError as error:
            log.warning("memory_not_freed", worker_id=self._worker_id, error=error.message)
        else:
            self.forget_models()
            self._context.catalog.note_warm(self._worker_id, frozenset())
