"""What is remembered of a run: with its job, and as a document that is its state."""

from typing import Any

import msgspec

from comfyrail.clock import Instant
from comfyrail.jobs.job import Job

SURFACE = "runs"
AREA = "runs"

FETCHING = "fetching"
WAITING = "waiting"
FETCHED = "done"
FETCH_FAILED = "failed"


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run was asked for; kept with its job, which is never without it."""

    worker: str
    name: str | None = None
    output_dir: str | None = None
    remote_folder: str | None = None
    """Below the worker's outputs: what the run saves there is removed when it is fetched."""


class FetchedFile(msgspec.Struct, kw_only=True):
    output_id: str
    filename: str
    """In the folder. It is decided before the file is written: a server that dies in between
    finds it again."""
    is_written: bool = False
    """It is there: it is not brought once more."""


class Fetch(msgspec.Struct, kw_only=True):
    """How the outputs get to `output_dir`: none, waiting, fetching, done or failed."""

    state: str = "none"
    files: list[FetchedFile] = msgspec.field(default_factory=list)
    error: str | None = None


class RunState(msgspec.Struct, kw_only=True):
    """The state of a run, without its version: that is the document's own."""

    run_id: str
    status: str
    workflow_name: str | None
    worker_id: str
    progress: float
    current_node: str | None
    completed_nodes: int
    total_nodes: int
    output_dir: str | None
    created_at: int
    started_at: int | None
    completed_at: int | None
    updated_at: int
    error: dict[str, Any] | None = None
    fetch: Fetch = msgspec.field(default_factory=Fetch)
    notes: dict[str, Any] = msgspec.field(default_factory=dict)
    """What a client wants to remember of it."""

    @property
    def is_final(self) -> bool:
        return self.status in {"completed", "failed", "cancelled"}


_record = msgspec.json.Decoder(RunRecord)
_state = msgspec.json.Decoder(RunState)


def read_record(data: bytes | None) -> RunRecord:
    return _record.decode(data or b"{}")


def read_state(content: bytes) -> RunState:
    return _state.decode(content)


def status_of(job: Job, record: RunRecord, fetch: Fetch) -> str:
    """A job that has ended is a run that has ended once its files are where they are wanted."""
    if job.state.is_final and record.output_dir is not None and fetch.state in {"none", WAITING}:
        return FETCHING
    if job.state.is_final and fetch.state == FETCHING:
        return FETCHING
    return "running" if job.state == "processing" else str(job.state)


def updated(before: RunState | None, job: Job, record: RunRecord, now: Instant) -> RunState:
    """The state with what the job is now; notes and what was fetched stay."""
    fetch = before.fetch if before else Fetch()
    fault = job.fault
    return RunState(
        run_id=job.id,
        status=status_of(job, record, fetch),
        workflow_name=record.name,
        worker_id=record.worker,
        progress=round(job.progress.fraction, 4) if job.state != "completed" else 1.0,
        current_node=job.progress.current_node,
        completed_nodes=job.progress.completed_nodes,
        total_nodes=job.progress.total_nodes,
        output_dir=record.output_dir,
        created_at=job.submitted_at,
        started_at=job.started_at,
        completed_at=job.completed_at,
        updated_at=now,
        error={"code": fault.code, "message": fault.message} if fault else None,
        fetch=fetch,
        notes=before.notes if before else {},
    )
