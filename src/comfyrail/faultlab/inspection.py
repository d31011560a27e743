"""The fresh look afterwards: every accepted job over the API and in the data folder."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from comfyrail.client import Output, RequestFailed
from comfyrail.faultlab.data_folder import (
    FINAL_STATES,
    StoredJob,
    age_blobs,
    missing_blobs,
    orphaned_blobs,
    read_jobs,
)
from comfyrail.faultlab.ledger import Entry, Ledger
from comfyrail.faultlab.patient_client import PatientClient
from comfyrail.faultlab.planned_jobs import OUTPUTS
from comfyrail.faultlab.site import Site
from comfyrail.faultlab.waiting import until

AT_ONCE = 8
SWEEP_LIMIT_SECONDS = 20.0
MONTH_SECONDS = 30 * 24 * 3600.0

Item = TypeVar("Item")


@dataclass(slots=True)
class Findings:
    """How the jobs ended, and everything that must not be: each a sentence that names the job."""

    completed: int = 0
    cancelled: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    """By the code of the error."""
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    swept: int = 0
    """Files that nothing referred to and that the server has removed by itself."""
    unexplained: list[str] = field(default_factory=list)
    """Ends that neither the client nor the fault can have caused."""

    @property
    def wrongs(self) -> list[str]:
        every = (self.lost, self.doubled, self.gaps, self.missing, self.orphans, self.unexplained)
        return [each for several in every for each in several]


async def inspect(site: Site, ledger: Ledger, explained: frozenset[str]) -> Findings:
    """Look at everything. The server is started anew first and stopped in the end.

    `explained` are the codes with which a job may have failed.
    """
    findings = Findings(doubled=list(ledger.contradictions))
    findings.lost += [f"{each.job_id} did not end in time" for each in ledger.open_entries]
    async with site.server.busy:
        await site.server.stop()
        findings.swept = len(await asyncio.to_thread(orphaned_blobs, site.disk.data))
        # As if all had been a while ago, also for a clock that was set back.
        await asyncio.to_thread(age_blobs, site.disk.data, MONTH_SECONDS)
        await site.bring_up(site.server)
        async with PatientClient(site.url) as client:
            findings.missing += await _look_at_outputs(client, ledger)
        await _let_it_sweep(site)
        await site.server.stop()
        judge(findings, ledger, await asyncio.to_thread(read_jobs, site.disk.data), explained)
        await asyncio.to_thread(_look_at_blobs, findings, site)
    findings.swept -= len(findings.orphans)
    return findings


async def _look_at_outputs(client: PatientClient, ledger: Ledger) -> list[str]:
    """What completed jobs do not give, as a client would find it."""
    wrong: list[str] = []

    async def look(entry: Entry) -> None:
        try:
            execution = await client.execution(entry.job_id)
        except RequestFailed:
            return  # the database will tell that it is lost
        if execution.status == "completed":
            outputs = () if execution.result is None else execution.result.outputs
            wrong.extend(
                f"{entry.job_id}: {what}" for what in await _faults(client, entry, outputs)
            )

    await _several_at_once(ledger.entries.values(), look)
    return wrong


async def _faults(client: PatientClient, entry: Entry, outputs: Sequence[Output]) -> list[str]:
    contents: list[tuple[str, bytes]] = []
    for output in outputs:
        try:
            content = await client.insist(partial(_download, client, output))
        except RequestFailed as error:
            return [f"{output.filename} cannot be had: {error}"]
        if hashlib.sha256(content).hexdigest() != output.sha256:
            return [f"{output.filename} has another checksum than {output.sha256}"]
        contents.append((output.kind, content))
    return entry.job.faults_of(contents)


async def _download(client: PatientClient, output: Output) -> bytes:
    return b"".join([chunk async for chunk in client.client.download(output)])


async def _several_at_once(
    items: Iterable[Item], work: Callable[[Item], Coroutine[Any, Any, None]]
) -> None:
    waiting = iter(items)

    async def do_some() -> None:
        for item in waiting:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for number in range(AT_ONCE):
            group.create_task(do_some(), name=f"inspector-{number}")


async def _let_it_sweep(site: Site) -> None:
    """Give the server a moment to remove what nobody refers to."""

    async def is_swept() -> bool:
        return not await asyncio.to_thread(orphaned_blobs, site.disk.data)

    await until(is_swept, SWEEP_LIMIT_SECONDS)


def judge(
    findings: Findings, ledger: Ledger, stored: dict[str, StoredJob], explained: frozenset[str]
) -> None:
    known = set()
    for entry in ledger.entries.values():
        known.add(entry.job_id)
        job = stored.get(entry.job_id)
        if job is None:
            findings.lost.append(f"{entry.job_id} was accepted and is not in the database")
        else:
            _judge_job(findings, entry, job, explained)
    findings.doubled += [f"{job_id} is there and nobody has it" for job_id in stored.keys() - known]


def _judge_job(findings: Findings, entry: Entry, job: StoredJob, explained: frozenset[str]) -> None:
    if job.completions > 1:
        findings.doubled.append(f"{job.job_id} was completed {job.completions} times")
    findings.gaps += job.event_faults
    findings.completed += job.state == "completed"
    findings.cancelled += job.state == "cancelled"
    if job.state not in FINAL_STATES and entry.ended_at is not None:
        findings.lost.append(f"{job.job_id} had ended and is {job.state} now")
    if job.state == "cancelled" and entry.job.cancel_after is None:
        findings.unexplained.append(f"{job.job_id} was cancelled, and not by its client")
    if job.state == "failed":
        findings.failed[str(job.fault_code)] += 1
        if job.fault_code not in explained:
            findings.unexplained.append(f"{job.job_id} failed with {job.fault_code}")
    if job.state == "completed" and job.whole_outputs != OUTPUTS:
        findings.missing.append(f"{job.job_id} has {job.whole_outputs} outputs in the database")


def _look_at_blobs(findings: Findings, site: Site) -> None:
    findings.missing += missing_blobs(site.disk.data, read_jobs(site.disk.data))
    findings.orphans += orphaned_blobs(site.disk.data)
