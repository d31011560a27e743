"""Follows runs to their end: writes down how they are, fetches what they have made, cleans up.

What there is to do is written with each job, and struck off when it is done: a server that dies in
between goes on with it at its next start.
"""

import asyncio
from pathlib import Path
from typing import Protocol

import structlog

from comfyrail.clock import Clock
from comfyrail.errors import ComfyrailError, JobNotFound, WorkerError
from comfyrail.ids import JobId, TenantId, WorkerId
from comfyrail.jobs.job import Job, Output
from comfyrail.store.interface import Store
from comfyrail.store.signals import FOLLOWED, job_topic
from comfyrail.usecases.run_fetch import OutputFetcher, free_name
from comfyrail.usecases.run_record import (
    FETCH_FAILED,
    FETCHED,
    FETCHING,
    WAITING,
    FetchedFile,
    RunRecord,
    RunState,
    read_record,
)
from comfyrail.usecases.run_states import RunStates

log = structlog.get_logger(__name__)

JOBS_A_READ = 500
PROGRESS_SECONDS = 0.5
"""Between two states that differ by progress alone."""
LONGEST_LOOK_SECONDS = 60.0
FETCHES_AT_ONCE = 4
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 60.0
MOST_TRIES = 10
"""With the pauses between them about four minutes."""


class Cleaner(Protocol):
    """The side of the fleet that is needed here."""

    async def remove_outputs(self, worker_id: WorkerId, folder: str) -> bool:
        """Whether the worker's copies are gone. Raises WorkerError where it cannot be reached."""
        ...


class RunKeeper:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        states: RunStates,
        fetcher: OutputFetcher,
        cleaner: Cleaner,
    ) -> None:
        self._store = store
        self._clock = clock
        self._states = states
        self._fetcher = fetcher
        self._cleaner = cleaner
        self._following: dict[JobId, asyncio.Task[None]] = {}
        self._fetches = asyncio.Semaphore(FETCHES_AT_ONCE)

    async def run(self) -> None:
        try:
            with self._store.signals.subscribe(FOLLOWED) as news:
                while True:
                    try:
                        await self._take_up()
                    except ComfyrailError as error:
                        log.warning("runs_not_followed", error=error.message)
                        await asyncio.sleep(LONGEST_PAUSE_SECONDS / 60)
                        continue
                    await news.wait(LONGEST_LOOK_SECONDS)
        finally:
            tasks = list(self._following.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take_up(self) -> None:
        after = ""
        while page := await self._store.followed_jobs(after, JOBS_A_READ):
            after = page[-1][1]
            for tenant, job_id in page:
                if job_id not in self._following:
                    keeping = self._keep(tenant, job_id)
                    self._following[job_id] = asyncio.create_task(keeping, name=f"run-{job_id}")

    async def _keep(self, tenant: TenantId, job_id: JobId) -> None:
        try:
            await self._try_until_done(tenant, job_id)
        finally:
            del self._following[job_id]
        # Whoever has asked for it while it was being left was passed over.
        self._store.signals.notify(FOLLOWED)

    async def _try_until_done(self, tenant: TenantId, job_id: JobId) -> None:
        """See a run through, however often something comes in between."""
        pause = FIRST_PAUSE_SECONDS
        tries = 0
        while True:
            try:
                await self._see_through(tenant, job_id, is_last_try=tries >= MOST_TRIES)
            except JobNotFound:
                await self._store.leave_job(job_id)
                return
            except (ComfyrailError, OSError) as error:
                log.warning("run_not_kept", run_id=job_id, error=_said(error))
            except Exception:  # one run must not end all others
                log.exception("run_not_kept", run_id=job_id)
            else:
                return
            tries += 1
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE_SECONDS, 2 * pause)

    async def _see_through(self, tenant: TenantId, job_id: JobId, *, is_last_try: bool) -> None:
        origin = await self._store.origin_of(tenant, job_id)
        record = read_record(origin.data)
        job = await self._follow(tenant, job_id, record)
        try:
            await self._fetch(job, record)
        except Exception as error:
            await self._note_failure(job, record, _said(error), is_final=is_last_try)
            if not is_last_try:
                raise
            log.warning("run_not_fetched", run_id=job_id, error=_said(error))
        await self._clean_up(job, record)
        await self._leave(tenant, job_id)
        await self._states.prune(tenant)

    async def _leave(self, tenant: TenantId, job_id: JobId) -> None:
        await self._store.leave_job(job_id)
        known = await self._states.find(tenant, job_id)
        if known is not None and known.state.fetch.state == WAITING:
            await self._store.follow_job(tenant, job_id)  # somebody has asked again meanwhile

    async def _follow(self, tenant: TenantId, job_id: JobId, record: RunRecord) -> Job:
        """Until the job has ended."""
        written: tuple[str, int] = ("", -1)
        written_at = 0.0
        with self._store.signals.subscribe(job_topic(job_id)) as news:
            while True:
                job = await self._store.get_job(tenant, job_id)
                now = self._clock.monotonic()
                is_news = written != (job.state, job.last_event)
                is_due = job.state != written[0] or now - written_at >= PROGRESS_SECONDS
                if is_news and is_due:
                    await self._states.update(job, record)
                    written, written_at = (job.state, job.last_event), now
                if job.state.is_final:
                    return job
                is_behind = is_news and not is_due
                await news.wait(PROGRESS_SECONDS if is_behind else LONGEST_LOOK_SECONDS)

    # Fetching

    async def _fetch(self, job: Job, record: RunRecord) -> None:
        if record.output_dir is None:
            return
        folder = Path(record.output_dir)
        outputs = await self._store.list_outputs(job.tenant, job.id)
        kept = [output for output in outputs if not output.file.is_temporary]
        async with self._fetches:
            files = await self._planned(job, record, folder, kept)
            try:
                for output in kept:
                    await self._bring(job, record, folder, output, files)
            except Exception:
                await self._settle(job, record, folder, kept, files)
                raise
            await self._settle(job, record, folder, kept, files)
        await self._states.change_fetch(job, record, lambda state: _mark(state, FETCHED, None))

    async def _planned(
        self, job: Job, record: RunRecord, folder: Path, outputs: list[Output]
    ) -> dict[str, FetchedFile]:
        """By output the name that it gets, as it is written down."""
        known = await self._states.find(job.tenant, job.id)
        files = known.state.fetch.files if known else []
        if {each.output_id for each in files} != {output.file.id for output in outputs}:
            files = await self._fetcher.plan(job.tenant, folder, outputs)
        planned = {each.output_id: each for each in files}
        await self._write_plan(job, record, planned)
        return planned

    async def _bring(
        self,
        job: Job,
        record: RunRecord,
        folder: Path,
        output: Output,
        files: dict[str, FetchedFile],
    ) -> None:
        file = files[output.file.id]
        taken = {each.filename for each in files.values()}
        while not file.is_written:
            if await self._fetcher.bring(job.tenant, folder, output, file.filename):
                file.is_written = True
                return
            file.filename = free_name(output.file.filename, taken)
            taken.add(file.filename)
            await self._write_plan(job, record, files)

    async def _settle(
        self,
        job: Job,
        record: RunRecord,
        folder: Path,
        outputs: list[Output],
        files: dict[str, FetchedFile],
    ) -> None:
        """Write down what is there."""
        await self._write_plan(job, record, files)
        brought = [output for output in outputs if files[output.file.id].is_written]
        await self._fetcher.settle(job.tenant, folder, brought)

    async def _write_plan(self, job: Job, record: RunRecord, files: dict[str, FetchedFile]) -> None:
        def plan(state: RunState) -> None:
            state.fetch.files = list(files.values())
            _mark(state, FETCHING, None)

        await self._states.change_fetch(job, record, plan)

    async def _note_failure(
        self, job: Job, record: RunRecord, message: str, *, is_final: bool
    ) -> None:
        word = FETCH_FAILED if is_final else WAITING
        await self._states.change_fetch(job, record, lambda state: _mark(state, word, message))

    async def _clean_up(self, job: Job, record: RunRecord) -> None:
        """The worker's own copies. What cannot be removed stays there: it is not needed here."""
        if record.remote_folder is None:
            return
        try:
            await self._cleaner.remove_outputs(WorkerId(record.worker), record.remote_folder)
        except (WorkerError, ComfyrailError) as error:
            log.warning("remote_files_left", run_id=job.id, error=error.message)


def _mark(state: RunState, word: str, error: str | None) -> None:
    state.fetch.state = word
    state.fetch.error = error


def _said(error: Exception) -> str:
    if isinstance(error, ComfyrailError):
        return error.message
    if isinstance(error, OSError):
        return f"{error.filename or 'A file'}: {error.strerror or 'it cannot be written'}."
    return "Something went wrong inside the server; its log says more."
