"""All workers together."""

import asyncio
import contextlib
import os
from collections.abc import Collection, Mapping, Sequence

from comfyrail.clock import Instant
from comfyrail.errors import WorkerNotFound
from comfyrail.fleet.context import WorkerContext
from comfyrail.fleet.counting import count_figures
from comfyrail.fleet.drivers.interface import WorkerHost, ends_with_server
from comfyrail.fleet.figures import FleetFigures
from comfyrail.fleet.knowledge import profile_of
from comfyrail.fleet.offers import Offers
from comfyrail.fleet.traits import WorkerTraits
from comfyrail.fleet.view import WorkerView
from comfyrail.fleet.worker import LiveWorker
from comfyrail.ids import AttemptToken, JobId, WorkerId
from comfyrail.jobs.job import Attempt
from comfyrail.jobs.outcome import Lost
from comfyrail.jobs.workers import SchedulableWorker, WorkerProfile
from comfyrail.workflow.capabilities import WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.catalog_merge import Difference

KNOWN_IN_ERRORS = 100
REFRESHED_AT_ONCE = 8
REFRESH_LIMIT_SECONDS = 5.0
REFRESH_SECONDS = 10.0
"""Between two times that a refused workflow makes the fleet look for new nodes and models."""


class Fleet:
    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._workers: dict[WorkerId, LiveWorker] = {}
        self._tasks: dict[WorkerId, asyncio.Task[None]] = {}
        self._members: dict[str, dict[WorkerId, LiveWorker]] = {}
        self._offers = Offers(context.clock)
        self._busy_here: set[WorkerId] = set()
        self._ending: set[WorkerId] = set()
        """Those that cannot outlive the server."""
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

    def add(
        self,
        worker_id: WorkerId,
        host: WorkerHost,
        added_at: Instant,
        traits: WorkerTraits | None = None,
        *,
        is_cordoned: bool = False,
        is_drained: bool = False,
    ) -> None:
        """Begin to connect to a worker, and keep at it; one that was drained waits, stopped, until
        it is resumed.
        """
        self._context.catalog.expect(worker_id)
        worker = LiveWorker(
            worker_id,
            host,
            added_at,
            self._context,
            traits,
            is_cordoned=is_cordoned,
            is_drained=is_drained,
            changed=self._note_change,
            has_others=self._has_others,
        )
        self._workers[worker_id] = worker
        if ends_with_server(host):
            self._ending.add(worker_id)
        if worker.traits.pool is not None:
            self._members.setdefault(worker.traits.pool, {})[worker_id] = worker
        self._tasks[worker_id] = asyncio.create_task(worker.run(), name=f"worker-{worker_id}")

    async def remove(self, worker_id: WorkerId) -> None:
        """Let go of a worker, and end it if it is ours to end; its running jobs go back to the
        queue. Raises WorkerError when it cannot be ended: it is still there then.
        """
        worker = self.find(worker_id)
        await self._end_task(worker_id)
        await worker.leave()
        del self._workers[worker_id]
        if worker.traits.pool is not None:
            self._members.get(worker.traits.pool, {}).pop(worker_id, None)
        self._offers.forget(worker_id)
        self._busy_here.discard(worker_id)
        self._ending.discard(worker_id)

    async def cordon(self, worker_id: WorkerId) -> None:
        """Give a worker no new jobs, also after a restart; it keeps those that it has."""
        await self._set_cordon(worker_id, is_cordoned=True)

    async def drain(self, worker_id: WorkerId) -> None:
        """Give a worker no new jobs, take back those that have not begun, let it end the others
        and stop it then. One of a pool goes away; another one waits to be resumed, also after a
        restart.
        """
        worker = self.find(worker_id)
        if worker.traits.pool is None:
            await self._context.store.drain_worker(worker_id, is_drained=True)
            worker.cordon(is_cordoned=True)
        worker.drain()

    async def resume(self, worker_id: WorkerId) -> None:
        """Take a worker back that was drained or cordoned, or try again one that has failed."""
        worker = self.find(worker_id)
        await self._context.store.drain_worker(worker_id, is_drained=False)
        worker.cordon(is_cordoned=False)
        worker.resume()

    async def logs(self, worker_id: WorkerId, lines: int) -> str:
        """The last lines of a worker's log. Raises WorkerError where there is none to be had."""
        return await self.find(worker_id).logs(lines)

    def can_remove_outputs(self, worker_id: WorkerId) -> bool:
        """Whether what a run has saved on the worker can be removed from here."""
        return self.find(worker_id).can_remove_outputs

    async def remove_outputs(self, worker_id: WorkerId, folder: str) -> bool:
        """Remove a folder below a worker's outputs. Raises WorkerError where that fails."""
        return await self.find(worker_id).remove_outputs(folder)

    def view(self, worker_id: WorkerId) -> WorkerView:
        return self.find(worker_id).view()

    def views(self) -> Sequence[WorkerView]:
        return [worker.view() for worker in self._workers.values()]

    def owner_of(self, place: str) -> WorkerId | None:
        """The worker that is at this place (a host's, or a URL), by whichever spelling."""
        return self._context.places.owner_of(place)

    def figures(self) -> FleetFigures:
        """Of all workers, and of each pool."""
        now = self._context.clock.monotonic()
        return count_figures(self._workers.values(), self._members, now)

    def load_of(self, worker_id: WorkerId | None) -> float:
        """How much the others on its machine slow a worker down: 0 where it has a core to itself.

        Only those that the server has started are known to share a machine.
        """
        if worker_id not in self._busy_here:
            return 0.0
        return max(0.0, len(self._busy_here) / (os.cpu_count() or 1) - 1)

    def schedulable_workers(self) -> Sequence[SchedulableWorker]:
        """Workers that take jobs, busy ones too. The same object until something changes."""
        return self._offers.get()

    async def start(self, attempts: Sequence[Attempt]) -> None:
        """Run attempts that were just begun in the store, each on its worker."""
        for attempt in attempts:
            worker = self._workers.get(attempt.worker_id)
            if worker is not None:
                worker.start(attempt)
            else:
                why = "the worker was removed before the job began"
                lost = Lost(why, counted=False, has_begun=False)
                await self._context.store.finish_attempt(attempt.token, lost)

    def running_tokens(self) -> list[AttemptToken]:
        return [token for worker in self._workers.values() for token in worker.tokens()]

    def drop_stale(self, tokens: Collection[AttemptToken]) -> None:
        """Stop the sessions whose attempts are no longer ours."""
        stale = frozenset(tokens)
        if not stale:
            return
        for worker in self._workers.values():
            for token in worker.tokens():
                if token in stale:
                    worker.attempts.drop_stale(token)

    # What a shutdown asks, of workers that end with the server

    def ending_jobs(self) -> list[JobId]:
        """The jobs on them that have not ended."""
        return [
            job_id
            for worker_id in self._ending
            for job_id in self._workers[worker_id].attempts.workload.jobs
        ]

    def return_waiting(self, why: str) -> None:
        """Those that have not begun go back to the queue."""
        for worker_id in self._ending:
            self._workers[worker_id].attempts.return_waiting(why)

    def give_up_jobs(self, why: str) -> None:
        """All go back to the queue, without cost to the jobs: their workers are about to end."""
        lost = Lost(why, counted=False)
        for worker_id in self._ending:
            workload = self._workers[worker_id].attempts.workload
            workload.give_back(lost, only_waiting=False, still_runs=False)

    async def shut_down(self) -> None:
        """Stop following, in this order: a worker that ends is not started again."""
        await asyncio.gather(*(self._end_task(worker_id) for worker_id in list(self._tasks)))
        await asyncio.gather(*(worker.shut_down() for worker in self._workers.values()))

    def find(self, worker_id: WorkerId) -> LiveWorker:
        """Raises WorkerNotFound."""
        if worker_id not in self._workers:
            known = sorted(self._workers)[:KNOWN_IN_ERRORS]
            raise WorkerNotFound(
                f"There is no worker '{worker_id}'. See the list of workers for their ids.",
                details={"worker_id": worker_id, "known": known},
            )
        return self._workers[worker_id]

    # What pools ask

    def has(self, worker_id: WorkerId) -> bool:
        return worker_id in self._workers

    def members(self, pool: str) -> Sequence[LiveWorker]:
        return list(self._members.get(pool, {}).values())

    def open_pool(self, name: str, likeness: WorkerId) -> None:
        """Count a pool that may have no workers; remember what it can run under its likeness."""
        self._members.setdefault(name, {})
        self._context.catalog.expect_likeness(likeness)

    def close_pool(self, name: str, likeness: WorkerId) -> None:
        """All of its workers have been removed."""
        self._members.pop(name, None)
        self.forget(likeness)

    def forget(self, worker_id: WorkerId) -> None:
        """Nothing is to be remembered of a worker that is not here, or of a likeness."""
        self._context.catalog.forget(worker_id)
        self._context.profiles.take_back(worker_id)

    def remembered_profile(
        self, likeness: WorkerId, labels: Mapping[str, str]
    ) -> WorkerProfile | None:
        """What workers like this can run, also when there is none; None: never seen."""
        known = self._context.profiles.find(likeness)
        if known is not None:
            return known
        remembered = self._context.catalog.remembered(likeness)
        if remembered is None:
            return None
        return profile_of(self._context, likeness, *remembered, labels)

    async def _set_cordon(self, worker_id: WorkerId, *, is_cordoned: bool) -> None:
        worker = self.find(worker_id)
        # First what can fail: what is not on disk would be forgotten by the next server.
        await self._context.store.cordon_worker(worker_id, is_cordoned=is_cordoned)
        worker.cordon(is_cordoned=is_cordoned)

    def _note_change(self, worker: LiveWorker) -> None:
        if self._workers.get(worker.id) is not worker:
            return
        self._offers.note_change(worker)
        if worker.driver == "local":
            if worker.attempts.workload:
                self._busy_here.add(worker.id)
            else:
                self._busy_here.discard(worker.id)

    def _has_others(self, worker: LiveWorker) -> bool:
        """Whether another worker takes jobs that could run all that this one can."""
        own = worker.knowledge.profile
        return own is not None and any(
            offer.id != worker.id and _replaces(offer.profile, own) for offer in self._offers.get()
        )

    async def _end_task(self, worker_id: WorkerId) -> None:
        task = self._tasks.pop(worker_id, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _replaces(profile: WorkerProfile, other: WorkerProfile) -> bool:
    return profile is other or (
        profile.node_types >= other.node_types
        and (profile.video_memory or 0) >= (other.video_memory or 0)
        and profile.refused_models <= other.refused_models
        and all(profile.models.get(name, models) >= models for name, models in other.models.items())
    )
