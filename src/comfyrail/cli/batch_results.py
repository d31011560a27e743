"""The results of a batch, as files: `007_aurora_00001_.png` is of its job 7."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.text import Text

from comfyrail.cli.exits import FAILED, explain_and_exit
from comfyrail.cli.results import find_same_file, print_path, safe_name, save_output
from comfyrail.cli.terminal import errors, line
from comfyrail.client import ComfyrailClient, Output, RequestFailed
from comfyrail.client.batches import Batch, BatchExecution

JOBS_AT_ONCE = 4
MOST_DIGITS = 6
FINAL = {"completed", "failed", "cancelled"}


@dataclass(slots=True)
class _Fetched:
    """What became of one job's results."""

    saved: list[Path] = field(default_factory=list)
    already_there: list[Path] = field(default_factory=list)
    partial: int = 0
    troubles: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Tally:
    files: int = 0
    already_there: int = 0
    partial: int = 0
    unfinished: int = 0
    jobs_without: int = 0
    troubles: int = 0

    def describe(self, folder: Path) -> str:
        files = "1 file" if self.files == 1 else f"{self.files} files"
        parts = [f"Saved {files} in {folder}"]
        if self.already_there:
            parts.append(f"{self.already_there} were there already")
        if self.partial:
            parts.append(f"{self.partial} are partial: their jobs did not complete")
        if self.jobs_without:
            parts.append(f"{self.jobs_without} jobs have none")
        if self.unfinished:
            parts.append(f"{self.unfinished} jobs have not ended yet")
        return "; ".join(parts) + "."


class BatchResults:
    """Saves what the jobs of a batch have made, in the order of the jobs.

    A file that an earlier call has saved is not saved again; none is ever overwritten.
    """

    def __init__(self, client: ComfyrailClient, batch: Batch, folder: Path) -> None:
        self._client = client
        self._batch = batch
        self._folder = folder
        self._digits = min(len(str(max(batch.jobs - 1, 0))), MOST_DIGITS)

    async def fetch(self) -> int:
        """Print the path of every file. The exit code: FAILED where a result cannot be had."""
        tally = _Tally()
        pending: deque[asyncio.Task[_Fetched]] = deque()
        try:
            async for job in self._client.batches.executions(self._batch.batch_id):
                if job.execution_id is None or job.status not in FINAL:
                    tally.unfinished += job.execution_id is not None
                    continue
                pending.append(_task(self._fetch_job(job, job.execution_id)))
                if len(pending) == JOBS_AT_ONCE:
                    self._report(await pending.popleft(), tally)
            while pending:
                self._report(await pending.popleft(), tally)
        except OSError as error:
            explain_and_exit(
                f"A result cannot be saved: {error.strerror or error}. Mend that and go on with: "
                f"{fetch_command(self._client.server, self._batch.batch_id, self._folder)}",
                FAILED,
            )
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
        errors.print(Text(line(tally.describe(self._folder))), soft_wrap=True)
        return FAILED if tally.troubles else 0

    async def _fetch_job(self, job: BatchExecution, job_id: str) -> _Fetched:
        """Previews only when there is nothing else; what a failed job has left is marked."""
        fetched = _Fetched()
        try:
            outputs = await self._client.outputs(job_id)
        except RequestFailed as error:
            fetched.troubles.append(f"Job {job.index}: {error}")
            return fetched
        wanted = [each for each in outputs if not each.temporary] or outputs
        for output in wanted:
            try:
                await self._fetch_output(job, output, fetched)
            except RequestFailed as error:
                fetched.troubles.append(f"Job {job.index}, {output.filename}: {error}")
        return fetched

    async def _fetch_output(self, job: BatchExecution, output: Output, fetched: _Fetched) -> None:
        is_partial = output.partial or job.status != "completed"
        mark = "partial_" if is_partial else ""
        name = f"{job.index:0{self._digits}d}_{mark}{safe_name(output.filename)}"
        fetched.partial += is_partial
        others = {*fetched.saved, *fetched.already_there}
        same = await asyncio.to_thread(find_same_file, self._folder, name, output, others)
        if same is not None:
            fetched.already_there.append(same)
        else:
            fetched.saved.append(await save_output(self._client, output, self._folder, name))

    def _report(self, fetched: _Fetched, tally: _Tally) -> None:
        for path in fetched.saved:
            print_path(path)
        for trouble in fetched.troubles:
            errors.print(Text(line(trouble), "yellow"), soft_wrap=True)
        tally.files += len(fetched.saved)
        tally.already_there += len(fetched.already_there)
        tally.partial += fetched.partial
        tally.troubles += len(fetched.troubles)
        if not (fetched.saved or fetched.already_there or fetched.troubles):
            tally.jobs_without += 1


def fetch_command(server: str, batch_id: str, folder: Path) -> str:
    return f"comfyrail batches fetch {batch_id} -o {folder} --server {server}"


def _task(work: Coroutine[Any, Any, _Fetched]) -> asyncio.Task[_Fetched]:
    return asyncio.create_task(work, name="fetch a job's results")
