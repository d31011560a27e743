"""The one place where a job changes state: row and event in one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any

from comfyrail.clock import after
from comfyrail.errors import StaleAttempt
from comfyrail.ids import AttemptToken, JobId
from comfyrail.jobs.events import EVENT_OF_STATE, EventType, NewEvent
from comfyrail.jobs.job import Attempt, Job, NewJob, Usage
from comfyrail.jobs.outcome import Conclusion, Lost, Outcome, conclude
from comfyrail.jobs.states import JobState, check_transition
from comfyrail.store.interface import RECORDS_KEPT, SUBMIT_POSITION_LIMIT, Assignment
from comfyrail.store.signals import QUEUE, RECORDS, cancel_topic, job_topic
from comfyrail.store.sqlite.rows import encode, encode_names, output_values, read_attempt, read_job
from comfyrail.store.sqlite.writer import Transaction


def enqueue(tx: Transaction, job: NewJob) -> int | None:
    tx.run(
        "insert_job",
        id=job.id,
        tenant=job.tenant,
        priority=job.priority,
        rank=job.rank,
        node_types=encode_names(job.node_types),
        timeout_seconds=job.timeout_seconds,
        expected_seconds=job.expected_seconds,
        estimated_cost=job.estimated_cost,
        submitted_at=job.submitted_at,
        total_nodes=job.node_count,
    )
    tx.run(
        "insert_prompt",
        job_id=job.id,
        prompt=job.prompt,
        execution_config=job.execution_config,
    )
    position = position_of(tx, job.rank, job.id)
    data = {"queue_position": position, "priority": job.priority}
    _write_event(tx, job.id, 1, NewEvent(EventType.QUEUED, data))
    tx.notify(QUEUE)
    return position


def position_of(tx: Transaction, rank: int, job_id: JobId) -> int | None:
    limit = SUBMIT_POSITION_LIMIT
    row = tx.one("count_ahead", rank=rank, job_id=job_id, limit=limit)
    ahead: int = row["ahead"] if row else 0
    return ahead + 1 if ahead < limit else None


def start(
    tx: Transaction, assignment: Assignment, owner: str, lease_seconds: float
) -> Attempt | None:
    """Begin an attempt, or None when the job is no longer queued."""
    row = tx.one("get_job", job_id=assignment.job_id)
    if row is None or row["state"] != JobState.QUEUED:
        return None
    job = read_job(row)
    _enter(
        tx,
        job,
        JobState.PROCESSING,
        "start_job",
        {"worker_id": assignment.worker_id, "attempt": job.attempts + 1},
        worker_id=assignment.worker_id,
        now=tx.now,
    )
    tx.run(
        "insert_attempt",
        job_id=job.id,
        number=job.attempts + 1,
        worker_id=assignment.worker_id,
        token=assignment.token,
        owner=owner,
        lease_expires_at=after(tx.now, lease_seconds),
        now=tx.now,
    )
    return get_attempt(tx, assignment.token)


def finish(
    tx: Transaction,
    token: AttemptToken,
    outcome: Outcome,
    events: Sequence[NewEvent] = (),
    usage: Usage | None = None,
) -> Job:
    row = find_running(tx, token)
    if usage is not None:
        _add_usage(tx, JobId(row["job_id"]), usage)
    job = _get_job(tx, JobId(row["job_id"]))
    conclusion = conclude(job, outcome)
    check_transition(job.state, conclusion.job_state)
    for event in events:
        append_event(tx, job.id, event)
    tx.run(
        "end_attempt",
        token=token,
        state=conclusion.attempt_state,
        now=tx.now,
        cause=outcome.cause if isinstance(outcome, Lost) else None,
    )
    for position, output in enumerate(conclusion.outputs):
        tx.run(
            "insert_output",
            job_id=job.id,
            attempt=row["number"],
            position=position,
            is_partial=conclusion.job_state is not JobState.COMPLETED,
            created_at=tx.now,
            **output_values(output),
        )
    if conclusion.job_state is JobState.QUEUED:
        cause = outcome.cause if isinstance(outcome, Lost) else None
        return _requeue(tx, job, conclusion, {"cause": cause, "worker_id": row["worker_id"]})
    return _end(tx, job, conclusion)


def _add_usage(tx: Transaction, job_id: JobId, usage: Usage) -> None:
    tx.run("add_cost", job_id=job_id, cost=usage.cost)
    if usage.record is not None:
        added = tx.one("insert_record", record=usage.record)
        tx.run("prune_records", last=added["sequence"] if added else 0, kept=RECORDS_KEPT)
        tx.notify(RECORDS)


def cancel_queued(tx: Transaction, job: Job) -> Job:
    tx.run("request_cancel", job_id=job.id)
    return _enter(
        tx,
        job,
        JobState.CANCELLED,
        "end_job",
        {},
        now=tx.now,
        fault=None,
        retries=job.retries,
    )


def request_cancel(tx: Transaction, job: Job) -> Job:
    row = tx.one("request_cancel", job_id=job.id)
    tx.notify(cancel_topic(job.id))
    return read_job(row) if row else job


def append_event(tx: Transaction, job_id: JobId, event: NewEvent) -> None:
    counted = tx.one("count_event", job_id=job_id)
    _write_event(tx, job_id, counted["last_event"] if counted else 1, event)


def _write_event(tx: Transaction, job_id: JobId, number: int, event: NewEvent) -> None:
    tx.run(
        "insert_event",
        job_id=job_id,
        number=number,
        type=event.type,
        at=tx.now,
        data=encode(event.data),
    )
    tx.notify(job_topic(job_id))


def get_attempt(tx: Transaction, token: AttemptToken) -> Attempt:
    row = tx.one("get_attempt", token=token)
    if row is None:
        raise StaleAttempt("The attempt is gone.")
    return read_attempt(row)


def find_running(tx: Transaction, token: AttemptToken) -> Any:
    row = tx.one("find_running_attempt", token=token)
    if row is None:
        raise StaleAttempt("The attempt has ended or belongs to another server by now.")
    return row


def _requeue(tx: Transaction, job: Job, end: Conclusion, data: Mapping[str, Any]) -> Job:
    tx.notify(QUEUE)
    again = {
        "queue_position": position_of(tx, job.rank, job.id),
        "priority": job.priority,
        "reason": end.reason,
        "attempt": job.attempts,
        "retries": end.retries,
    }
    return _enter(
        tx,
        job,
        JobState.QUEUED,
        "requeue_job",
        {**again, **data},
        reason=end.reason,
        retries=end.retries,
    )


def _end(tx: Transaction, job: Job, end: Conclusion) -> Job:
    data: dict[str, Any] = {"attempt": job.attempts, "outputs": len(end.outputs)}
    if end.fault is not None:
        data["error"] = end.fault
    return _enter(
        tx,
        job,
        end.job_state,
        "end_job",
        data,
        now=tx.now,
        fault=encode(end.fault) if end.fault is not None else None,
        retries=end.retries,
    )


def _enter(
    tx: Transaction, job: Job, state: JobState, query: str, data: Mapping[str, Any], **values: Any
) -> Job:
    """Change the state by `query` and write the state's event."""
    check_transition(job.state, state)
    if query == "end_job":
        values["state"] = state
    tx.one(query, job_id=job.id, **values)
    append_event(tx, job.id, NewEvent(EVENT_OF_STATE[state], data))
    return _get_job(tx, job.id)


def _get_job(tx: Transaction, job_id: JobId) -> Job:
    row = tx.one("get_job", job_id=job_id)
    if row is None:
        raise StaleAttempt(f"The job {job_id} is gone.")
    return read_job(row)
