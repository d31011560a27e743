"""What is on disk, read by plain SQL and not by the store, as values of the model."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from comfyrail.ids import AttemptToken, BatchId, JobId, TenantId, WorkerId
from comfyrail.jobs.events import FINAL_EVENTS
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.priority import QueueClass
from comfyrail.jobs.recovery import RecoveryKind
from comfyrail.jobs.states import AttemptState, JobState
from comfyrail.store.sqlite.database import connect
from tests.store.life_cycle.model import UNKNOWN, Model, ModelAttempt, ModelJob, ModelOutput, Span

Rows = Mapping[JobId, Sequence[sqlite3.Row]]


@dataclass(frozen=True, slots=True)
class Observation:
    """All rows about jobs, of one moment in which nobody writes."""

    jobs: Mapping[JobId, sqlite3.Row]
    attempts: Rows
    events: Rows
    outputs: Rows
    prompts: Mapping[JobId, bytes]
    needs: Mapping[str, JobNeeds]
    batches: Mapping[BatchId, sqlite3.Row]

    def waiting(self) -> list[sqlite3.Row]:
        """Jobs that may start, in the order of the queue."""
        rows = [row for row in self.jobs.values() if row["state"] == "queued"]
        startable = [row for row in rows if row["held_until"] is None]
        return sorted(startable, key=lambda row: (row["rank"], row["id"]))


class Observer:
    """A connection of its own to a store's file."""

    def __init__(self, folder: Path) -> None:
        self._connection = connect(folder, read_only=True)

    def close(self) -> None:
        self._connection.close()

    def look(self) -> Observation:
        return Observation(
            {JobId(row["id"]): row for row in self._all("jobs", "id")},
            self._by_job("attempts", "number"),
            self._by_job("events", "number"),
            self._by_job("outputs", "attempt, position"),
            {JobId(row["job_id"]): row["prompt"] for row in self._all("job_prompts", "job_id")},
            {row["key"]: JobNeeds.decode(row["needs"]) for row in self._all("job_groups", "key")},
            {BatchId(row["id"]): row for row in self._all("batches", "id")},
        )

    def _all(self, table: str, order: str) -> list[sqlite3.Row]:
        return self._connection.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()

    def _by_job(self, table: str, order: str) -> Rows:
        found: dict[JobId, list[sqlite3.Row]] = defaultdict(list)
        for row in self._all(table, f"job_id, {order}"):
            found[row["job_id"]].append(row)
        return found


def broken_rules(seen: Observation) -> list[str]:
    """What must never be on disk, whatever was done before."""
    broken = [f"{job_id}: {what}" for job_id in seen.jobs for what in _broken_of(seen, job_id)]
    for name, rows in (("attempts", seen.attempts), ("events", seen.events)):
        broken += [f"{name} of {job_id}, which is gone" for job_id in rows.keys() - seen.jobs]
    broken += [f"outputs of {job_id}, which is gone" for job_id in seen.outputs.keys() - seen.jobs]
    return broken


def _broken_of(seen: Observation, job_id: JobId) -> Iterator[str]:
    yield from _broken_events(seen.jobs[job_id], seen.events.get(job_id, ()))
    yield from _broken_attempts(seen.jobs[job_id], seen.attempts.get(job_id, ()))
    yield from _broken_outputs(seen, job_id)
    row = seen.jobs[job_id]
    if row["retries"] > row["max_retries"]:
        yield f"{row['retries']} retries, {row['max_retries']} allowed"
    if not JobState(row["state"]).is_final and row["queue_group"] not in seen.needs:
        yield "nobody knows what it needs"
    if job_id not in seen.prompts:
        yield "its graph is gone"


def _broken_events(job: sqlite3.Row, events: Sequence[sqlite3.Row]) -> Iterator[str]:
    if [event["number"] for event in events] != list(range(1, job["last_event"] + 1)):
        yield f"events {[event['number'] for event in events]}, the last is {job['last_event']}"
    finals = [event["number"] for event in events if event["type"] in FINAL_EVENTS]
    if finals != ([job["last_event"]] if JobState(job["state"]).is_final else []):
        yield f"is {job['state']} and has final events {finals} of {job['last_event']}"


def _broken_attempts(job: sqlite3.Row, attempts: Sequence[sqlite3.Row]) -> Iterator[str]:
    if [each["number"] for each in attempts] != list(range(1, job["attempts"] + 1)):
        yield f"attempts {[each['number'] for each in attempts]} of {job['attempts']}"
    states = [each["state"] for each in attempts]
    if states.count("running") != (job["state"] == "processing"):
        yield f"is {job['state']} with attempts {states}"
    if states.count("completed") != (job["state"] == "completed"):
        yield f"is {job['state']} with attempts {states}"
    if "running" in states[:-1] or "completed" in states[:-1]:
        yield f"went on after attempts {states}"
    retried = [each for each in attempts if each["recovery"] is not None]
    if len(retried) != job["retries"]:
        yield f"{job['retries']} retries, and {len(retried)} attempts were tried again"
    if any((each["recovery"] is None) != (each["retry_delay"] is None) for each in attempts):
        yield "a retry without a delay, or a delay without a retry"


def _broken_outputs(seen: Observation, job_id: JobId) -> Iterator[str]:
    states = {each["number"]: each["state"] for each in seen.attempts.get(job_id, ())}
    for output in seen.outputs.get(job_id, ()):
        state = states.get(output["attempt"], "gone")
        if state not in {"completed", "failed", "cancelled"}:
            yield f"an output of attempt {output['attempt']}, which is {state}"
        if bool(output["is_partial"]) != (state != "completed"):
            yield f"an output of an attempt that is {state} has is_partial {output['is_partial']}"


def settle(model: Model, seen: Observation, lease_shift: int) -> tuple[Model, list[str]]:
    """The model with what only the store could know (the delay of a retry, a new token), and how
    the two differ otherwise.

    `lease_shift`: what the model's steady clock shows more than the store's.
    """
    settled = model.copy()
    differences = [f"{job_id} is gone" for job_id in model.jobs.keys() - seen.jobs]
    differences += [f"{job_id} came from nowhere" for job_id in seen.jobs.keys() - model.jobs]
    for job_id in model.jobs.keys() & seen.jobs.keys():
        known = model.jobs[job_id]
        found = _read(seen, job_id, known, lease_shift)
        settled.jobs[job_id] = known = _learn(model, known, found)
        differences += _different(known, found)
    differences += _different_batches(model, seen)
    return settled, differences


def _learn(model: Model, known: ModelJob, found: ModelJob) -> ModelJob:
    if known.held and found.held and known.held.holds(found.held.earliest):
        known = replace(known, held=found.held)
    running, there = known.running, found.running
    if running is None or there is None or running.token != UNKNOWN:
        return known
    is_new = there.token not in model.dead_tokens and model.by_token(there.token) is None
    return known.with_attempt(replace(running, token=there.token)) if is_new else known


def _different(known: ModelJob, found: ModelJob) -> list[str]:
    if known == found:
        return []
    return [
        f"{known.id}: {name} is {getattr(found, name)!r}, not {getattr(known, name)!r}"
        for name in ModelJob.__dataclass_fields__
        if getattr(known, name) != getattr(found, name)
    ]


def _different_batches(model: Model, seen: Observation) -> list[str]:
    known = {each.id: (each.is_cancelled, each.is_stopped) for each in model.batches.values()}
    found = {
        batch_id: (row["cancelled_at"] is not None, row["stopped_at"] is not None)
        for batch_id, row in seen.batches.items()
    }
    return [] if known == found else [f"batches are {found}, not {known}"]


def _read(seen: Observation, job_id: JobId, known: ModelJob, lease_shift: int) -> ModelJob:
    """A job as it is on disk; what has no column of its own is taken from the model."""
    row = seen.jobs[job_id]
    is_held = row["state"] == "queued" and row["held_until"] is not None
    return ModelJob(
        id=job_id,
        tenant=TenantId(row["tenant"]),
        priority=row["priority"],
        rank=row["rank"],
        queue_class=QueueClass(row["queue_class"]),
        expected_seconds=row["expected_seconds"],
        max_retries=row["max_retries"],
        timeout_seconds=row["timeout_seconds"],
        needs=seen.needs.get(row["queue_group"], known.needs),
        prompt=seen.prompts[job_id],
        since=known.since,
        state=JobState(row["state"]),
        reason=row["reason"],
        held=Span(row["held_until"], row["held_until"]) if is_held else None,
        queue_timeout=row["queue_timeout"],
        expires=known.expires,
        retries=row["retries"],
        cancel_requested=bool(row["cancel_requested"]),
        fault=_code(row["fault"]),
        batch_id=row["batch_id"],
        events=tuple(event["type"].split(".")[1] for event in seen.events[job_id]),
        attempts=tuple(_read_attempt(each, lease_shift) for each in seen.attempts.get(job_id, ())),
        outputs=tuple(
            ModelOutput(each["id"], each["attempt"], bool(each["is_partial"]))
            for each in seen.outputs.get(job_id, ())
        ),
    )


def _read_attempt(row: sqlite3.Row, lease_shift: int) -> ModelAttempt:
    return ModelAttempt(
        number=row["number"],
        worker_id=WorkerId(row["worker_id"]),
        token=AttemptToken(row["token"]),
        owner=row["owner"],
        lease_until=row["lease_expires_at"] + lease_shift if row["ended_at"] is None else 0,
        state=AttemptState(row["state"]),
        fault=_code(row["fault"]),
        cause=row["cause"],
        recovery=None if row["recovery"] is None else RecoveryKind(row["recovery"]),
    )


def _code(fault: Any) -> str | None:
    return None if fault is None else str(json.loads(fault)["code"])
