"""How soon after a kill -9 with a long queue do jobs run as fast as before?"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from comfyrail.faultlab.patient_client import PatientClient
from comfyrail.faultlab.planned_jobs import PlannedJob, plan_jobs
from comfyrail.faultlab.run import Say
from comfyrail.faultlab.site import Layout, Site, open_site
from comfyrail.faultlab.waiting import LOOK_SECONDS

LAYOUT = Layout(remote_workers=2)
LEASE_SECONDS = 4.0
SUBMITTERS = 16
RUN_BEFORE = 200
"""Jobs that run before the kill, at least."""
MEASURED_SECONDS = 5.0
WINDOW_SECONDS = 1.0
NORMAL_SHARE = 0.9
RECOVERY_LIMIT_SECONDS = 120.0
RUN_DOWN_LIMIT_SECONDS = 600.0

Curve = list[tuple[float, int]]
"""How many jobs were open at which moments."""


@dataclass(frozen=True, slots=True)
class RestartRow:
    """Seconds count from the kill. Normal is nine tenths of before, over a second."""

    queued: int
    before_per_second: float
    after_per_second: float
    listening_seconds: float
    first_end_seconds: float | None
    normal_seconds: float | None

    @property
    def is_right(self) -> bool:
        return self.normal_seconds is not None


async def run_restart(folder: Path, queued: int, say: Say) -> RestartRow:
    """As `measure_restart`, on a site of its own."""
    async with open_site(folder, LAYOUT, LEASE_SECONDS) as site:
        return await measure_restart(site, queued, max(RUN_BEFORE, queued // 10), say)


async def measure_restart(site: Site, queued: int, run_before: int, say: Say) -> RestartRow:
    """Fill the queue, let some run, kill the server, start it again, and watch the queue shrink.

    Of the jobs that run before the kill one half is to warm up, the other is measured.
    """
    async with PatientClient(site.url) as client:
        await _watch_down_to(client, 0)
        await client.insist(client.client.queue.pause)
        await _fill_queue(client, plan_jobs(queued + run_before, 0, (0.0, 0.0)), say)
        await client.insist(client.client.queue.resume)
        await _watch_down_to(client, queued + run_before // 2)
        before = _rate(await _watch_down_to(client, queued))
    say(f"{queued} jobs queued, {before:.1f} a second; the server is killed")
    return await _kill_and_watch(site, queued, before)


async def _fill_queue(client: PatientClient, jobs: Sequence[PlannedJob], say: Say) -> None:
    waiting = iter(jobs)

    async def submit() -> None:
        for job in waiting:
            await client.submit(job)

    say(f"submitting {len(jobs)} jobs")
    async with asyncio.TaskGroup() as group:
        for number in range(SUBMITTERS):
            group.create_task(submit(), name=f"submitter-{number}")


async def _kill_and_watch(site: Site, queued: int, before: float) -> RestartRow:
    killed_at = time.monotonic()
    async with site.server.busy:
        await site.server.kill()
        await site.bring_up(site.server)
    listening_at = time.monotonic()
    async with PatientClient(site.url) as client:
        curve = await _watch(client, WINDOW_SECONDS)
        while (normal := _normal_since(curve, before)) is None and _may_come(curve, listening_at):
            curve += await _watch(client, WINDOW_SECONDS)
        first_end = _first_end(curve)
        # The rate that it keeps, not the one moment at which it was reached.
        after = _rate(await _watch(client, min(MEASURED_SECONDS, queued / 300)))
    return RestartRow(
        queued=queued,
        before_per_second=before,
        after_per_second=after,
        listening_seconds=listening_at - killed_at,
        first_end_seconds=None if first_end is None else first_end - killed_at,
        normal_seconds=None if normal is None else normal - killed_at,
    )


async def _watch(client: PatientClient, seconds: float) -> Curve:
    curve = [await _open_jobs(client)]
    while curve[-1][0] < curve[0][0] + seconds:
        await asyncio.sleep(LOOK_SECONDS)
        curve.append(await _open_jobs(client))
    return curve


async def _watch_down_to(client: PatientClient, jobs: int) -> Curve:
    curve = [await _open_jobs(client)]
    async with asyncio.timeout(RUN_DOWN_LIMIT_SECONDS):
        while curve[-1][1] > jobs:
            await asyncio.sleep(LOOK_SECONDS)
            curve.append(await _open_jobs(client))
    return curve


async def _open_jobs(client: PatientClient) -> tuple[float, int]:
    report = await client.insist(client.client.queue.report)
    return time.monotonic(), report.queued + report.processing


def _rate(curve: Curve) -> float:
    (began, first), (ended, last) = curve[0], curve[-1]
    return (first - last) / max(ended - began, LOOK_SECONDS)


def _may_come(curve: Curve, since: float) -> bool:
    """There is something left to run, and it was not too long yet."""
    at, left = curve[-1]
    return left > 0 and at < since + RECOVERY_LIMIT_SECONDS


def _first_end(curve: Curve) -> float | None:
    return next((at for at, left in curve if left < curve[0][1]), None)


def _normal_since(curve: Curve, before: float) -> float | None:
    """The earliest moment from which on a second's worth of jobs ended within a second."""
    for number, (began, first) in enumerate(curve):
        later = [(at, left) for at, left in curve[number:] if at >= began + WINDOW_SECONDS]
        if later:
            ended, left = later[0]
            if first - left >= NORMAL_SHARE * before * (ended - began):
                return began
    return None
