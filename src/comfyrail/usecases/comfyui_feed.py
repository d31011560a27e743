"""What happens to the jobs of one of ComfyUI's clients, live, for as long as it listens.

ComfyUI tells only who is connected at that moment. Here a client that comes back, or connects after
it has submitted, is told of its open jobs from their beginning, and of those that ended while it
was away, a few minutes long.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock
from comfyrail.errors import JobNotFound, StoreUnavailable
from comfyrail.fleet.previews import Preview, Previews
from comfyrail.ids import JobId, TenantId
from comfyrail.jobs.events import Event
from comfyrail.jobs.job import Job
from comfyrail.jobs.states import JobState
from comfyrail.notifications.streams import follow_events
from comfyrail.store.interface import JobFilter, Store
from comfyrail.store.signals import QUEUE, WORKERS
from comfyrail.usecases.comfyui_records import SURFACE

REPLAY_SECONDS = 300.0
MOST_FOLLOWED = 1000
"""Jobs of one client that are followed at once; of the others it is told when their turn comes."""
JOBS_A_READ = 100
ENDS_REMEMBERED = 20_000
COUNT_SECONDS = 0.25
"""Between two counts of what is open, whatever happens in the queue."""
RETRY_SECONDS = 1.0


def client_topic(tenant: TenantId, client_id: str) -> str:
    """A job of this client is there."""
    return f"comfyui/{tenant}/{client_id}"


class Listener(Protocol):
    """What a client's socket is told. Nothing here waits for the far end."""

    def open_jobs(self, count: int) -> None:
        """So many jobs of the tenant are queued or processing."""
        ...

    async def begin(self, job: Job) -> None:
        """It is followed from now on: its events come next."""
        ...

    async def tell(self, job: Job, event: Event, open_jobs: int | None) -> None:
        """`open_jobs` is counted when the job has ended."""
        ...

    def show(self, job: Job, preview: Preview) -> None: ...


class ComfyuiFeeds:
    """One for the server."""

    def __init__(self, store: Store, previews: Previews, clock: Clock) -> None:
        self._store = store
        self._previews = previews
        self._clock = clock
        self._told: OrderedDict[JobId, None] = OrderedDict()
        """Jobs of whose end their client has been told."""
        self._counts: dict[TenantId, _OpenJobs] = {}

    def announce(self, tenant: TenantId, client_id: str) -> None:
        """The client has a new job."""
        self._store.signals.notify(client_topic(tenant, client_id))

    async def run(self, principal: Principal, client_id: str, listener: Listener) -> None:
        """Until it is cancelled."""
        with self._count_of(principal.tenant) as counts:
            feed = _Feed(self._store, self._previews, self._clock, self._told, listener, counts)
            await feed.run(principal.tenant, client_id)

    @contextmanager
    def _count_of(self, tenant: TenantId) -> Iterator["_OpenJobs"]:
        """One for all sockets of a tenant, for as long as there are any."""
        counts = self._counts.setdefault(tenant, _OpenJobs(self._store, tenant))
        counts.users += 1
        try:
            yield counts
        finally:
            counts.users -= 1
            if not counts.users:
                counts.stop()
                del self._counts[tenant]


class _OpenJobs:
    """How many jobs of a tenant are open: counted when something has happened in the queue, at most
    every COUNT_SECONDS, however many want to know.
    """

    def __init__(self, store: Store, tenant: TenantId) -> None:
        self._store = store
        self._tenant = tenant
        self._looking: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self.latest: int | None = None
        self.users = 0

    async def other_than(self, known: int | None) -> int:
        """Waits until the count is another."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name=f"open-jobs-{self._tenant}")
        while self.latest is None or self.latest == known:
            await self._changed.wait()
        return self.latest

    def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def count(self) -> int | None:
        try:
            return await self._store.count_open_jobs(self._tenant)
        except StoreUnavailable:
            return None

    async def _look(self) -> None:
        with self._store.signals.subscribe(QUEUE, WORKERS) as news:
            while True:
                count = await self.count()
                if count is not None and count != self.latest:
                    self.latest = count
                    self._changed.set()
                    self._changed = asyncio.Event()
                await news.wait()
                await asyncio.sleep(COUNT_SECONDS)


class _Feed:
    """Of one socket."""

    def __init__(
        self,
        store: Store,
        previews: Previews,
        clock: Clock,
        told: OrderedDict[JobId, None],
        listener: Listener,
        counts: _OpenJobs,
    ) -> None:
        self._counts = counts
        self._store = store
        self._previews = previews
        self._clock = clock
        self._told = told
        self._listener = listener
        self._opened_at = clock.now()
        self._followed: set[JobId] = set()
        self._done: OrderedDict[JobId, None] = OrderedDict()

    async def run(self, tenant: TenantId, client_id: str) -> None:
        self._tenant = tenant
        self._client_id = client_id
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_queue(group), name="comfyui-queue")
            await self._watch_client(group)

    async def _watch_client(self, group: asyncio.TaskGroup) -> None:
        topic = client_topic(self._tenant, self._client_id)
        with self._store.signals.subscribe(topic) as news:
            await self._look(group)
            while True:
                await news.wait()
                await self._look(group)

    async def _watch_queue(self, group: asyncio.TaskGroup) -> None:
        """What else happens in the queue: of the client's jobs some may have begun that are not
        followed yet.
        """
        known: int | None = None
        while True:
            known = await self._counts.other_than(known)
            self._listener.open_jobs(known)
            await self._look(group)

    async def _look(self, group: asyncio.TaskGroup) -> None:
        try:
            found = await self._unfollowed()
        except StoreUnavailable:
            await asyncio.sleep(RETRY_SECONDS)
            return
        for job in found:
            if len(self._followed) >= MOST_FOLLOWED:
                return
            if job.id not in self._followed and job.id not in self._done:
                self._followed.add(job.id)
                group.create_task(self._follow(job), name=f"comfyui-{job.id}")

    async def _unfollowed(self) -> Iterable[Job]:
        """Those that run or have ended first, then those that wait, the oldest first."""
        # In the order in which a job goes: none slips through between two reads.
        waiting = await self._list(JobState.QUEUED, MOST_FOLLOWED)
        running = await self._list(JobState.PROCESSING, MOST_FOLLOWED)
        recent = await self._list(None, JOBS_A_READ)
        ended = [job for job in recent if not job.state.is_final or self._is_news(job)]
        return sorted([*ended, *running], key=lambda job: job.id) + waiting[::-1]

    async def _list(self, state: JobState | None, limit: int) -> list[Job]:
        where = JobFilter(state, surface=SURFACE, origin_key=self._client_id)
        page = await self._store.list_jobs(self._tenant, where, None, limit)
        return list(page.jobs)

    def _is_news(self, job: Job) -> bool:
        if job.submitted_at >= self._opened_at:
            return True
        ended = job.completed_at or job.submitted_at
        is_recent = self._clock.now() - ended < REPLAY_SECONDS * 1000
        return is_recent and job.id not in self._told

    async def _follow(self, job: Job) -> None:
        pictures = asyncio.create_task(self._show_previews(job), name=f"previews-{job.id}")
        number = 0
        try:
            await self._listener.begin(job)
            while True:
                try:
                    async for event in follow_events(self._store, self._tenant, job.id, number):
                        await self._tell(job, event)
                        number = event.number
                except StoreUnavailable:
                    await asyncio.sleep(RETRY_SECONDS)
                else:
                    break
        except JobNotFound:
            pass  # it was deleted
        finally:
            pictures.cancel()
            self._followed.discard(job.id)
            _remember(self._done, job.id)

    async def _tell(self, job: Job, event: Event) -> None:
        if not event.type.is_final:
            await self._listener.tell(job, event, None)
            return
        await self._listener.tell(job, event, await self._counts.count())
        _remember(self._told, job.id)

    async def _show_previews(self, job: Job) -> None:
        with self._previews.watching(job.id) as news:
            while True:
                preview = self._previews.latest(job.id)
                if preview is not None:
                    self._listener.show(job, preview)
                await news.wait()
                news.clear()


def _remember(jobs: OrderedDict[JobId, None], job_id: JobId) -> None:
    jobs[job_id] = None
    while len(jobs) > ENDS_REMEMBERED:
        jobs.popitem(last=False)
