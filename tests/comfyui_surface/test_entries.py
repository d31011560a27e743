"""Entries of the history, and what is kept of them."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from comfyrail.access.principal import LOCAL_USER
from comfyrail.api.comfyui import entries
from comfyrail.api.messages import encode
from comfyrail.clock import Instant
from comfyrail.ids import JobId
from comfyrail.jobs.job import Job, Progress
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import Submitted
from comfyrail.usecases.comfyui_records import NodesRun
from comfyrail.workflow.catalog import NodeCatalog
from tests.graphs import picture


def test_no_entry_is_lost_that_does_not_fit_into_what_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entries, "ENTRIES_KEPT_BYTES", 3000)
    graphs = [encode(picture(number)) for number in range(20)]
    jobs = [ended_job(f"job-{number:02}") for number in range(20)]
    records = Records(dict(zip((job.id for job in jobs), graphs, strict=True)))
    shown = entries.Entries(cast(Any, records))

    async def read(wanted: Sequence[Job]) -> list[str]:
        found = shown.history(LOCAL_USER, wanted, NodeCatalog({}))
        return [prompt_id async for prompt_id, _ in found]

    async def read_at_once() -> list[list[str]]:
        await read(jobs[:10])
        return list(await asyncio.gather(read(jobs), read(jobs[::-1]), read(jobs[5:])))

    ids = [job.id for job in jobs]
    assert asyncio.run(read_at_once()) == [ids, ids[::-1], ids[5:]]


def ended_job(job_id: str) -> Job:
    return Job(
        id=JobId(job_id),
        tenant=LOCAL_USER.tenant,
        state=JobState.COMPLETED,
        reason=None,
        priority=5,
        rank=0,
        timeout_seconds=60.0,
        expected_seconds=1.0,
        submitted_at=Instant(1),
        started_at=Instant(2),
        completed_at=Instant(3),
        attempts=1,
        retries=0,
        worker_id=None,
        cancel_requested=False,
        progress=Progress(),
        fault=None,
        last_event=3,
    )


class Records:
    """Gives each reader its turn, as a store does."""

    def __init__(self, prompts: dict[JobId, bytes]) -> None:
        self._prompts = prompts

    async def submitted(self, _: object, job_ids: Sequence[JobId]) -> dict[JobId, Submitted]:
        await asyncio.sleep(0)
        return {each: Submitted(self._prompts[each], None, None, []) for each in job_ids}

    async def nodes_run(self, *_: object) -> NodesRun:
        await asyncio.sleep(0)
        return NodesRun()
