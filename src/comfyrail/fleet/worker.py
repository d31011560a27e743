"""A worker as the fleet knows it: its link, its state, what runs on it."""

import asyncio
import random
from dataclasses import dataclass, field, replace

import aiohttp
import structlog

from comfyrail.clock import Clock, Instant
from comfyrail.errors import StoreUnavailable, WorkerError
from comfyrail.fleet.accounts import Accounts, NoAccounts
from comfyrail.fleet.catalogs import FleetCatalog
from comfyrail.fleet.comfyui.client import QUICK_SECONDS, ComfyClient
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.fleet.description import (
    WorkerDescription,
    ask_for_models,
    describe_machine,
    free_video_memory,
)
from comfyrail.fleet.drivers.interface import WorkerHost
from comfyrail.fleet.outputs import BlobSink
from comfyrail.fleet.session import AttemptSession, SessionTimes
from comfyrail.fleet.warm_models import WarmModels
from comfyrail.ids import AttemptToken, JobId, WorkerId
from comfyrail.jobs.job import Attempt
from comfyrail.jobs.outcome import Lost
from comfyrail.jobs.workers import FreeWorker, WorkerStatus
from comfyrail.store.interface import Store
from comfyrail.store.signals import WORKERS
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import is_large_prompt, parse_workflow
from comfyrail.workflow.models import models_of

log = structlog.get_logger(__name__)

FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class WorkerView:
    """What a caller may see of a worker."""

    id: WorkerId
    driver: str
    endpoint: str | None
    status: WorkerStatus
    current_jobs: tuple[JobId, ...]
    node_types: int
    device: str | None
    memory_total: int | None
    memory_free: int | None
    added_at: Instant
    last_active_at: Instant | None
    error: str | None


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What all workers of a fleet share."""

    store: Store
    catalog: FleetCatalog
    sink: BlobSink
    http: aiohttp.ClientSession
    clock: Clock
    times: SessionTimes
    owner: str
    lease_seconds: float
    accounts: Accounts = field(default_factory=NoAccounts)


class LiveWorker:
    """Keeps one worker connected and runs attempts on it. `run` goes on until it is cancelled."""

    def __init__(
        self, worker_id: WorkerId, host: WorkerHost, added_at: Instant, context: WorkerContext
    ) -> None:
        self.id = worker_id
        self._host = host
        self._added_at = added_at
        self._context = context
        self._connection: WorkerConnection | None = None
        self._ready = False
        self._was_ready = False
        self._is_leaving = False
        self._error: str | None = None
        self._catalog = NodeCatalog()
        self._node_types: frozenset[str] = frozenset()
        self._machine = WorkerDescription()
        self._video_memory_free: int | None = None
        self._warm = WarmModels()
        self._sessions: dict[AttemptToken, tuple[JobId, AttemptSession]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle_since = context.clock.monotonic()
        self._last_active_at: Instant | None = None

    # What others ask

    @property
    def status(self) -> WorkerStatus:
        if self._is_leaving:
            return WorkerStatus.DRAINING
        if self._ready:
            return WorkerStatus.BUSY if self._sessions else WorkerStatus.IDLE
        return WorkerStatus.UNHEALTHY if self._was_ready or self._error else WorkerStatus.STARTING

    def view(self) -> WorkerView:
        return WorkerView(
            id=self.id,
            driver=self._host.driver,
            endpoint=self._connection.client.endpoint if self._connection else None,
            status=self.status,
            current_jobs=tuple(job_id for job_id, _ in self._sessions.values()),
            node_types=len(self._node_types),
            device=self._machine.device,
            memory_total=self._machine.video_memory,
            memory_free=self._video_memory_free,
            added_at=self._added_at,
            last_active_at=self._last_active_at,
            error=self._error,
        )

    def free(self) -> FreeWorker | None:
        if self.status is not WorkerStatus.IDLE:
            return None
        return FreeWorker(self.id, self._node_types, self._idle_since)

    def tokens(self) -> list[AttemptToken]:
        return list(self._sessions)

    def drop_stale(self, token: AttemptToken) -> None:
        if token in self._sessions:
            self._sessions[token][1].attempt_is_stale()

    # Running

    async def run(self) -> None:
        delay = FIRST_RETRY_SECONDS
        while True:
            self._was_ready = False
            try:
                await self._live_once()
            except WorkerError as error:
                self._note_error(error.message)
            except Exception as error:  # a worker must come back after any fault, also of ours
                log.exception("worker_failed", worker_id=self.id)
                self._note_error(f"{type(error).__name__}: {error}")
            delay = FIRST_RETRY_SECONDS if self._was_ready else delay * 2
            await asyncio.sleep(min(LAST_RETRY_SECONDS, delay) * random.uniform(0.5, 1.0))  # noqa: S311 - spread, not secrecy

    def start(self, attempt: Attempt, *, adopted: bool) -> None:
        """Begin an attempt; its end is written by itself and frees the worker."""
        context = self._context
        if self._connection is None:
            lost = Lost("the worker went away before the job began", counted=False)
            work = self._give_back(attempt.token, lost)
        else:
            session = AttemptSession(
                attempt,
                self._connection,
                store=context.store,
                sink=context.sink,
                clock=context.clock,
                times=context.times,
                account=context.accounts.open(attempt, self._machine.device),
            )
            # Before the task runs: the scheduler must see at once that the worker is taken.
            self._sessions[attempt.token] = (attempt.job_id, session)
            work = self._run_session(attempt, session, adopted=adopted)
        task = asyncio.create_task(work, name=f"attempt-{attempt.job_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def refresh(self) -> None:
        """Ask a worker that is up for its nodes and models anew: files come and go."""
        connection = self._connection
        if not self._ready or connection is None:
            return
        try:
            await self._learn_nodes(connection)
            await self._learn_models(connection)
        except (WorkerError, StoreUnavailable) as error:
            log.warning("refresh_failed", worker_id=self.id, error=error.message)
        except Exception:  # what one worker says must not fail the request of whoever asked
            log.exception("refresh_failed", worker_id=self.id)

    async def leave(self) -> None:
        """Take no more jobs; hand the running ones back; let go of the worker."""
        self._is_leaving = True
        for _, session in self._sessions.values():
            lost = Lost("the worker was removed", counted=False)
            session.worker_is_gone(lost, still_runs=True)
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.shut_down()

    async def shut_down(self) -> None:
        """The server stops: the attempts stay as they are, the next server adopts them."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._host.stop()

    async def _live_once(self) -> None:
        """One life of the worker: from its start until it is known to have ended."""
        endpoint = await self._host.start()
        quick = min(QUICK_SECONDS, self._context.times.unreachable_limit / 3)
        client = ComfyClient(endpoint, self._context.http, quick)
        self._connection = WorkerConnection(client, f"comfyrail-{self.id}-{self._added_at}")
        ended = asyncio.create_task(self._host.wait_ended(), name=f"ended-{self.id}")
        linked = asyncio.create_task(self._keep_linked(self._connection), name=f"link-{self.id}")
        try:
            await asyncio.wait({ended, linked}, return_when=asyncio.FIRST_COMPLETED)
            if linked.done():
                linked.result()
            cause = await ended
        finally:
            ended.cancel()
            linked.cancel()
            await asyncio.gather(ended, linked, return_exceptions=True)
            self._set_ready(ready=False)
        self._note_error(cause)
        self._lose_sessions(cause)

    async def _keep_linked(self, connection: WorkerConnection) -> None:
        delay = FIRST_RETRY_SECONDS
        while True:
            models: asyncio.Task[None] | None = None
            try:
                await self._greet(connection)
                models = asyncio.create_task(
                    self._learn_models(connection), name=f"models-{self.id}"
                )
                await connection.follow(opened=lambda: self._set_ready(ready=True))
                delay = FIRST_RETRY_SECONDS
            except (WorkerError, StoreUnavailable) as error:
                self._note_error(error.message)
            finally:
                self._set_ready(ready=False)
                if models is not None:
                    models.cancel()
                    await asyncio.gather(models, return_exceptions=True)
            await asyncio.sleep(delay)
            delay = min(LAST_RETRY_SECONDS, delay * 2)

    async def _greet(self, connection: WorkerConnection) -> None:
        """Learn what the worker is; take over the attempts that an earlier server left on it."""
        context = self._context
        stats = await connection.client.system_stats()
        self._machine = describe_machine(stats, self._machine.models)
        self._video_memory_free = free_video_memory(stats)
        await self._learn_nodes(connection)
        await context.catalog.describe(self.id, self._machine)
        for attempt in await context.store.adopt_attempts(
            self.id, context.owner, context.lease_seconds
        ):
            log.info("attempt_adopted", job_id=attempt.job_id, worker_id=self.id)
            self.start(attempt, adopted=True)
        await self._stop_strays(connection)

    async def _learn_nodes(self, connection: WorkerConnection) -> None:
        object_info = await connection.client.object_info()
        self._catalog = await self._context.catalog.learn(self.id, object_info)
        self._node_types = frozenset(self._catalog.types)

    async def _learn_models(self, connection: WorkerConnection) -> None:
        """Apart from the greeting: some workers take their time to list large folders."""
        try:
            models = await ask_for_models(connection.client, self._machine.models)
            self._machine = replace(self._machine, models=models)
            await self._context.catalog.describe(self.id, self._machine)
        except StoreUnavailable as error:
            log.warning("models_not_remembered", worker_id=self.id, error=error.message)

    async def _stop_strays(self, connection: WorkerConnection) -> None:
        """End prompts of ours that no session follows: their jobs were taken back meanwhile."""
        followed = {session.prompt_id for _, session in self._sessions.values()}
        for prompt_id in await connection.client.prompts_of(connection.client_id):
            if prompt_id not in followed:
                log.warning("stray_prompt_stopped", worker_id=self.id, prompt_id=prompt_id)
                await connection.client.stop_prompt(prompt_id)

    async def _give_back(self, token: AttemptToken, lost: Lost) -> None:
        await self._context.store.finish_attempt(token, lost)

    async def _run_session(
        self, attempt: Attempt, session: AttemptSession, *, adopted: bool
    ) -> None:
        context = self._context
        try:
            await session.run(adopted=adopted)
            self._note_models(attempt)
            await session.until_gone()
        except Exception:  # a fault of ours: the lease runs out and the job goes elsewhere
            log.exception("session_failed", job_id=attempt.job_id, worker_id=self.id)
        finally:
            del self._sessions[attempt.token]
            self._idle_since = context.clock.monotonic()
            self._last_active_at = context.clock.now()
            context.store.signals.notify(WORKERS)

    def _note_models(self, attempt: Attempt) -> None:
        """The job's models are in the worker's memory now, as far as there is room."""
        if not self._ready or is_large_prompt(attempt.prompt):
            return
        found = models_of(parse_workflow(attempt.prompt), self._catalog)
        told = self._context.catalog.model_sizes()
        sizes = {model.name: told.get(f"{model.folder}/{model.name}", 0) for model in found}
        warm = self._warm.use(sizes, self._machine.video_memory)
        self._context.catalog.note_warm(self.id, warm)

    def _lose_sessions(self, cause: str) -> None:
        for _, session in self._sessions.values():
            session.worker_is_gone(Lost(cause))

    def _set_ready(self, *, ready: bool) -> None:
        if ready == self._ready:
            return
        self._ready = ready
        self._warm = WarmModels()
        self._context.catalog.note_online(self.id, online=ready)
        if ready:
            self._was_ready = True
            self._error = None
            log.info("worker_ready", worker_id=self.id, node_types=len(self._node_types))
        self._context.store.signals.notify(WORKERS)

    def _note_error(self, message: str) -> None:
        if message != self._error:
            log.warning("worker_trouble", worker_id=self.id, error=message)
        self._error = message
