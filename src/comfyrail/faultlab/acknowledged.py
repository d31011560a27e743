"""Does every submission that was acknowledged survive a kill -9 in the middle of many?"""

import asyncio
import random
import time
from dataclasses import dataclass
from pathlib import Path

from comfyrail.client import ComfyrailClient, RequestFailed, ServerUnreachable, UnexpectedReply
from comfyrail.faultlab.data_folder import read_jobs
from comfyrail.faultlab.ledger import Ledger
from comfyrail.faultlab.patient_client import PatientClient
from comfyrail.faultlab.planned_jobs import PlannedJob, plan_jobs
from comfyrail.faultlab.run import Say
from comfyrail.faultlab.site import Layout, Site, open_site

LAYOUT = Layout(remote_workers=1)
LEASE_SECONDS = 4.0
ANSWER_LIMIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class AcknowledgedRow:
    """`missing` are jobs that the client was told of and that are not there afterwards."""

    submissions: int
    kills: int
    per_second: float
    acknowledged: int
    unanswered: int
    kept_unanswered: int
    """Written, and then the server died before it could say so."""
    missing: int

    @property
    def is_right(self) -> bool:
        return self.missing == 0


async def run_acknowledged(
    folder: Path, submissions: int, rate: float, kills: int, seed: int, say: Say
) -> AcknowledgedRow:
    """As `measure_acknowledged`, on a site of its own."""
    async with open_site(folder, LAYOUT, LEASE_SECONDS) as site:
        return await measure_acknowledged(site, submissions, rate, kills, seed, say)


async def measure_acknowledged(
    site: Site, submissions: int, rate: float, kills: int, seed: int, say: Say
) -> AcknowledgedRow:
    """Submit at that rate, whatever the server does, and kill it so often meanwhile."""
    earlier = await asyncio.to_thread(read_jobs, site.disk.data)
    with Ledger(site.folder / "ledger.jsonl") as ledger:
        began = time.monotonic()
        await _submit_and_kill(site, ledger, submissions, rate, kills, seed)
        seconds = time.monotonic() - began
    say(f"{len(ledger.entries)} of {submissions} submissions acknowledged, looking for them")
    known = {entry.job_id for entry in ledger.entries.values()}
    async with PatientClient(site.url) as client:
        missing = {job_id for job_id in known if not await _is_there(client, job_id)}
    stored = (await asyncio.to_thread(read_jobs, site.disk.data)).keys() - earlier.keys()
    return AcknowledgedRow(
        submissions=submissions,
        kills=kills,
        per_second=submissions / seconds,
        acknowledged=len(known),
        unanswered=submissions - len(known),
        kept_unanswered=len(stored - known),
        missing=len(missing | (known - stored)),
    )


async def _submit_and_kill(
    site: Site, ledger: Ledger, submissions: int, rate: float, kills: int, seed: int
) -> None:
    chance = random.Random(f"kills-{seed}")  # noqa: S311 - reproducible, not secret
    # In the first nine tenths: what comes after the last kill is submitted in peace.
    moments = sorted(chance.uniform(0.05, 0.9) * submissions for _ in range(kills))
    async with ComfyrailClient(site.url) as client, asyncio.TaskGroup() as group:
        began = time.monotonic()
        for number, job in enumerate(plan_jobs(submissions, seed, (0.0, 0.0))):
            if moments and number >= moments[0]:
                del moments[0]
                group.create_task(_kill(site), name=f"kill-{number}")
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            group.create_task(_submit_once(client, ledger, job), name=job.key)


async def _kill(site: Site) -> None:
    async with site.server.busy:
        await site.server.kill()
        await site.bring_up(site.server)


async def _submit_once(client: ComfyrailClient, ledger: Ledger, job: PlannedJob) -> None:
    """One try: only a yes counts."""
    try:
        async with asyncio.timeout(ANSWER_LIMIT_SECONDS):
            submitted = await client.submit(job.graph, idempotency_key=job.key)
    except (TimeoutError, ServerUnreachable, UnexpectedReply, RequestFailed):
        return
    ledger.acknowledge(job, submitted.execution_id)


async def _is_there(client: PatientClient, job_id: str) -> bool:
    try:
        return (await client.execution(job_id)).execution_id == job_id
    except RequestFailed:
        return False
