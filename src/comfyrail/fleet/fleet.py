"""All workers together."""

import asyncio
from collections.abc import Sequence

from comfyrail.clock import Instant
from comfyrail.errors import WorkerNotFound
from comfyrail.fleet.drivers.interface import WorkerHost
from comfyrail.fleet.worker import LiveWorker, WorkerContext, WorkerView
from comfyrail.ids import AttemptToken, WorkerId
from comfyrail.jobs.job import Attempt
from comfyrail.jobs.outcome import Lost
from comfyrail.jobs.workers import FreeWorker
from comfyrail.workflow.catalog import NodeCatalog


class Fleet:
    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._workers: dict[WorkerId, LiveWorker] = {}
        self._tasks: dict[WorkerId, asyncio.Task[None]] = {}

    @property
    def catalog(self) -> NodeCatalog:
        return self._context.catalog.merged

    def add(self, worker_id: WorkerId, host: WorkerHost, added_at: Instant) -> None:
        """Begin to connect to a worker, and keep at it."""
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
