"""A second look at the graph of a failed attempt that takes too long."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from comfyrail.fleet.remedies import Mended
from comfyrail.ids import TenantId
from comfyrail.jobs.states import JobState
from tests.fleet.house import TENANT, TIMES, open_house, playing
from tests.fleet.test_remedies import fails, up

BRIEF = replace(TIMES, mend_limit=0.2)
PATIENT = replace(TIMES, mend_limit=1000.0)


class HangingMender:
    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.is_left = asyncio.Event()

    async def mend(self, tenant: TenantId, prompt: Mapping[str, Any]) -> Mended:
        del tenant, prompt
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.is_left.set()
        return Mended()


async def test_failure_that_could_only_be_mended_ends_the_job(tmp_path: Path) -> None:
    mender = HangingMender()
    async with (
        open_house(tmp_path, times=BRIEF, mender=mender) as house,
        playing(fails("ValueError", "no such mode")) as worker,
    ):
        await up(house, worker, "w1")
        job = await house.ended(await house.submit())
        assert (job.state, job.attempts) == (JobState.FAILED, 1)
        assert mender.is_left.is_set()


async def test_failure_that_may_pass_is_tried_again_without_being_mended(tmp_path: Path) -> None:
    mender = HangingMender()
    async with (
        open_house(tmp_path, times=BRIEF, mender=mender) as house,
        playing(fails("RuntimeError", "something odd", 1)) as worker,
    ):
        await up(house, worker, "w1")
        job_id = await house.submit()
        job = await house.ended(job_id)
        assert (job.state, job.attempts) == (JobState.COMPLETED, 2)
        assert mender.asked.is_set()
        assert (await house.store.needs_of(job_id)).avoided == ("w1",)


async def test_cancel_does_not_wait_for_it(tmp_path: Path) -> None:
    mender = HangingMender()
    async with (
        open_house(tmp_path, times=PATIENT, mender=mender) as house,
        playing(fails("RuntimeError", "something odd")) as worker,
    ):
        await up(house, worker, "w1")
        job_id = await house.submit()
        async with asyncio.timeout(10):
            await mender.asked.wait()
        await house.store.request_cancel(TENANT, job_id)
        job = await house.ended(job_id)
        assert (job.state, job.attempts) == (JobState.CANCELLED, 1)
        assert mender.is_left.is_set()
