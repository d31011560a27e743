"""Looks after a worker while it is linked: its warm-up, its checks, its probes [5.5, 5.8]."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog

from comfyrail.errors import ComfyrailError
from comfyrail.fleet.attempts import Attempts
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.fleet.context import WorkerContext
from comfyrail.fleet.health import Health
from comfyrail.fleet.knowledge import WorkerKnowledge
from comfyrail.fleet.warm_up import Prompt, run_prompt, trial_prompt
from comfyrail.ids import WorkerId

log = structlog.get_logger(__name__)

DOUBT_SECONDS = 0.25
"""How often is looked whether others have shown meanwhile whose fault it was."""


class Caretaker:
    """`changed` is called when the worker is trusted more or less than before; `has_others` says
    whether there are workers to which its jobs can go.
    """

    def __init__(
        self,
        worker_id: WorkerId,
        context: WorkerContext,
        knowledge: WorkerKnowledge,
        health: Health,
        attempts: Attempts,
        warm_up: Prompt | None,
        changed: Callable[[], None],
        has_others: Callable[[], bool],
    ) -> None:
        self._worker_id = worker_id
        self._rules = context.health
        self._warm_up_limit = context.warm_up_limit
        self._knowledge = knowledge
        self._health = health
        self._attempts = attempts
        self._warm_up = warm_up
        self._is_warmed_up = warm_up is None
        self._changed = changed
        self._has_others = has_others
        self._news = asyncio.Event()
        self._connection: WorkerConnection | None = None

    def wake(self) -> None:
        """Something was learned of its health."""
        if self._health.is_blocked:
            self._attempts.return_waiting("the worker is no longer trusted with jobs")
        self._attempts.note_model_health()
        self._news.set()

    async def prepare(self, connection: WorkerConnection) -> None:
        """Warm up a worker that has just come up. One that has jobs is warm; one whose warm-up
        fails is not trusted with jobs until it has succeeded.
        """
        self._note_life(connection)
        if self._warm_up is None or self._attempts.workload or self._health.is_blocked:
            return
        self._is_warmed_up = False
        try:
            await self._run_warm_up(connection, self._warm_up)
        except ComfyrailError as error:
            log.warning("warm_up_failed", worker_id=self._worker_id, error=error.message)
            self._health.block(f"The warm-up failed. {error.message}")
            self._changed()

    def _note_life(self, connection: WorkerConnection) -> None:
        """A connection is made anew when the worker is, and kept when merely its line broke."""
        is_another = self._connection is not None and connection is not self._connection
        self._connection = connection
        if is_another:
            self._attempts.trust_all_models()

    async def look_after(self, connection: WorkerConnection) -> None:
        """Check an idle worker now and then; probe one that is blocked when its rest is over."""
        while True:
            rest = self._seconds_until_look()
            pause = min(rest, DOUBT_SECONDS) if self._health.is_in_doubt else rest
            self._news.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._news.wait()
            except TimeoutError:
                if pause == rest:
                    await self._look(connection)

    def _seconds_until_look(self) -> float:
        rest = self._health.seconds_until_probe
        if rest is None:
            # Spread: a thousand workers that came up together need not be asked together.
            return self._rules.check_seconds * random.uniform(0.75, 1.25)  # noqa: S311
        must_clear_itself = self._trial() is not None and not self._has_others()
        if self._health.is_acquitted or (self._health.is_in_doubt and must_clear_itself):
            return 0.0
        return rest

    async def _look(self, connection: WorkerConnection) -> None:
        was_blocked = self._health.is_blocked
        if was_blocked:
            await self._attempts.workload.until_empty()
            problem = await self._problem_of(self._probe, connection)
            self._health.note_probe(problem, ran_a_prompt=self._trial() is not None)
            log.info("worker_probed", worker_id=self._worker_id, blocked=self._health.is_blocked)
        elif not self._attempts.workload:
            self._health.note_check(
                await self._problem_of(self._knowledge.ask_for_figures, connection)
            )
        if was_blocked != self._health.is_blocked:
            self._changed()

    async def _probe(self, connection: WorkerConnection) -> None:
        await self._knowledge.ask_for_figures(connection)
        await self._knowledge.ask_for_nodes(connection)
        if self._warm_up is not None and not self._is_warmed_up:
            await self._run_warm_up(connection, self._warm_up)
            return
        prompt = self._trial()
        if prompt is not None:
            await run_prompt(connection, prompt, self._rules.probe_limit)

    def _trial(self) -> Prompt | None:
        return trial_prompt(self._knowledge.catalog)

    async def _run_warm_up(self, connection: WorkerConnection, prompt: Prompt) -> None:
        log.info("warm_up_begun", worker_id=self._worker_id)
        await run_prompt(connection, prompt, self._warm_up_limit)
        self._is_warmed_up = True
        self._attempts.note_models(self._knowledge.models_in(prompt))

    async def _problem_of(
        self, work: Callable[[WorkerConnection], Awaitable[None]], connection: WorkerConnection
    ) -> str | None:
        """What went wrong, in words; None when nothing did."""
        try:
            await work(connection)
        except ComfyrailError as error:
            return error.message
        except Exception as error:  # what one worker says must not end its care
            log.exception("care_failed", worker_id=self._worker_id)
            return f"{type(error).__name__}: {error}"
        return None
