"""The one place where a job changes state: row and event in one transaction."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from comfyrail.clock import Instant, after
from comfyrail.errors import Conflict, IdempotencyMismatch, RequestError, StaleAttempt
from comfyrail.ids import AttemptToken, JobId, TenantId
from comfyrail.jobs.events import EVENT_OF_STATE, EventType, NewEvent
from comfyrail.jobs.faults import queue_timeout
from comfyrail.jobs.job import Attempt, IdempotencyKey, Job, JobInput, NewJob, Usage
from comfyrail.jobs.life_cycle import end_of_tier
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.outcome import RETRYING, Conclusion, Failed, Lost, Outcome, Past, conclude
from comfyrail.jobs.output_config import AS_IT_IS, Tier
from comfyrail.jobs.priority import Standing
from comfyrail.jobs.queue import Placement, QueuePlace
from comfyrail.jobs.recovery import (
    RecoveryKind,
    Remedy,
    Retry,
    RetryRules,
    needs_after,
    timeout_after,
)
from comfyrail.jobs.states import AttemptState, JobState, check_transition
from comfyrail.store.interface import RECORDS_KEPT, Assignment, Enqueued
from comfyrail.store.signals import (
    BATCHES,
    FOLLOWED,
    HELD,
    INDEX,
    QUEUE,
    RECORDS,
    cancel_topic,
    job_topic,
    tenant_topic,
)
from comfyrail.store.sqlite.media_rows import want_look
from comfyrail.store.sqlite.outbox import JobMark, keep_own_webhook, tell, tells_of
from comfyrail.store.sqlite.queue_figures import QueueFigures, bucket_start
from comfyrail.store.sqlite.readers import Snapshot
from comfyrail.store.sqlite.rows import encode, output_values, read_attempt, read_job
from comfyrail.store.sqlite.usage_counts import check_room, count_attempt, count_jobs
from comfyrail.store.sqlite.writer import Transaction

SCHEDULED = "scheduled"
"""The reason of a queued job that is held back for its time."""
IDEMPOTENCY_SECONDS = 86_400.0
"""How long a key of a request is remembered."""


def enqueue(tx: Transaction, job: NewJob) -> Enqueued:
    if job.idempotency is not None:
        replay = find_by_key(tx, job.tenant, job.idempotency, tx.now)
        if replay is not None:
            return replay
    for each in job.inputs:
        _check_input(tx, each)
    _check_alias(tx, job)
    if job.batch is None:
        check_room(tx, job.tenant, job.quota)
        count_jobs(tx, job.tenant)
    first_start = max(job.submitted_at, job.not_before or job.submitted_at)
    is_held = job.not_before is not None and job.not_before > tx.now
    tx.run("insert_group", key=job.needs.group, needs=job.needs.encode())
    tx.run(
        "insert_job",
        id=job.id,
        tenant=job.tenant,
        reason=SCHEDULED if is_held else None,
        priority=job.priority,
        rank=job.rank,
        queue_class=job.standing.queue_class,
        queue_group=job.needs.group,
        effective_priority=job.standing.priority,
        not_before=job.not_before,
        held_until=job.not_before if is_held else None,
        queue_timeout=job.queue_timeout,
        expires_at=expiry(tx, first_start, job.queue_timeout),
        batch_id=job.batch.batch_id if job.batch else None,
        batch_index=job.batch.index if job.batch else None,
        batch_name=job.batch.name if job.batch else None,
        timeout_seconds=job.timeout_seconds,
        expected_seconds=job.expected_seconds,
        estimated_cost=job.estimated_cost,
        submitted_at=job.submitted_at,
        total_nodes=job.node_count,
        max_retries=job.max_retries,
        surface=job.origin.surface,
        origin_key=job.origin.key,
        alias=job.origin.alias,
        workflow_id=job.workflow_id,
        tells=tells_of(job),
    )
    tx.run(
        "insert_prompt",
        job_id=job.id,
        prompt=job.prompt,
        execution_config=job.execution_config,
        origin=job.origin.data,
        extra_data=job.extra_data,
        output_config=None if job.output_config == AS_IT_IS else encode(job.output_config),
        layout=job.layout,
    )
    for each in job.inputs:
        _need_input(tx, job.id, each)
    if job.idempotency is not None:
        tx.run(
            "insert_key",
            tenant=job.tenant,
            key=job.idempotency.kept_as,
            fingerprint=job.idempotency.fingerprint,
            job_id=job.id,
            now=tx.now,
        )
    if job.origin.is_followed:
        tx.run("follow_job", job_id=job.id, tenant=job.tenant)
        tx.notify(FOLLOWED)
    data: dict[str, Any] = {
        "priority": job.priority,
        "effective_priority": round(job.standing.priority, 2),
        "queue_class": job.standing.queue_class,
    }
    place = None
    if is_held:
        data |= {"reason": SCHEDULED, "not_before": job.not_before}
        tx.notify(HELD)
    else:
        place = place_of(tx, tx.figures, job.rank, job.id)
        data |= _described(tx, place, job.needs)
        tx.count(job.standing.queue_class, job.rank, 1, job.expected_seconds)
    keep_own_webhook(tx, job)
    mark = JobMark(job.id, 1, job.workflow_id, job.origin.surface, tells_of(job))
    _write_event(tx, job.tenant, mark, NewEvent(EventType.QUEUED, data))
    tx.notify(QUEUE)
    return Enqueued(job.id, job.submitted_at, job.expected_seconds, place)


def _check_alias(tx: Transaction, job: NewJob) -> None:
    """It takes the place in the history of the one that had its id before."""
    alias, surface = job.origin.alias, job.origin.surface
    if alias is None:
        return
    found = tx.one("find_by_alias", tenant=job.tenant, surface=surface, alias=alias)
    if found is None:
        return
    if not JobState(found["state"]).is_final:
        raise Conflict(
            f"A job with the id '{alias[:80]}' has not ended yet. Give another one, or none.",
            code="JOB_ID_IN_USE",
        )
    tx.run("hide_job", tenant=job.tenant, job_id=found["id"])


def _check_input(tx: Transaction, needed: JobInput) -> None:
    """Raise RequestError where what it is of is gone: its bytes may go at any time then."""
    if needed.output is not None:
        job_id, output_id = needed.output
        found = tx.one("get_output", job_id=job_id, output_id=output_id)
        found = found if found is not None and found["gone_at"] is None else None
    else:
        found = tx.one("find_asset_by_id", asset_id=needed.asset_id)
    if found is None:
        name = needed.name.rpartition("/")[2]
        raise RequestError(
            f"The input file '{name}' was deleted while the job was submitted. Upload it again.",
            code="MISSING_INPUT_FILE",
            details={"name": name},
        )


def _need_input(tx: Transaction, job_id: JobId, needed: JobInput) -> None:
    tx.run(
        "insert_job_input",
        job_id=job_id,
        name=needed.name,
        blob_key=needed.blob_key,
        asset_id=needed.asset_id,
    )


def find_by_key(
    source: Transaction | Snapshot, tenant: TenantId, key: IdempotencyKey, now: Instant
) -> Enqueued | None:
    """The job of an earlier request under the same key."""
    oldest = after(now, -IDEMPOTENCY_SECONDS)
    row = source.one("get_key", tenant=tenant, key=key.kept_as, oldest=oldest)
    if row is None:
        return None
    if row["fingerprint"] != key.fingerprint:
        raise IdempotencyMismatch(
            f"The idempotency key {key.key[:80]!r} was used for another request before. "
            "Use a new key for a new request.",
            details={"execution_id": row["id"]},
        )
    return Enqueued(
        JobId(row["id"]),
        Instant(row["submitted_at"]),
        row["expected_seconds"],
        place=None,
        is_replay=True,
        state=JobState(row["state"]),
    )


def place_of(
    source: Transaction | Snapshot, figures: QueueFigures, rank: int, job_id: JobId
) -> QueuePlace:
    """Where a job with this rank stands. Only one small bucket of the queue is read."""
    jobs, seconds = figures.before_bucket(rank)
    row = source.one("count_ahead", start=bucket_start(rank), rank=rank, job_id=job_id)
    if row is not None:
        jobs, seconds = jobs + row["jobs"], seconds + row["seconds"]
    return QueuePlace(jobs + 1, seconds)


def release(tx: Transaction, row: Any) -> None:
    """Let a held job into the queue: its time has come."""
    job = read_job(row)
    expires_at = _patience(tx, row, job.bounces, tx.now)
    tx.run("release_job", job_id=job.id, expires_at=expires_at)
    place = place_of(tx, tx.figures, job.rank, job.id)
    tx.count(job.queue_class, job.rank, 1, job.expected_seconds)
    reason = RETRYING if job.reason == RETRYING else "due"
    data = {"priority": job.priority, "reason": reason, **_described(tx, place, None)}
    append_event(tx, job.id, NewEvent(EventType.QUEUED, data))
    tx.notify(QUEUE)


def expire(tx: Transaction, row: Any) -> JobId:
    """Fail a job that has waited longer than it may."""
    job = read_job(row)
    fault = queue_timeout(row["queue_timeout"] or 0.0)
    count_attempt(tx, job.tenant, JobState.FAILED)
    _end(tx, job, Conclusion(AttemptState.LOST, JobState.FAILED, fault, None, job.retries))
    return job.id


def reprioritize(tx: Transaction, job: Job, priority: int, standing: Standing) -> Job:
    since = max(job.submitted_at, job.not_before or job.submitted_at)
    rank = standing.rank(since)
    tx.run(
        "reprioritize_job",
        job_id=job.id,
        priority=priority,
        effective_priority=standing.priority,
        queue_class=standing.queue_class,
        rank=rank,
    )
    data: dict[str, Any] = {"priority": priority, "reason": "reprioritized"}
    if not job.is_held:
        tx.count(job.queue_class, job.rank, -1, -job.expected_seconds)
        data |= _described(tx, place_of(tx, tx.figures, rank, job.id), None)
        tx.count(standing.queue_class, rank, 1, job.expected_seconds)
    append_event(tx, job.id, NewEvent(EventType.QUEUED, data))
    tx.notify(QUEUE)
    return _get_job(tx, job.id)


def _described(tx: Transaction, place: QueuePlace, needs: JobNeeds | None) -> dict[str, Any]:
    """A place in the queue as its event tells it."""
    wait = tx.figures.predict_wait(place, needs)
    return {
        "queue_position": place.position,
        "predicted_wait": None if wait is None else round(wait, 1),
    }


def expiry(tx: Transaction, since: Instant, queue_timeout: float | None) -> Instant | None:
    """In the time of the queue, which stands still while it is paused."""
    if queue_timeout is None:
        return None
    return Instant(after(since, queue_timeout) - tx.figures.paused_milliseconds(tx.now))


def _patience(tx: Transaction, row: Any, bounces: int, since: Instant) -> Instant | None:
    """When a job expires that may start from `since` on. One that was given to workers which did
    not begin it has waited all the time.
    """
    return row["expires_at"] if bounces else expiry(tx, since, row["queue_timeout"])


def start(
    tx: Transaction, assignment: Assignment, owner: str, lease_expires_at: Instant
) -> Attempt | None:
    """Begin an attempt, or None when the job may not start any more: it is not queued, or held
    back, or its batch is to end.
    """
    row = tx.one("get_job", job_id=assignment.job_id)
    if row is None or row["state"] != JobState.QUEUED or row["held_until"] is not None:
        return None
    job = read_job(row)
    if job.batch_id is not None and tx.one("is_batch_ending", batch_id=job.batch_id) is not None:
        return None
    _enter(
        tx,
        job,
        JobState.PROCESSING,
        "start_job",
        {
            "worker_id": assignment.worker_id,
            "attempt": job.attempts + 1,
            **_told_placement(assignment.placement),
        },
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
        lease_expires_at=lease_expires_at,
        placement=encode(assignment.placement) if assignment.placement else None,
        now=tx.now,
    )
    return get_attempt(tx, assignment.token)


def _told_placement(placement: Placement | None) -> dict[str, Any]:
    if placement is None:
        return {}
    return {
        "score": round(placement.score, 4),
        "estimated_cost": placement.cost,
        "warm_models": placement.warm_models,
        "models": placement.models,
    }


def finish(
    tx: Transaction,
    token: AttemptToken,
    outcome: Outcome,
    events: Sequence[NewEvent] = (),
    usage: Usage | None = None,
    rules: RetryRules | None = None,
) -> Job:
    row = find_running(tx, token)
    if usage is not None:
        _add_usage(tx, JobId(row["job_id"]), usage)
    job = _get_job(tx, JobId(row["job_id"]))
    conclusion = conclude(job, outcome, _past(tx, job, row, outcome, rules or RetryRules()))
    check_transition(job.state, conclusion.job_state)
    end = None if conclusion.retry is not None else conclusion.job_state
    count_attempt(tx, job.tenant, end, usage)
    for event in events:
        append_event(tx, job.id, event)
    retry = conclusion.retry
    is_counted = retry is not None and retry.remedy is not None
    tx.run(
        "end_attempt",
        token=token,
        state=conclusion.attempt_state,
        now=tx.now,
        cause=outcome.cause if isinstance(outcome, Lost) else None,
        fault=encode(outcome.fault) if isinstance(outcome, Failed) else None,
        recovery=retry.remedy.kind if retry and retry.remedy else None,
        retry_delay=retry.delay if retry and is_counted else None,
    )
    for position, output in enumerate(conclusion.outputs):
        tx.run(
            "insert_output",
            job_id=job.id,
            attempt=row["number"],
            position=position,
            is_partial=conclusion.job_state is not JobState.COMPLETED,
            created_at=tx.now,
            tenant=job.tenant,
            next_step_at=end_of_tier(Tier.IMMEDIATE, tx.now),
            **output_values(output),
        )
        want_look(tx, output.blob_key, output.content_type)
    if conclusion.outputs and retry is not None:
        _want_index(tx, job.id)
    if retry is not None:
        told = {"cause": _cause(outcome), "worker_id": row["worker_id"]}
        if isinstance(outcome, Failed):
            told["error"] = outcome.fault
        return _requeue(tx, job, conclusion, retry, told)
    return _end(tx, job, conclusion)


def _past(tx: Transaction, job: Job, attempt: Any, outcome: Outcome, rules: RetryRules) -> Past:
    """What was tried before; looked up only where it matters."""
    seconds = max(0, tx.now - attempt["started_at"]) / 1000
    chance = random.random()  # noqa: S311 - to spread retries
    if not job.retries or not isinstance(outcome, Failed | Lost):
        return Past(rules=rules, chance=chance, seconds=seconds)
    rows = tx.all("count_recoveries", job_id=job.id)
    recoveries = {RecoveryKind(row["recovery"]): row["attempts"] for row in rows}
    return Past(recoveries, rules, chance, seconds)


def _cause(outcome: Outcome) -> str | None:
    match outcome:
        case Lost(cause):
            return cause
        case Failed(fault):
            return fault.message
        case _:
            return None


def _add_usage(tx: Transaction, job_id: JobId, usage: Usage) -> None:
    tx.run("add_cost", job_id=job_id, cost=usage.cost)
    if usage.record is not None:
        added = tx.one("insert_record", record=usage.record)
        tx.run("prune_records", last=added["sequence"] if added else 0, kept=RECORDS_KEPT)
        tx.notify(RECORDS)


def cancel_queued(tx: Transaction, job: Job) -> Job:
    tx.run("request_cancel", job_id=job.id)
    tx.notify(QUEUE)  # a worker may just have been meant for it
    count_attempt(tx, job.tenant, JobState.CANCELLED)
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
    if counted is None:
        raise StaleAttempt(f"The job {job_id} is gone.")
    mark = JobMark(
        job_id,
        counted["last_event"],
        counted["workflow_id"],
        counted["surface"],
        counted["tells"],
    )
    _write_event(tx, TenantId(counted["tenant"]), mark, event)


def _write_event(tx: Transaction, tenant: TenantId, job: JobMark, event: NewEvent) -> None:
    tx.run(
        "insert_event",
        tenant=tenant,
        job_id=job.id,
        number=job.number,
        type=event.type,
        at=tx.now,
        data=encode(event.data),
    )
    tx.notify(job_topic(job.id))
    tx.notify(tenant_topic(tenant))
    tell(tx, tenant, event, job)


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


def _requeue(
    tx: Transaction, job: Job, end: Conclusion, retry: Retry, told: Mapping[str, Any]
) -> Job:
    tx.notify(QUEUE)
    row = tx.one("get_job", job_id=job.id)
    if row is None:
        raise StaleAttempt(f"The job {job.id} is gone.")
    held_until = after(tx.now, retry.delay) if retry.delay > 0 else None
    expires_at = _patience(tx, row, end.bounces, held_until or tx.now)
    if end.bounces and held_until is not None and expires_at is not None:
        # It fails when its patience is over, not when it would have been tried once more.
        held_until = min(held_until, _by_the_clock(tx, expires_at))
    group, timeout, nodes = row["queue_group"], job.timeout_seconds, job.progress.total_nodes
    data: dict[str, Any] = {
        "priority": job.priority,
        "reason": end.reason,
        "attempt": job.attempts,
        "retries": end.retries,
        **told,
    }
    if held_until is None:
        data |= _described(tx, place_of(tx, tx.figures, job.rank, job.id), None)
    else:
        data["retry_at"] = held_until
        tx.notify(HELD)
    remedy = retry.remedy
    if remedy is not None:
        group = _change_group(tx, group, remedy)
        timeout = timeout_after(timeout, remedy)
        data |= {"recovery": remedy.kind, "delay": round(retry.delay, 3), "timeout": timeout}
        if remedy.prompt is not None:
            tx.run("replace_prompt", job_id=job.id, prompt=remedy.prompt)
            nodes = remedy.node_count or nodes
            data["changes"] = list(remedy.changes)
    return _enter(
        tx,
        job,
        JobState.QUEUED,
        "requeue_job",
        data,
        reason=end.reason,
        retries=end.retries,
        expires_at=expires_at,
        held_until=held_until,
        bounces=end.bounces,
        runs_alone=end.runs_alone,
        queue_group=group,
        timeout_seconds=timeout,
        total_nodes=nodes,
    )


def _by_the_clock(tx: Transaction, expires_at: Instant) -> Instant:
    return Instant(expires_at + tx.figures.paused_milliseconds(tx.now))


def _change_group(tx: Transaction, group: str, remedy: Remedy) -> str:
    """The group of the job with what it asks of its worker from now on."""
    row = tx.one("get_group", key=group)
    if row is None:
        return group
    needs = needs_after(JobNeeds.decode(row["needs"]), remedy)
    if needs.group != group:
        tx.run("insert_group", key=needs.group, needs=needs.encode())
    return needs.group


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
    if job.state is JobState.QUEUED and not job.is_held:
        tx.count(job.queue_class, job.rank, -1, -job.expected_seconds)
    tx.one(query, job_id=job.id, **values)
    if state is JobState.QUEUED and values.get("held_until") is None:
        tx.count(job.queue_class, job.rank, 1, job.expected_seconds)
    append_event(tx, job.id, NewEvent(EVENT_OF_STATE[state], data))
    if state.is_final:
        _want_index(tx, job.id)
    if job.batch_id is not None and state.is_final:
        if state is JobState.FAILED:
            tx.run("stop_failed_batch", batch_id=job.batch_id, now=tx.now)
        tx.notify(BATCHES)
    return _get_job(tx, job.id)


def _want_index(tx: Transaction, job_id: JobId) -> None:
    """It and its outputs are to be found by the texts of its graph."""
    tx.run("want_index", job_id=job_id)
    tx.notify(INDEX)


def _get_job(tx: Transaction, job_id: JobId) -> Job:
    row = tx.one("get_job", job_id=job_id)
    if row is None:
        raise StaleAttempt(f"The job {job_id} is gone.")
    return read_job(row)
