"""Rows of the database as the values that the rooms use, and back."""

import dataclasses
import sqlite3
from collections.abc import Mapping
from typing import Any

import msgspec

from comfyrail.clock import Instant
from comfyrail.ids import AttemptToken, JobId, OutputId, TenantId, WorkerId
from comfyrail.jobs.events import Event, EventType
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import Attempt, AttemptRecord, Job, NewOutput, Output, Progress
from comfyrail.jobs.life_cycle import GoneReason
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.output_config import Tier, read_output_config
from comfyrail.jobs.priority import QueueClass
from comfyrail.jobs.queue import QueuedJob
from comfyrail.jobs.recovery import RecoveryKind
from comfyrail.jobs.states import AttemptState, JobState
from comfyrail.store.interface import WorkerRecord

encode = msgspec.json.Encoder().encode
decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_fault = msgspec.json.Decoder(Fault).decode


def read_job(row: sqlite3.Row) -> Job:
    return Job(
        id=JobId(row["id"]),
        tenant=TenantId(row["tenant"]),
        state=JobState(row["state"]),
        reason=row["reason"],
        priority=row["priority"],
        rank=row["rank"],
        timeout_seconds=row["timeout_seconds"],
        expected_seconds=row["expected_seconds"],
        submitted_at=Instant(row["submitted_at"]),
        started_at=row["started_at"],
        completed_at=row["completed_at"],
        attempts=row["attempts"],
        retries=row["retries"],
        worker_id=row["worker_id"],
        cancel_requested=bool(row["cancel_requested"]),
        progress=_read_progress(row),
        fault=_decode_fault(row["fault"]) if row["fault"] is not None else None,
        queue_class=QueueClass(row["queue_class"]),
        effective_priority=row["effective_priority"],
        not_before=row["not_before"],
        expires_at=row["expires_at"],
        batch_id=row["batch_id"],
        batch_index=row["batch_index"],
        estimated_cost=row["estimated_cost"],
        cost=row["cost"],
        max_retries=row["max_retries"],
        held_until=row["held_until"],
        bounces=row["bounces"],
        runs_alone=bool(row["runs_alone"]),
        surface=row["surface"],
        origin_key=row["origin_key"],
        alias=row["alias"],
        is_hidden=bool(row["is_hidden"]),
        workflow_id=row["workflow_id"],
        webhook_delivered=_truth(row["webhook_delivered"]),
        last_event=row["last_event"],
    )


def read_queued_job(row: sqlite3.Row) -> QueuedJob:
    return QueuedJob(
        JobId(row["id"]), row["rank"], row["expected_seconds"], Instant(row["submitted_at"])
    )


def read_attempt(row: sqlite3.Row) -> Attempt:
    return Attempt(
        job_id=JobId(row["job_id"]),
        number=row["number"],
        worker_id=WorkerId(row["worker_id"]),
        token=AttemptToken(row["token"]),
        prompt_id=row["prompt_id"],
        state=AttemptState(row["state"]),
        started_at=Instant(row["started_at"]),
        timeout_seconds=row["timeout_seconds"],
        expected_seconds=row["expected_seconds"],
        tenant=TenantId(row["tenant"]),
        prompt=decode_object(row["prompt"]),
        execution_config=decode_object(row["execution_config"] or b"{}"),
        extra_data=decode_object(row["extra_data"] or b"{}"),
        progress=_read_progress(row),
        cancel_requested=bool(row["cancel_requested"]),
        models=JobNeeds.decode(row["needs"]).model_names if row["needs"] else frozenset(),
        runs_alone=bool(row["runs_alone"]),
        output_config=read_output_config(row["output_config"]),
    )


def read_attempt_record(row: sqlite3.Row) -> AttemptRecord:
    return AttemptRecord(
        number=row["number"],
        worker_id=WorkerId(row["worker_id"]),
        state=AttemptState(row["state"]),
        started_at=Instant(row["started_at"]),
        ended_at=row["ended_at"],
        cause=row["cause"],
        fault=_decode_fault(row["fault"]) if row["fault"] is not None else None,
        recovery=RecoveryKind(row["recovery"]) if row["recovery"] is not None else None,
        retry_delay=row["retry_delay"],
        prompt_id=row["prompt_id"],
    )


def read_event(row: sqlite3.Row) -> Event:
    return Event(
        job_id=JobId(row["job_id"]),
        number=row["number"],
        type=EventType(row["type"]),
        at=Instant(row["at"]),
        data=decode_object(row["data"]),
    )


def read_output(row: sqlite3.Row) -> Output:
    return Output(
        job_id=JobId(row["job_id"]),
        attempt=row["attempt"],
        position=row["position"],
        is_partial=bool(row["is_partial"]),
        created_at=Instant(row["created_at"]),
        file=NewOutput(
            id=OutputId(row["id"]),
            node_id=row["node_id"],
            kind=row["kind"],
            filename=row["filename"],
            subfolder=row["subfolder"],
            is_temporary=bool(row["is_temporary"]),
            content_type=row["content_type"],
            size=row["size"],
            sha256=row["sha256"],
            blob_key=row["blob_key"],
            blake3=row["blake3"],
        ),
        tier=Tier(row["tier"]),
        retention=None if row["retention"] is None else Tier(row["retention"]),
        gone_at=row["gone_at"],
        gone_reason=None if row["gone_reason"] is None else GoneReason(row["gone_reason"]),
    )


def output_values(output: NewOutput) -> Mapping[str, Any]:
    return dataclasses.asdict(output)


def read_worker(row: sqlite3.Row) -> WorkerRecord:
    return WorkerRecord(
        id=WorkerId(row["id"]),
        driver=row["driver"],
        endpoint=row["endpoint"],
        added_at=Instant(row["added_at"]),
        catalog_fingerprint=row["catalog_fingerprint"],
        description=row["description"],
        pool=row["pool"],
        config=decode_object(row["config"] or b"{}"),
        labels=decode_object(row["labels"] or b"{}"),
        origin=row["origin"],
        is_cordoned=bool(row["is_cordoned"]),
        is_drained=bool(row["is_drained"]),
    )


def _truth(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _read_progress(row: sqlite3.Row) -> Progress:
    return Progress(
        row["progress"], row["current_node"], row["completed_nodes"], row["total_nodes"]
    )
