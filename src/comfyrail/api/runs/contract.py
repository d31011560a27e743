"""The bodies of the run API."""

from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from comfyrail.api.check_contract import WorkflowText, given_text
from comfyrail.api.contract import ExecutionError, OutputBody, moment, output_body, time_of
from comfyrail.api.runs.words import DONE, NODE_STATUS_OF, SSH_SETTING_OF
from comfyrail.clock import Instant
from comfyrail.errors import RequestError
from comfyrail.jobs.job import IdempotencyKey, Output
from comfyrail.jobs.node_results import NodeResult
from comfyrail.usecases.run_record import FETCH_FAILED, FETCHED
from comfyrail.usecases.run_states import KnownState
from comfyrail.usecases.runs import RunProgress, RunWish, Started


class SshConnection(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How a machine is reached on which a ComfyUI runs. Keys only: `key_file` is on the server, and
    `passphrase_secret` the name of a credential of the server.
    """

    host: str
    port: int = 22
    username: str | None = None
    key_file: str | None = None
    passphrase_secret: str | None = None
    known_hosts: str | None = None
    comfyui_host: str = "127.0.0.1"
    comfyui_port: int = 8188
    output_folder: str | None = None
    """ComfyUI's output folder there: the run's files are removed from it when they are fetched."""
    password: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    private_key: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class RunRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    ssh_connection: SshConnection | None = None
    worker: str | None = None
    workflow_file: str | None = None
    workflow: WorkflowText = msgspec.field(default_factory=msgspec.Raw)
    input_images: dict[str, str] = {}
    output_dir: str | None = None
    workflow_name: str | None = None


class RunReply(msgspec.Struct, kw_only=True):
    success: bool
    workflow_id: str
    message: str


class RunNode(msgspec.Struct, kw_only=True):
    node_id: str
    node_type: str | None
    status: str
    progress: float
    message: str | None


class RunOutput(OutputBody, kw_only=True):
    """`path`: where it was fetched to, null until then."""

    path: str | None


class RunProgressBody(msgspec.Struct, kw_only=True):
    workflow_id: str
    workflow_name: str | None
    status: str
    message: str | None
    prompt_id: str | None
    worker: str | None
    queue_position: int | None
    current_node: str | None
    total_nodes: int
    completed_nodes: int
    progress_percent: float
    nodes: list[RunNode]
    outputs: list[RunOutput]
    error: ExecutionError | None


class RunOutputs(msgspec.Struct, kw_only=True):
    workflow_id: str
    output_dir: str | None
    outputs: list[RunOutput]


class RunStateBody(msgspec.Struct, kw_only=True):
    """The state of a run. `notes` are the client's own."""

    version: int
    run_id: str
    status: str
    workflow_name: str | None
    worker_id: str
    progress: float
    current_node: str | None
    completed_nodes: int
    total_nodes: int
    output_dir: str | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    updated_at: datetime
    error: dict[str, Any] | None
    fetch: dict[str, Any]
    notes: dict[str, Any]


class RunStateList(msgspec.Struct, kw_only=True):
    runs: list[RunStateBody]


class SaveRunStateRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Notes to be merged into a run's state; null takes one away. With `version` only where the
    state is still that one.
    """

    workflow_id: str
    notes: dict[str, Any] = {}
    version: int | None = None


class ClearedRunStates(msgspec.Struct, kw_only=True):
    cleared: int


class RunSummary(msgspec.Struct, kw_only=True):
    total: int
    active: int
    by_status: dict[str, int]
    not_fetched: list[str]
    """Ids of runs whose outputs could not be brought to `output_dir`."""
    runs: list[RunStateBody]
    """Those that are active."""


def run_wish(body: RunRequest, key: IdempotencyKey | None) -> RunWish:
    return RunWish(
        worker=body.worker,
        connection=_ssh_settings(body.ssh_connection) if body.ssh_connection else None,
        workflow=given_text(body.workflow),
        workflow_file=body.workflow_file,
        input_images=body.input_images,
        output_dir=body.output_dir,
        name=body.workflow_name,
        idempotency=key,
    )


def _ssh_settings(connection: SshConnection) -> dict[str, Any]:
    for name in ("password", "private_key"):
        if given_text(getattr(connection, name)) is not None:
            raise RequestError(
                f"ssh_connection.{name} is not taken: a secret has no place in a request. Put a "
                "key on the server and name its file as 'key_file'; its passphrase goes into a "
                "credential of the server that 'passphrase_secret' names.",
                code="SSH_SECRET_REFUSED",
                details={"field": f"ssh_connection.{name}"},
            )
    given = {ours: getattr(connection, name) for name, ours in SSH_SETTING_OF.items()}
    return {name: value for name, value in given.items() if value is not None}


def run_reply(started: Started, limit: int | None) -> RunReply:
    accepted = started.accepted
    if accepted.is_replay:
        message = "This run was taken before under the same Idempotency-Key."
    elif limit is not None and started.running >= limit:
        message = (
            f"The run waits: {started.running} runs are on '{started.worker.id}' already, and at "
            f"most {limit} are at once."
        )
    elif accepted.queue_position is None:
        message = "The run is in the queue."
    else:
        message = f"The run is in the queue, in place {accepted.queue_position}."
    return RunReply(success=True, workflow_id=accepted.job_id, message=message)


def progress_body(progress: RunProgress) -> RunProgressBody:
    status, job = progress.status, progress.status.job
    fault = job.fault
    fraction = 1.0 if job.state == "completed" else job.progress.fraction
    return RunProgressBody(
        workflow_id=job.id,
        workflow_name=progress.record.name if progress.record else None,
        status=progress.word,
        message=_message(progress),
        prompt_id=(status.attempts[-1].prompt_id or None) if status.attempts else None,
        worker=job.worker_id or (progress.record.worker if progress.record else None),
        queue_position=status.queue_position,
        current_node=job.progress.current_node,
        total_nodes=job.progress.total_nodes,
        completed_nodes=job.progress.completed_nodes,
        progress_percent=round(100 * fraction, 2),
        nodes=[_node(each) for each in progress.nodes],
        outputs=[run_output(each, progress.state) for each in status.outputs],
        error=None
        if fault is None
        else ExecutionError(
            category=fault.category,
            code=fault.code,
            message=fault.message,
            details=fault.details,
            retry_after=fault.retry_after,
        ),
    )


def _message(progress: RunProgress) -> str | None:
    state = progress.state
    fetch = None if state is None else state.state.fetch
    if fetch is not None and fetch.state == FETCH_FAILED:
        return f"The outputs could not be brought to output_dir: {fetch.error}"
    if fetch is not None and fetch.error is not None:
        return f"The outputs are not in output_dir yet: {fetch.error}"
    if progress.status.job.fault is not None:
        return progress.status.job.fault.message
    return progress.status.waiting_for


def _node(result: NodeResult) -> RunNode:
    return RunNode(
        node_id=result.node_id,
        node_type=result.class_type,
        status=NODE_STATUS_OF[result.status],
        progress=1.0 if result.status in DONE else result.progress or 0.0,
        message=result.error_message,
    )


def run_output(output: Output, known: KnownState | None) -> RunOutput:
    path = None
    if known is not None and known.state.output_dir:
        is_done = known.state.fetch.state == FETCHED
        files = known.state.fetch.files
        names = {each.output_id: each.filename for each in files if is_done or each.is_written}
        name = names.get(output.file.id)
        path = str(Path(known.state.output_dir) / name) if name else None
    return RunOutput(**msgspec.structs.asdict(output_body(output)), path=path)


def state_body(known: KnownState) -> RunStateBody:
    fields = msgspec.structs.asdict(known.state)
    for name in ("created_at", "updated_at"):
        fields[name] = moment(Instant(fields[name]))
    for name in ("started_at", "completed_at"):
        fields[name] = time_of(fields[name])
    fields["fetch"] = msgspec.to_builtins(known.state.fetch)
    return RunStateBody(version=known.version, **fields)
