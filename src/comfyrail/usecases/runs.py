"""Runs: a workflow on one certain worker, with its files from and to folders of the server."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.errors import (
    Conflict,
    Forbidden,
    JobNotFound,
    MalformedRequest,
    NotReady,
    WorkerRefused,
)
from comfyrail.fleet.view import WorkerView
from comfyrail.ids import AssetId, JobId, WorkerId, new_uuid
from comfyrail.jobs.job import IdempotencyKey, Origin, Output
from comfyrail.jobs.node_results import NodeResult
from comfyrail.jobs.workers import WorkerStatus
from comfyrail.store.interface import Store
from comfyrail.usecases.checks import WorkflowRequest
from comfyrail.usecases.given_files import GivenFiles, check_count, renamed
from comfyrail.usecases.jobs import Jobs, JobStatus
from comfyrail.usecases.library import Library
from comfyrail.usecases.run_folders import RunFolders
from comfyrail.usecases.run_record import (
    FETCH_FAILED,
    FETCHED,
    SURFACE,
    WAITING,
    RunRecord,
    RunState,
    read_record,
    status_of,
)
from comfyrail.usecases.run_states import KnownState, RunStates
from comfyrail.usecases.submit import Accepted, Submission, SubmitWorkflow
from comfyrail.usecases.workers import NewWorker, Workers

WORKFLOW_LIMIT = 10 << 20
LONGEST_NAME = 200
CONNECT_SECONDS = 60.0
UP = frozenset((WorkerStatus.IDLE, WorkerStatus.BUSY))

_ASSET_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RunWish:
    """What someone asks for: a `worker` of the fleet or the settings of an ssh `connection`; a
    `workflow`, or a `workflow_file` of the server or the library.
    """

    worker: str | None = None
    connection: Mapping[str, Any] | None = None
    workflow: bytes | None = None
    workflow_file: str | None = None
    input_images: Mapping[str, str] = field(default_factory=dict)
    """By the names that the workflow has for them: a `data:` URL, the id of an asset, a path (with
    a dot in it, or of a folder or a file that is there), or Base64."""
    output_dir: str | None = None
    name: str | None = None
    idempotency: IdempotencyKey | None = None


@dataclass(frozen=True, slots=True)
class Started:
    accepted: Accepted
    worker: WorkerView
    running: int
    """Runs that were on the worker when it was taken."""
    is_new_worker: bool = False
    """The worker was added to the fleet for it."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    status: JobStatus
    nodes: Sequence[NodeResult]
    state: KnownState | None
    record: RunRecord | None
    """None: it is a job that came in by another door."""

    @property
    def word(self) -> str:
        """How the run is."""
        job = self.status.job
        if self.record is None or self.state is None:
            return "running" if job.state == "processing" else str(job.state)
        return status_of(job, self.record, self.state.state.fetch)


class Runs:
    """Every method sees the principal's own runs only; others do not exist for it."""

    def __init__(
        self,
        store: Store,
        submit: SubmitWorkflow,
        jobs: Jobs,
        workers: Workers,
        library: Library,
        files: GivenFiles,
        folders: RunFolders,
        states: RunStates,
        limit: int | None,
    ) -> None:
        """`limit`: runs of one worker at once; the scheduler sees to it."""
        self._store = store
        self._submit = submit
        self._jobs = jobs
        self._workers = workers
        self._library = library
        self._files = files
        self._folders = folders
        self.states = states
        self.limit = limit

    async def start(self, principal: Principal, wish: RunWish) -> Started:
        """Take a run. It waits in the queue while its worker has as many as it may."""
        _check(wish)
        folder = None
        if wish.output_dir is not None:
            found = await asyncio.to_thread(self._folders.folder, principal, wish.output_dir)
            folder = str(found)
        workflow = await self._workflow(principal, wish)
        workflow = await renamed(workflow, await self._images(principal, wish.input_images))
        worker, is_new = await self._worker(principal, wish)
        remote = f"run-{new_uuid()}" if self._workers.can_remove_outputs(worker.id) else None
        record = RunRecord(
            worker=worker.id, name=wish.name, output_dir=folder, remote_folder=remote
        )
        running = (await self._store.running_for_worker()).get(worker.id, 0)
        accepted = await self._submit(
            principal,
            Submission(
                WorkflowRequest(workflow),
                idempotency=wish.idempotency,
                origin=Origin(SURFACE, worker.id, msgspec.json.encode(record), is_followed=True),
                worker=worker.id,
                output_folder=remote,
            ),
        )
        if not accepted.is_replay:
            job = await self._store.get_job(principal.tenant, accepted.job_id)
            await self.states.update(job, record)
        return Started(accepted, worker, running, is_new)

    async def progress(self, principal: Principal, run_id: JobId) -> RunProgress:
        status = await self._jobs.status(principal, run_id)
        nodes = await self._jobs.nodes(principal, run_id)
        record = None
        if status.job.surface == SURFACE:
            record = read_record((await self._jobs.origin(principal, run_id)).data)
        state = await self.states.find(principal.tenant, run_id)
        return RunProgress(status, nodes, state, record)

    async def cancel(self, principal: Principal, run_id: JobId) -> RunProgress:
        await self._jobs.cancel(principal, run_id)
        return await self.progress(principal, run_id)

    async def fetch(self, principal: Principal, run_id: JobId) -> RunProgress:
        """Bring the outputs to their folder after all, where that was given up."""
        job = await self._store.get_job(principal.tenant, run_id)
        if job.surface != SURFACE:
            raise JobNotFound(f"There is no run {run_id}.", details={"execution_id": run_id})
        record = read_record((await self._jobs.origin(principal, run_id)).data)
        progress = await self.progress(principal, run_id)
        state = progress.state
        is_done = state is not None and state.state.fetch.state == FETCHED
        if not job.state.is_final or record.output_dir is None or is_done:
            raise Conflict(
                f"There is nothing to fetch: the run is {progress.word}, and its output_dir "
                f"{record.output_dir or 'was not given'}.",
                code="NOTHING_TO_FETCH",
                details={"status": progress.word},
            )
        await asyncio.to_thread(self._folders.folder, principal, record.output_dir)
        await self.states.change_fetch(job, record, _wait_if_failed)
        await self._store.follow_job(principal.tenant, run_id)
        return await self.progress(principal, run_id)

    async def outputs(
        self, principal: Principal, run_id: JobId
    ) -> tuple[Sequence[Output], KnownState | None]:
        """What it has made, and where it was fetched to."""
        outputs = await self._jobs.outputs(principal, run_id)
        return outputs, await self.states.find(principal.tenant, run_id)

    async def _workflow(self, principal: Principal, wish: RunWish) -> bytes:
        if wish.workflow is not None:
            return wish.workflow
        name = wish.workflow_file or ""
        if "/" not in name and not name.lower().endswith(".json"):
            return msgspec.json.encode((await self._library.find(principal, name)).workflow)
        path = await asyncio.to_thread(
            self._folders.file, principal, name, "workflow_file", WORKFLOW_LIMIT
        )
        return await asyncio.to_thread(path.read_bytes)

    async def _images(self, principal: Principal, images: Mapping[str, str]) -> Mapping[str, str]:
        check_count(len(images))
        return {name: await self._image(principal, name, text) for name, text in images.items()}

    async def _image(self, principal: Principal, name: str, text: str) -> str:
        if text[:5].lower() == "data:":
            return await self._files.from_base64(principal, name, text)
        if _ASSET_ID.fullmatch(text):
            return await self._files.from_asset(principal, AssetId(text))
        # A dot is in no Base64; a '/' is.
        if "." in text or await asyncio.to_thread(self._folders.is_named_by, principal, text):
            path = await asyncio.to_thread(self._folders.file, principal, text, "input_images")
            return await self._files.from_file(principal, name, path)
        return await self._files.from_base64(principal, name, text)

    async def _worker(self, principal: Principal, wish: RunWish) -> tuple[WorkerView, bool]:
        """The worker, up where it was just added, and whether it was."""
        if wish.worker is not None:
            return self._workers.show(principal, WorkerId(wish.worker)), False
        if not principal.may(Permission.FLEET_WRITE):
            raise Forbidden(
                "ssh_connection adds a worker to the fleet, which takes the permission "
                f"{Permission.FLEET_WRITE}. Name a worker that is there instead.",
                code="PERMISSION_MISSING",
                details={"permission": Permission.FLEET_WRITE},
            )
        view, is_new = await self._workers.find_or_add(NewWorker("ssh", wish.connection or {}))
        view = await self._workers.wait_until_up(view.id, CONNECT_SECONDS)
        if view.status in UP:
            return view, is_new
        if is_new:
            await self._workers.remove(view.id)
            fault = view.error_detail
            raise WorkerRefused(
                view.error or "The worker did not come up in time. Try again.",
                code=fault.code if fault else None,
            )
        raise NotReady(
            f"The worker '{view.id}' of this connection takes no jobs now: "
            f"{view.error or view.status}",
            code="WORKER_NOT_READY",
            retry_after=5.0,
        )


def _wait_if_failed(state: RunState) -> None:
    if state.fetch.state == FETCH_FAILED:
        state.fetch.state, state.fetch.error = WAITING, None


def _check(wish: RunWish) -> None:
    if (wish.worker is None) == (wish.connection is None):
        raise MalformedRequest("Give either the id of a worker, or an ssh_connection.")
    if (wish.workflow is None) == (wish.workflow_file is None):
        raise MalformedRequest("Give either a workflow, or a workflow_file.")
    if wish.name is not None and not 0 < len(wish.name) <= LONGEST_NAME:
        raise MalformedRequest(f"workflow_name has 1 to {LONGEST_NAME} characters.")
