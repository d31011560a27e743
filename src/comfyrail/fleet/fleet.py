"""All workers together."""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence

from comfyrail.clock import Instant
from comfyrail.errors import WorkerNotFound
from comfyrail.fleet.drivers.interface import WorkerHost
from comfyrail.fleet.worker import LiveWorker, WorkerContext, WorkerView
from comfyrail.ids import AttemptToken, WorkerId
from comfyrail.jobs.job import Attempt
from comfyrail.jobs.outcome import Lost
from comfyrail.jobs.workers import FreeWorker
from comfyrail.workflow.capabilities import WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.catalog_merge import Difference

REFRESHED_AT_ONCE = 8
REFRESH_LIMIT_SECONDS = 5.0
REFRESH_SECONDS = 10.0
"""Between two times that a refused workflow makes the fleet look for new nodes and models."""


class Fleet:
    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._workers: dict[WorkerId, LiveWorker] = {}
        self._tasks: dict[WorkerId, asyncio.Task[None]] = {}
        self._refreshing = asyncio.Lock()
        self._refreshed_at = -REFRESH_SECONDS
        self._rounds = 0

    @property
    def catalog(self) -> NodeCatalog:
        return self._context.catalog.merged

    @property
    def capabilities(self) -> Sequence[WorkerCapabilities]:
        """Every known worker with what it can run; the same object until something changes."""
        return self._context.catalog.capabilities()

    @property
    def model_sizes(self) -> Mapping[str, int]:
        return self._context.catalog.model_sizes()

    @property
    def differences(self) -> Sequence[Difference]:
        return self._context.catalog.differences()

    async def refresh(self) -> bool:
        """Ask all workers anew, unless that was just done; whether anything can have changed since
        the call.
        """
        round_before = self._rounds
        async with self._refreshing:
            if self._rounds != round_before:
                return True  # it was done while this one waited for its turn
            now = self._context.clock.monotonic()
            if now - self._refreshed_at < REFRESH_SECONDS:
                return False
            before = self.catalog, self.capabilities
            turns = asyncio.Semaphore(REFRESHED_AT_ONCE)

            async def refresh(worker: LiveWorker) -> None:
                async with turns:
                    await worker.refresh()

            with contextlib.suppress(TimeoutError):
                # Whoever waits for this has been refused: a slow worker must not hold it up.
                async with asyncio.timeout(REFRESH_LIMIT_SECONDS):
                    await asyncio.gather(*(refresh(each) for each in self._workers.values()))
            self._refreshed_at = self._context.clock.monotonic()
            self._rounds += 1
            catalog, capabilities = before
            return catalog is not self.catalog or capabilities is not self.capabilities

    def add(self, worker_id: WorkerId, host: WorkerHost, added_at: Instant) -> None:
        """Begin to connect to a worker, and keep at it."""
        self._context.catalog.expect(worker_id)
        worker = LiveWorker(worker_id, host, added_at, self._context)
        self._workers[worker_id] = worker
        self._tasks[worker_id] = asyncio.create_task(worker.run(), name=f"worker-{worker_id}")

    async def remove(self, worker_id: WorkerId) -> None:
        """Let go of a worker; its running jobs go back to the queue."""
        worker = self._find(worker_id)
        await self._end_task(worker_id)
        await worker.leave()
        del self._workers[worker_id]
        self._context.catalog.forget(worker_id)

    def view(self, worker_id: WorkerId) -> WorkerView:
        return self._find(worker_id).view()

    def views(self) -> Sequence[WorkerView]:
        return [worker.view() for worker in self._workers.values()]

    def load_of(self, worker_id: WorkerId | None) -> float:
        """How much the others on its machine slow a worker down: 0 where it has a core to itself.

        Only those that the server has started are known to share a machine.
        """
        views = [worker.view() for worker in self._workers.values()]
        busy = [view for view in views if view.driver == "local" and view.current_jobs]
        if all(view.id != worker_id for view in busy):
            return 0.0
        return max(0.0, len(busy) / (os.cpu_count() or 1) - 1)

    def free_workers(self) -> Sequence[FreeWorker]:
        return [free for worker in self._workers.values() if (free := worker.free()) is not None]

    async def start(self, attempts: Sequence[Attempt]) -> None:
        """Run attempts that were just begun in the store, each on its worker."""
        for attempt in attempts:
            worker = self._workers.get(attempt.worker_id)
            if worker is not None:
                worker.start(attempt, adopted=False)
            else:
                lost = Lost("the worker was removed before the job began", counted=False)
                await self._context.store.finish_attempt(attempt.token, lost)

    def running_tokens(self) -> list[AttemptToken]:
        return [token for worker in self._workers.values() for token in worker.tokens()]

    def drop_stale(self, tokens: Sequence[AttemptToken]) -> None:
        """Stop the sessions whose attempts are no longer ours."""
        for worker in self._workers.values():
            for token in tokens:
                worker.drop_stale(token)

    async def shut_down(self) -> None:
        """Stop following, in this order: a worker that ends is not started again."""
        await asyncio.gather(*(self._end_task(worker_id) for worker_id in list(self._tasks)))
        await asyncio.gather(*(worker.shut_down() for worker in self._workers.values()))

    async def _end_task(self, worker_id: WorkerId) -> None:
        task = self._tasks.pop(worker_id, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _find(self, worker_id: WorkerId) -> LiveWorker:
        if worker_id not in self._workers:
            raise WorkerNotFound(
                f"There is no worker '{worker_id}'. See the list of workers for their ids.",
                details={"worker_id": worker_id, "known": sorted(self._workers)},
            )
        return self._workers[worker_id]
