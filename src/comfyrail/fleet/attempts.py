"""The attempts on one worker: begun, followed to their end, and what their end says of it."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from comfyrail.clock import Instant
from comfyrail.errors import StaleAttempt, StoreUnavailable, WorkerError
from comfyrail.fleet.classification import MODEL_MISSING, NODE_TYPE_MISSING
from comfyrail.fleet.company import Company
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.fleet.context import WorkerContext
from comfyrail.fleet.figures import BusyMeter
from comfyrail.fleet.health import Health, ran_out_of_memory
from comfyrail.fleet.inputs import WorkerInputs
from comfyrail.fleet.knowledge import WorkerKnowledge
from comfyrail.fleet.model_breakers import models_to_blame
from comfyrail.fleet.remedies import Remedies, no_trouble
from comfyrail.fleet.session import AttemptSession
from comfyrail.fleet.suspects import suspect_of
from comfyrail.fleet.tenant_marks import mark_prompt
from comfyrail.fleet.warm_models import WarmModels
from comfyrail.fleet.workload import Held, Workload
from comfyrail.ids import AttemptToken, WorkerId
from comfyrail.jobs.job import Attempt
from comfyrail.jobs.outcome import Completed, Failed, Lost, Outcome

log = structlog.get_logger(__name__)

ASK_AGAIN_SECONDS = 10.0
"""Between two times that a worker is asked what it has because it lacks what it told of."""
_LACKS = frozenset((MODEL_MISSING, NODE_TYPE_MISSING))


@dataclass(frozen=True, slots=True)
class _Run:
    """An attempt under way. `needed`: the models by which it was placed; `probed`: those of them
    of which it is the one try.
    """

    held: Held
    needed: frozenset[str]
    connection: WorkerConnection
    is_adopted: bool
    probed: frozenset[str]


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
        self.is_cautious = False
        """It was lost, or seemed to be, with jobs of which nobody knows which one ran: until one
        has succeeded it takes one at a time, so that the next time it will be known.
        """
        self._company = Company()
        self.warm = WarmModels()
        self._expected_warm: frozenset[str] | None = None
        self.meter = BusyMeter(now)
        self.idle_since = now
        self.last_active_at: Instant | None = None
        self._remedies = Remedies(
            worker_id,
            lambda: knowledge.machine.video_memory,
            context.mender,
            context.is_disk_in_trouble if shares_inputs else no_trouble,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._model_timer: asyncio.TimerHandle | None = None
        self._asked_at = -ASK_AGAIN_SECONDS

    def begin(self, attempt: Attempt, connection: WorkerConnection, *, adopted: bool) -> None:
        """Run an attempt; its end is written by itself. One with a model that is just being tried
        again by another goes back: it was given before that was known.
        """
        context = self._context
        # By the names that placement goes by: with others, what is refused here would be given to
        # the worker again and again.
        if not adopted and self._health.models.refuses(attempt.models):
            self.refuse(attempt.token, "a model of it fails to load on the worker")
            return
        models = self._knowledge.models_in(attempt.prompt)

        def models_of_node(node_id: str) -> Mapping[str, int]:
            return self._knowledge.models_in(_node_of(attempt.prompt, node_id))

        seat = self._company.join(runs_alone=attempt.runs_alone)
        begun = context.clock.monotonic()
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
            remedies=self._remedies,
            models_of=models_of_node,
            mark=lambda prompt: mark_prompt(
                prompt, attempt.tenant, self._knowledge.catalog, models_of_node
            ),
            seat=seat,
            secrets=context.secrets,
            converter=context.converter,
            left=lambda: self._note_left(attempt.token, begun),
        )
        suspect = suspect_of(attempt.tenant, attempt.prompt, models)
        held = Held(attempt.job_id, session, models, suspect, seat)
        # Before the task runs: the scheduler must see at once that the worker is taken.
        self.workload.add(attempt.token, held)
        self._expected_warm = None
        self.meter.set_busy(context.clock.monotonic(), is_busy=True)
        probed = self._health.models.begin(attempt.models)
        run = _Run(held, attempt.models, connection, adopted, probed)
        self._own(self._run(attempt.token, run), f"attempt-{attempt.job_id}")
        self.note_model_health()
        self._changed()

    def refuse(self, token: AttemptToken, why: str) -> None:
        """Hand back an attempt that the worker cannot begin; it costs the job nothing."""
        lost = Lost(why, counted=False, has_begun=False)
        self._own(self._give_back(token, lost), f"give-back-{token}")

    def lose_all(self, cause: str) -> None:
        """The worker has ended. That is a failure where it is certain which job it had; where
        several may have run, neither they nor the worker are to blame.
        """
        for held in self.workload.held.values():
            is_there = not held.has_left and not held.session.is_over
            if is_there and held.seat.is_certain:
                self._health.note_failure(cause, held.suspect)
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
            jobs = [held.models for held in self.workload.held.values() if not held.has_left]
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

    def trust_all_models(self) -> None:
        """The worker has been started anew: whoever did that may have mended its files."""
        self._health.models.forget()
        self.note_model_health()

    def note_model_health(self) -> None:
        """See that the worker gets no jobs with models that fail to load there, and gets one of
        them when the rest is over.
        """
        models = self._health.models
        if self._knowledge.refuse_models(models.refused()):
            self._changed()
        self._stop_model_timer()
        seconds = models.seconds_until_probe()
        if seconds is not None:
            loop = asyncio.get_running_loop()
            self._model_timer = loop.call_later(seconds, self._try_models_again)

    def _try_models_again(self) -> None:
        self._model_timer = None
        self.note_model_health()
        self._freed()

    def _stop_model_timer(self) -> None:
        if self._model_timer is not None:
            self._model_timer.cancel()
            self._model_timer = None

    async def leave(self, why: str) -> None:
        """All go back to the queue, without cost to the jobs; return when that is written."""
        self.workload.give_back(Lost(why, counted=False), only_waiting=False, still_runs=True)
        for held in self.workload.held.values():
            if held.has_left:
                held.session.hurry()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def abandon(self) -> None:
        """Stop following; what is stored stays as it is, and the next server goes on with it."""
        self.workload.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._stop_model_timer()

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

    async def _run(self, token: AttemptToken, run: _Run) -> None:
        clock, held = self._context.clock, run.held
        begun = clock.monotonic()
        seconds: float | None = None
        try:
            try:
                await held.session.run(adopted=run.is_adopted)
            finally:
                self._note_end(run)
            if isinstance(held.session.outcome, Completed):
                seconds = clock.monotonic() - max(begun, self.idle_since)
            if self._health.is_blocked:
                self._changed()  # at once: the prompt may take its time to go
            await self._care_after(held.session.outcome, run.connection)
            await held.session.until_gone()
        except Exception:  # a fault of ours: the lease runs out and the job goes elsewhere
            log.exception("session_failed", job_id=held.job_id, worker_id=self._worker_id)
        finally:
            has_left = held.has_left
            if not has_left:
                held.seat.leave()
            self.workload.remove(token, seconds)
            if has_left:
                self._changed()
            else:
                self._note_free()

    def _note_left(self, token: AttemptToken, begun: float) -> None:
        """The worker has done its part: it may have another job, whatever becomes of this one."""
        held = self.workload.held.get(token)
        if held is None or held.has_left:
            return
        held.seat.leave()
        self.note_models(held.models)
        self.workload.let_go(token, self._context.clock.monotonic() - max(begun, self.idle_since))
        self._note_free()

    def _note_free(self) -> None:
        """It has one job less than before."""
        clock = self._context.clock
        self._expected_warm = None
        self.idle_since = clock.monotonic()
        self.last_active_at = clock.now()
        self.meter.set_busy(self.idle_since, is_busy=bool(self.workload))
        self._changed()
        self._freed()

    def _note_end(self, run: _Run) -> None:
        held = run.held
        self._note_certainty(held)
        outcome = None if held.is_given_back else held.session.outcome
        if held.session.has_begun or not held.is_given_back:
            blamed = models_to_blame(outcome)
            loaded = {name: size for name, size in held.models.items() if name not in blamed}
            self.note_models(loaded)
        if outcome is not None:
            self._health.note_end(outcome, held.suspect)
        models = {*held.models, *run.needed}
        self._health.models.note_end(models, run.probed, outcome, held.suspect)
        self.note_model_health()

    def _note_certainty(self, held: Held) -> None:
        outcome = held.session.outcome
        if isinstance(outcome, Completed):
            self.is_cautious = False
        elif isinstance(outcome, Lost) and outcome.is_suspect and not held.seat.is_certain:
            self.is_cautious = True

    async def _care_after(self, outcome: Outcome | None, connection: WorkerConnection) -> None:
        """What an end leaves to be done on the worker, and to be learned of it."""
        if not isinstance(outcome, Failed):
            return
        if ran_out_of_memory(outcome):
            await self._free_memory(connection)
        if outcome.fault.code in _LACKS:
            await self._ask_what_it_has(connection)

    async def _free_memory(self, connection: WorkerConnection) -> None:
        """What a job that had too little has left behind is in the way of the next one."""
        try:
            await connection.client.free()
        except WorkerError as error:
            log.warning("memory_not_freed", worker_id=self._worker_id, error=error.message)
        else:
            self.forget_models()
            self._context.catalog.note_warm(self._worker_id, frozenset())

    async def _ask_what_it_has(self, connection: WorkerConnection) -> None:
        """It lacks a node type or a model that it has told of: files come and go."""
        now = self._context.clock.monotonic()
        if now - self._asked_at < ASK_AGAIN_SECONDS:
            return
        self._asked_at = now
        try:
            await self._knowledge.ask_for_nodes(connection)
            await self._knowledge.ask_for_models(connection)
        except (WorkerError, StoreUnavailable) as error:
            log.warning("not_asked_again", worker_id=self._worker_id, error=error.message)


def _node_of(prompt: Mapping[str, Any], node_id: str) -> Mapping[str, Any]:
    """The one node of a graph, as a graph; empty where it has none of this id."""
    return {node_id: prompt[node_id]} if node_id in prompt else {}
