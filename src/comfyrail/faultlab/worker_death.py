"""A worker dies for good in the middle of a job: how late is that job, and how late the others?"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from comfyrail.client import ComfyrailClient
from comfyrail.faultlab.figures import percentile
from comfyrail.faultlab.planned_jobs import PlannedJob, plan_jobs
from comfyrail.faultlab.programs import Program
from comfyrail.faultlab.run import Say
from comfyrail.faultlab.site import Layout, Site, open_site
from comfyrail.faultlab.waiting import until

LAYOUT = Layout(remote_workers=3)
JOB_SECONDS = (0.4, 0.6)
PAUSE_SECONDS = 0.35
"""Between submissions: about half of what the workers can do, so that two of three are enough."""
QUIET_SECONDS = 8.0
LOOK_SECONDS = 0.02
VICTIM_LIMIT_SECONDS = 120.0
MOST_JOBS = 100_000


@dataclass(frozen=True, slots=True)
class DeathRow:
    """Seconds. A victim is a job that the worker had when it died; its delay is what it took from
    the death to its end beyond what it takes to run. Others: from submission to end.
    """

    deaths: int
    lease: float
    victims: int
    victim_delay_p50: float | None
    victim_delay_most: float | None
    others: int
    others_quiet_p50: float | None
    others_quiet_p99: float | None
    others_p50: float | None
    others_p99: float | None
    failed: int

    @property
    def is_right(self) -> bool:
        return self.failed == 0


@dataclass(slots=True)
class _Tracked:
    job: PlannedJob
    job_id: str
    submitted_at: float
    ended_at: float | None = None
    status: str | None = None


@dataclass(slots=True)
class _Diary:
    """All jobs by id; of victims also when their worker died."""

    tracked: dict[str, _Tracked] = field(default_factory=dict)
    died_at: dict[str, float] = field(default_factory=dict)
    quiet_until: float = 0.0

    def all_ended(self, job_ids: Sequence[str]) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return all(self.tracked[each].ended_at is not None for each in job_ids)

        return look

    def delays(self) -> list[float]:
        return [
            each.ended_at - self.died_at[job_id] - each.job.seconds
            for job_id, each in self.tracked.items()
            if job_id in self.died_at and each.ended_at is not None
        ]

    def others(self, *, quiet: bool) -> list[float]:
        return [
            each.ended_at - each.submitted_at
            for job_id, each in self.tracked.items()
            if job_id not in self.died_at
            and each.ended_at is not None
            and (each.ended_at < self.quiet_until) is quiet
        ]


async def run_worker_deaths(
    folder: Path, deaths: int, lease: float, seed: int, say: Say
) -> DeathRow:
    """As `measure_worker_deaths`, on a site of its own."""
    async with open_site(folder, LAYOUT, lease) as site:
        return await measure_worker_deaths(site, deaths, QUIET_SECONDS, seed, say)


async def measure_worker_deaths(
    site: Site, deaths: int, quiet: float, seed: int, say: Say
) -> DeathRow:
    """Jobs at an even pace; first so many seconds in peace, then with a death after the other."""
    diary = _Diary()
    chance = random.Random(f"deaths-{seed}")  # noqa: S311 - reproducible, not secret
    async with ComfyrailClient(site.url) as client, asyncio.TaskGroup() as group:
        enough = asyncio.Event()
        group.create_task(_submit_evenly(client, diary, seed, enough), name="pace")
        await asyncio.sleep(quiet)
        diary.quiet_until = time.monotonic()
        for number in range(deaths):
            await _kill_one(site, client, diary, chance)
            say(f"{number + 1} of {deaths} workers died, {len(diary.died_at)} jobs with them")
        enough.set()
    return _row(diary, deaths, site.lease)


async def _submit_evenly(
    client: ComfyrailClient, diary: _Diary, seed: int, enough: asyncio.Event
) -> None:
    """Returns when it is enough and all that were submitted have ended."""
    async with asyncio.TaskGroup() as group:
        for job in plan_jobs(MOST_JOBS, seed, JOB_SECONDS):
            if enough.is_set():
                return
            began = time.monotonic()
            job_id = await client.execute(job.graph)
            tracked = diary.tracked[job_id] = _Tracked(job, job_id, began)
            group.create_task(_track(client, tracked), name=f"track-{job_id}")
            await asyncio.sleep(PAUSE_SECONDS)


async def _track(client: ComfyrailClient, tracked: _Tracked) -> None:
    async for event in client.events(tracked.job_id):
        tracked.status = event.type
    tracked.ended_at = time.monotonic()


async def _kill_one(
    site: Site, client: ComfyrailClient, diary: _Diary, chance: random.Random
) -> None:
    """A worker that runs a job; it comes back only when its jobs have ended elsewhere."""
    worker, victims = await _a_busy_worker(site, client, diary, chance)
    async with worker.busy:
        await worker.kill()
        died_at = time.monotonic()
        diary.died_at.update(dict.fromkeys(victims, died_at))
        await until(diary.all_ended(victims), VICTIM_LIMIT_SECONDS)
        await site.bring_up(worker)
    await site.until_ready()


async def _a_busy_worker(
    site: Site, client: ComfyrailClient, diary: _Diary, chance: random.Random
) -> tuple[Program, list[str]]:
    programs = {place.program.name: place.program for place in site.places}
    while True:
        workers = await client.fleet.workers()
        chance.shuffle(workers)
        for worker in workers:
            known = [job_id for job_id in worker.current_jobs if job_id in diary.tracked]
            if known:
                return programs[worker.worker_id], known
        await asyncio.sleep(LOOK_SECONDS)


def _row(diary: _Diary, deaths: int, lease: float) -> DeathRow:
    delays = diary.delays()
    quiet, others = diary.others(quiet=True), diary.others(quiet=False)
    completed = [each for each in diary.tracked.values() if each.status == "execution.completed"]
    return DeathRow(
        deaths=deaths,
        lease=lease,
        victims=len(diary.died_at),
        victim_delay_p50=percentile(delays, 0.5),
        victim_delay_most=max(delays, default=None),
        others=len(others),
        others_quiet_p50=percentile(quiet, 0.5),
        others_quiet_p99=percentile(quiet, 0.99),
        others_p50=percentile(others, 0.5),
        others_p99=percentile(others, 0.99),
        failed=len(diary.tracked) - len(completed),
    )
