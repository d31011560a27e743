"""Why a queued job does not start, for whoever waits for it."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Self

from rich.text import Text

from comfyrail.cli.terminal import errors, line
from comfyrail.client import (
    ComfyrailClient,
    Event,
    Execution,
    RequestFailed,
    ServerUnreachable,
    UnexpectedReply,
)

FIRST_LOOK_SECONDS = 0.3
LOOK_SECONDS = 2.0
_NO_LONGER_QUEUED = {
    "execution.started",
    "execution.completed",
    "execution.failed",
    "execution.cancelled",
}


class WaitingNotice:
    """Says the reason in a line of its own when it is another one than before."""

    def __init__(self, client: ComfyrailClient) -> None:
        self._client = client
        self._said: str | None = None

    async def look(self, job_id: str) -> Execution | None:
        """The job as it is now; None where there is no answer: others notice that."""
        try:
            job = await self._client.execution(job_id)
        except (RequestFailed, ServerUnreachable, UnexpectedReply):
            return None
        reason = reason_to_wait(job)
        if reason is not None and reason != self._said:
            errors.print(Text.assemble(("Waiting:", "yellow"), " ", line(reason)), soft_wrap=True)
        self._said = reason
        return job


def reason_to_wait(job: Execution) -> str | None:
    """What a queued job waits for, apart from its turn."""
    if job.status != "queued":
        return None
    if job.not_before is not None and job.not_before > datetime.now(UTC):
        when = job.not_before.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
        return f"It is not to start before {when}."
    return job.waiting_for


class QueueLookout:
    """Looks now and then, while a job is queued, what place it has and what it waits for.

    `show` gets a few words about it; the whole reason is said in a line of its own.
    """

    def __init__(self, client: ComfyrailClient, job_id: str, show: Callable[[str], None]) -> None:
        self._notice = WaitingNotice(client)
        self._job_id = job_id
        self._show = show
        self._is_queued = asyncio.Event()
        self._is_queued.set()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._look(), name="look what the job waits for")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def follow(self, event: Event) -> None:
        if event.type == "execution.queued":
            self._is_queued.set()
        elif event.type in _NO_LONGER_QUEUED:
            self._is_queued.clear()

    async def _look(self) -> None:
        await asyncio.sleep(FIRST_LOOK_SECONDS)
        while True:
            await self._is_queued.wait()
            job = await self._notice.look(self._job_id)
            if job is not None and job.status == "queued" and self._is_queued.is_set():
                self._show(_describe_place(job))
            await asyncio.sleep(LOOK_SECONDS)


def _describe_place(job: Execution) -> str:
    if job.retry_at is not None:
        return f"Trying again in {max(0.0, seconds_until(job.retry_at)):.0f} s"
    word = "Queued" if reason_to_wait(job) is None else "Waiting"
    return f"{word}, place {job.queue_position}" if job.queue_position else word


def seconds_until(moment: datetime) -> float:
    return (moment - datetime.now(UTC)).total_seconds()
