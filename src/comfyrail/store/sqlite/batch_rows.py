"""Rows of batches as values, and what the rows of their jobs add up to."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from comfyrail.clock import Instant
from comfyrail.ids import BatchId, TenantId
from comfyrail.jobs.batches import (
    Batch,
    BatchCounts,
    BatchKind,
    BatchMember,
    BatchNote,
    Trial,
)
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.parameter_search import Search
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import WatchedBatch
from comfyrail.store.sqlite.readers import Snapshot
from comfyrail.store.sqlite.writer import Transaction

NOTES_SHOWN = 20

_decode_parameters = msgspec.json.Decoder(dict[str, Any]).decode
_decode_fault = msgspec.json.Decoder(Fault).decode


def read_member(row: sqlite3.Row) -> BatchMember:
    return BatchMember(
        index=row["number"],
        name=row["name"],
        job_id=row["job_id"],
        state=None if row["state"] is None else JobState(row["state"]),
        progress=row["progress"] or 0.0,
        parameters=_read_parameters(row),
        score=row["score"],
        note=row["note"],
        started_at=row["started_at"],
        completed_at=row["completed_at"],
        cost=row["cost"],
        fault=None if row["fault"] is None else _decode_fault(row["fault"]),
    )


def _read_parameters(row: sqlite3.Row) -> Mapping[str, Any]:
    return _decode_parameters(row["parameters"])


def read_search(row: sqlite3.Row) -> Search | None:
    return None if row["search"] is None else Search.decode(row["search"])


def read_watched(row: sqlite3.Row) -> WatchedBatch:
    return WatchedBatch(
        id=BatchId(row["id"]),
        tenant=TenantId(row["tenant"]),
        tier=row["tier"],
        planned=row["planned"],
        made=row["made"],
        unsettled=row["unsettled"],
        is_opening=row["stage"] == "opening",
        is_active=bool(row["is_active"]),
        is_cancelled=row["cancelled_at"] is not None,
        is_stopped=row["stopped_at"] is not None,
        must_stop=bool(row["stop_on_error"] and row["has_failed"]),
        search=read_search(row),
    )


def summed_up(source: Transaction | Snapshot, row: sqlite3.Row) -> Batch:
    batch_id = BatchId(row["id"])
    states = {each["state"]: each for each in source.all("count_batch_jobs", batch_id=batch_id)}
    running = source.one("sum_batch_progress", batch_id=batch_id)
    search = read_search(row)
    unmade, awaiting = 0, 0
    best: Sequence[Trial] = ()
    if search is not None:
        items = source.one("count_batch_items", batch_id=batch_id)
        unmade, awaiting = (items["unmade"], items["awaiting_score"]) if items else (0, 0)
        best = best_trials(source, batch_id, search, limit=1)
    is_ending = row["cancelled_at"] is not None or row["stopped_at"] is not None
    costs = [each["cost"] for each in states.values() if each["cost"] is not None]
    active = [states[state]["seconds"] for state in ("queued", "processing") if state in states]
    return Batch(
        id=batch_id,
        tenant=TenantId(row["tenant"]),
        name=row["name"],
        kind=BatchKind(row["kind"]),
        planned=row["planned"],
        submitted_at=Instant(row["submitted_at"]),
        stop_on_error=bool(row["stop_on_error"]),
        counts=BatchCounts(
            **{state: each["jobs"] for state, each in states.items()},
            unmade=unmade,
            awaiting_score=0 if is_ending else awaiting,
        ),
        cancelled_at=row["cancelled_at"],
        stopped_at=row["stopped_at"],
        is_growing=search is not None and bool(row["is_watched"]),
        search=search,
        best=best[0] if best else None,
        notes=[
            BatchNote(each["number"], each["note"])
            for each in source.all("batch_notes", batch_id=batch_id, limit=NOTES_SHOWN)
        ],
        started_at=_extreme(min, [each["started_at"] for each in states.values()]),
        last_end=_extreme(max, [each["last_end"] for each in states.values()]),
        cost=sum(costs) if costs else None,
        running_progress=running["progress"] if running else 0.0,
        expected_seconds=max(0.0, sum(active) - (running["seconds_done"] if running else 0.0)),
    )


def _extreme(
    choose: Callable[[Iterable[int]], int], moments: Iterable[int | None]
) -> Instant | None:
    known = [moment for moment in moments if moment is not None]
    return Instant(choose(known)) if known else None


def best_trials(
    source: Transaction | Snapshot, batch_id: BatchId, search: Search, limit: int
) -> list[Trial]:
    query = "highest_scores" if search.goal == "maximize" else "lowest_scores"
    return [
        Trial(row["number"], row["job_id"], _read_parameters(row), row["score"])
        for row in source.all(query, batch_id=batch_id, limit=limit)
    ]
