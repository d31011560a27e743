"""A client that does not give up: it says the same again until the server has heard it."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self, TypeVar

from comfyrail.client import (
    ComfyrailClient,
    Execution,
    RequestFailed,
    ServerUnreachable,
    UnexpectedReply,
)
from comfyrail.faultlab.planned_jobs import PlannedJob

CALL_LIMIT_SECONDS = 10.0
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0
TEMPORARY_STATUSES = {429, 500, 503, 507}

Reply = TypeVar("Reply")


class PatientClient:
    """`troubles` counts what stood in the way, by what it was."""

    def __init__(self, server: str) -> None:
        self.client = ComfyrailClient(server)
        self.troubles: Counter[str] = Counter()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.client)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def submit(self, job: PlannedJob) -> str:
        """The job's id; always under the same key."""

        async def submit() -> str:
            submitted = await self.client.submit(
                job.graph, idempotency_key=job.key, priority=job.priority
            )
            return submitted.execution_id

        return await self.insist(submit)

    async def cancel(self, job_id: str) -> None:
        """Take a job back; that it has ended already is fine."""
        with contextlib.suppress(RequestFailed):
            await self.insist(lambda: self.client.cancel(job_id))

    async def execution(self, job_id: str) -> Execution:
        return await self.insist(lambda: self.client.execution(job_id))

    async def insist(self, call: Callable[[], Awaitable[Reply]]) -> Reply:
        """Call until there is an answer. Raises RequestFailed where that is a lasting no."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                async with asyncio.timeout(CALL_LIMIT_SECONDS):
                    return await call()
            except TimeoutError:
                self.troubles["no answer in time"] += 1
            except ServerUnreachable:
                self.troubles["no connection"] += 1
            except UnexpectedReply as error:
                self.troubles[str(error)] += 1
            except RequestFailed as error:
                self.troubles[f"{error.status} {error.body.get('code')}"] += 1
                if error.status not in TEMPORARY_STATUSES:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
