"""Clients that submit, take back and watch jobs while things fail."""

import asyncio
import time
from collections.abc import Iterator, Sequence

from comfyrail.client import Execution
from comfyrail.faultlab.ledger import Entry, Ledger
from comfyrail.faultlab.patient_client import PatientClient
from comfyrail.faultlab.planned_jobs import PlannedJob

SUBMITTERS = 6
LOOK_SECONDS = 0.15
LARGEST_PAGE = 500
SINGLE_LOOKS = 20
"""Open jobs that are not among the newest: so many are asked for one by one at each look."""


class Load:
    """Submits the planned jobs, never more than `window` open ones at once."""

    def __init__(
        self, client: PatientClient, jobs: Sequence[PlannedJob], ledger: Ledger, window: int
    ) -> None:
        self.accepted: asyncio.Queue[Entry] = asyncio.Queue()
        """Jobs in the order in which they were accepted, for those who follow them."""
        self._client = client
        self._jobs = jobs
        self._ledger = ledger
        self._window = asyncio.Semaphore(window)

    async def submit_all(self) -> None:
        """Returns when every job was accepted and every cancellation was heard."""
        waiting = iter(self._jobs)
        async with asyncio.TaskGroup() as group:
            for number in range(SUBMITTERS):
                group.create_task(self._submit(waiting, group), name=f"submitter-{number}")

    async def watch(self) -> None:
        """See jobs end, as a client does: by asking again and again."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._look()

    async def _submit(self, waiting: Iterator[PlannedJob], group: asyncio.TaskGroup) -> None:
        for job in waiting:
            await self._window.acquire()
            entry = self._ledger.acknowledge(job, await self._client.submit(job))
            self.accepted.put_nowait(entry)
            if job.cancel_after is not None:
                group.create_task(self._take_back(entry), name=f"cancel-{job.key}")
            if job.is_repeated:
                self._ledger.acknowledge(job, await self._client.submit(job))

    async def _take_back(self, entry: Entry) -> None:
        await asyncio.sleep(entry.job.cancel_after or 0.0)
        await self._client.cancel(entry.job_id)

    async def _look(self) -> None:
        pending = {entry.job_id: entry for entry in self._ledger.open_entries}
        if not pending:
            return
        size = min(LARGEST_PAGE, 2 * len(pending) + 20)
        for execution in await self._client.insist(
            lambda: self._client.client.executions(limit=size)
        ):
            entry = pending.pop(execution.execution_id, None)
            if entry is not None:
                self._see(entry, execution)
        for job_id in list(pending)[:SINGLE_LOOKS]:
            self._see(pending[job_id], await self._client.execution(job_id))

    def _see(self, entry: Entry, execution: Execution) -> None:
        if execution.is_final and entry.ended_at is None:
            entry.ended_at = time.monotonic()
            self._window.release()
