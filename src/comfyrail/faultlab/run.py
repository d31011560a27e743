"""One run: jobs against a site while faults are done to it, and then the look at all of it."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path

from comfyrail.faultlab.disks import loop_disk_obstacle
from comfyrail.faultlab.faults.fault import Fault, NothingToHit
from comfyrail.faultlab.faults.registry import faults_named
from comfyrail.faultlab.figures import Row, Strike, percentile, recovery_seconds
from comfyrail.faultlab.followers import Followers
from comfyrail.faultlab.inspection import Findings, inspect
from comfyrail.faultlab.ledger import Ledger
from comfyrail.faultlab.load import Load
from comfyrail.faultlab.patient_client import PatientClient
from comfyrail.faultlab.planned_jobs import plan_jobs
from comfyrail.faultlab.site import Layout, Site, open_site
from comfyrail.faultlab.waiting import LOOK_SECONDS

TELL_SECONDS = 3.0
STALL_SECONDS = 120.0
JOBS_PER_WORKER = 12
DISK_MEBIBYTES = 192
JOBS_PER_MEBIBYTE = 20

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run is to be. Faults come `interval` to twice the interval seconds after each other.

    `stall_seconds`: without any job accepted or ended for so long nothing more is expected.
    """

    kind: str
    jobs: int
    seed: int = 0
    interval: float = 1.0
    lease: float = 4.0
    job_seconds: tuple[float, float] = (0.05, 0.5)
    stall_seconds: float = STALL_SECONDS


async def run_plan(plan: Plan, folder: Path, say: Say) -> Row:
    """Do it in an empty folder; everything that was started is gone when this returns."""
    faults = faults_named(plan.kind)
    obstacles = {fault.name: why for fault in faults if (why := fault.obstacle()) is not None}
    for name, why in obstacles.items():
        say(f"{name} is NOT POSSIBLE here: {why}")
    possible = [fault for fault in faults if fault.name not in obstacles]
    if not possible:
        return Row(plan.kind, plan.seed, "; ".join(obstacles.values()))
    layout = _layout(possible)
    async with open_site(folder, layout, plan.lease, _disk_size(plan)) as site:
        say(f"{plan.kind}: server and workers are up")
        row = await _Run(plan, site, possible, say).do()
    notes = [*row.notes, *(f"{name} was not possible: {why}" for name, why in obstacles.items())]
    return replace(row, notes=notes)


class _Run:
    def __init__(self, plan: Plan, site: Site, faults: Sequence[Fault], say: Say) -> None:
        self._plan = plan
        self._site = site
        self._faults = faults
        self._say = say
        self._strikes: list[Strike] = []
        self._begun: set[str] = set()
        """Kinds of faults that were done or are under way."""
        self._chance = random.Random(f"faults-{plan.seed}")  # noqa: S311 - reproducible
        self._ledger = Ledger(site.folder / "ledger.jsonl")
        self._followers = Followers(site.url)

    async def do(self) -> Row:
        began = time.monotonic()
        jobs = plan_jobs(self._plan.jobs, self._plan.seed, self._plan.job_seconds)
        async with AsyncExitStack() as stack:
            stack.enter_context(self._ledger)
            client = await stack.enter_async_context(PatientClient(self._site.url))
            load = Load(client, jobs, self._ledger, JOBS_PER_WORKER * self._site.layout.workers)
            await self._under_fire(load)
            seconds = time.monotonic() - began
            self._say(f"{self._plan.kind}: {self._state()}; looking at everything")
            findings = await inspect(self._site, self._ledger, self._explained())
            return self._row(findings, seconds, client)

    async def _under_fire(self, load: Load) -> None:
        """Until all jobs were accepted, every kind of fault was done, and all has settled."""
        async with asyncio.TaskGroup() as group:
            helpers = [
                group.create_task(load.watch(), name="watch"),
                group.create_task(self._followers.follow(load.accepted), name="followers"),
                group.create_task(self._tell(), name="tell"),
            ]
            submitting = group.create_task(load.submit_all(), name="submit")
            enough = asyncio.Event()
            injecting = group.create_task(self._inject(enough), name="inject")
            await self._until(submitting.done, "jobs were still not accepted")
            enough.set()
            await self._until(injecting.done, "a fault did not end")
            await self._until(lambda: not self._ledger.open_entries, "jobs did not end")
            await self._until(
                lambda: load.accepted.empty() and not self._followers.unfinished,
                "followers did not see the end",
            )
            for task in (submitting, injecting, *helpers):
                task.cancel()

    async def _until(self, is_so: Callable[[], bool], otherwise: str) -> None:
        """Wait for it, as long as anything goes on."""
        seen, deadline = self._progress(), time.monotonic() + self._plan.stall_seconds
        while not is_so():
            await asyncio.sleep(LOOK_SECONDS)
            if (now := self._progress()) != seen:
                seen, deadline = now, time.monotonic() + self._plan.stall_seconds
            elif time.monotonic() > deadline:
                self._site.note(f"nothing went on for {self._plan.stall_seconds:g} s: {otherwise}")
                return

    def _progress(self) -> tuple[int, ...]:
        read = sum(reading.last for reading in self._followers.readings)
        return len(self._ledger.entries), len(self._ledger.ends), len(self._strikes), read

    async def _inject(self, enough: asyncio.Event) -> None:
        """Every kind once, then any of them, until it is enough."""
        number = 0
        async with asyncio.TaskGroup() as group:
            while not enough.is_set() or self._not_begun():
                await asyncio.sleep(self._chance.uniform(1, 2) * self._plan.interval)
                fault = self._chance.choice(self._not_begun() or self._faults)
                number += 1
                group.create_task(self._strike(fault, number), name=f"{fault.name}-{number}")

    def _not_begun(self) -> list[Fault]:
        return [fault for fault in self._faults if fault.name not in self._begun]

    async def _strike(self, fault: Fault, number: int) -> None:
        # Of its own, so that the same seed gives the same fault whatever else goes on meanwhile.
        chance = random.Random(f"{self._plan.seed}-{fault.name}-{number}")  # noqa: S311
        is_first = fault.name not in self._begun
        self._begun.add(fault.name)
        began = time.monotonic()
        try:
            what = await fault.strike(self._site, chance)
        except NothingToHit:
            if is_first:
                self._begun.discard(fault.name)
            return
        self._strikes.append(Strike(fault.name, what, began, time.monotonic()))

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(TELL_SECONDS)
            self._say(f"{self._plan.kind}: {self._state()}")

    def _state(self) -> str:
        ledger = self._ledger
        return (
            f"{len(ledger.entries)} of {self._plan.jobs} jobs accepted, {len(ledger.ends)} ended, "
            f"{len(self._strikes)} faults"
        )

    def _explained(self) -> frozenset[str]:
        return reduce(or_, (fault.explains for fault in self._faults))

    def _row(self, findings: Findings, seconds: float, client: PatientClient) -> Row:
        findings.gaps += [each for read in self._followers.readings for each in read.faults]
        findings.gaps += [
            f"{read.job_id} over {read.channel}: no final event after {read.last}"
            for read in self._followers.unfinished
        ]
        recoveries = recovery_seconds(self._strikes, self._ledger)
        return Row(
            kind=self._plan.kind,
            seed=self._plan.seed,
            faults=len(self._strikes),
            jobs=len(self._ledger.entries),
            completed=findings.completed,
            failed=dict(findings.failed),
            cancelled=findings.cancelled,
            lost=len(findings.lost) + self._plan.jobs - len(self._ledger.entries),
            doubled=len(findings.doubled),
            gaps=len(findings.gaps),
            missing=len(findings.missing),
            orphans=len(findings.orphans),
            swept=findings.swept,
            unexplained=len(findings.unexplained),
            recovery_p50=percentile(recoveries, 0.5),
            recovery_p99=percentile(recoveries, 0.99),
            seconds=seconds,
            per_second=findings.completed / seconds,
            wrongs=findings.wrongs,
            notes=list(self._site.notes),
            troubles=dict(client.troubles),
            strikes=list(self._strikes),
        )


def _layout(faults: Sequence[Fault]) -> Layout:
    layout = reduce(or_, (fault.layout for fault in faults))
    return layout if loop_disk_obstacle() is None else replace(layout, own_disk=False)


def _disk_size(plan: Plan) -> int:
    return DISK_MEBIBYTES + plan.jobs // JOBS_PER_MEBIBYTE
