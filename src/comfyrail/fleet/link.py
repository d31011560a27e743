"""The link to a worker that is there: greeting it, serving it, and linking again when it drops."""

import asyncio
from collections.abc import Callable

import structlog

from comfyrail.errors import ComfyrailError, StoreUnavailable, WorkerError
from comfyrail.fleet.attempts import Attempts
from comfyrail.fleet.caretaker import Caretaker
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.fleet.context import WorkerContext
from comfyrail.fleet.knowledge import WorkerKnowledge
from comfyrail.fleet.watchdog import Watchdog
from comfyrail.ids import WorkerId

log = structlog.get_logger(__name__)

FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 5.0


class WorkerLink:
    """`set_ready` is told when the worker takes jobs and when not; `learned` that what it can run
    may have changed.
    """

    def __init__(
        self,
        worker_id: WorkerId,
        context: WorkerContext,
        knowledge: WorkerKnowledge,
        attempts: Attempts,
        caretaker: Caretaker,
        *,
        set_ready: Callable[[bool], None],
        note_error: Callable[[str, ComfyrailError], None],
        learned: Callable[[], None],
    ) -> None:
        self._worker_id = worker_id
        self._context = context
        self._knowledge = knowledge
        self._attempts = attempts
        self._caretaker = caretaker
        self._set_ready = set_ready
        self._note_error = note_error
        self._learned = learned

    async def keep(self, connection: WorkerConnection, watchdog: Watchdog) -> None:
        """Goes on until it is cancelled, or a fault of ours."""
        delay = FIRST_RETRY_SECONDS
        while True:
            await watchdog.until_trusted()
            tasks: list[asyncio.Task[None]] = []
            try:
                await self._greet(connection)
                opened = asyncio.Event()
                tasks = [
                    asyncio.create_task(work, name=f"{what}-{self._worker_id}")
                    for what, work in (
                        ("models", self._learn_models(connection)),
                        ("care", self._serve(connection, opened)),
                    )
                ]
                await connection.follow(opened=opened.set)
                delay = FIRST_RETRY_SECONDS
            except (WorkerError, StoreUnavailable) as error:
                self._note_error(error.message, error)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._set_ready(False)
            await asyncio.sleep(delay)
            delay = min(LAST_RETRY_SECONDS, delay * 2)

    async def _serve(self, connection: WorkerConnection, opened: asyncio.Event) -> None:
        await opened.wait()
        await self._caretaker.prepare(connection)
        self._set_ready(True)
        await self._caretaker.look_after(connection)

    async def _greet(self, connection: WorkerConnection) -> None:
        """Learn what the worker is; take over the attempts that an earlier server left on it."""
        context = self._context
        await self._knowledge.ask_for_figures(connection)
        await self._knowledge.ask_for_nodes(connection)
        for attempt in await context.store.adopt_attempts(
            self._worker_id, context.owner, context.lease_seconds
        ):
            log.info("attempt_adopted", job_id=attempt.job_id, worker_id=self._worker_id)
            self._attempts.begin(attempt, connection, adopted=True)
        await self.stop_strays(connection)

    async def _learn_models(self, connection: WorkerConnection) -> None:
        await self._knowledge.ask_for_models(connection)
        self._learned()

    async def stop_strays(self, connection: WorkerConnection) -> None:
        """End prompts of ours that no session follows: their jobs were taken back meanwhile.
        Raises WorkerError.
        """
        followed = {
            held.session.prompt_id
            for held in self._attempts.workload.held.values()
            if not held.is_given_back
        }
        for prompt_id in await connection.client.prompts_of(connection.first_client_id):
            if prompt_id not in followed:
                log.warning("stray_prompt_stopped", worker_id=self._worker_id, prompt_id=prompt_id)
                # It may wait in the worker's queue: an interrupt could hit what runs there.
                await connection.client.stop_prompt(prompt_id, may_wait=True)
