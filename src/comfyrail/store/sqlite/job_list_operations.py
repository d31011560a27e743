"""The store's lists of jobs: what a text finds, what covers them, what is still open.

All of it may have to look at much, so it is read in the lane of the searches.
"""

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from comfyrail.ids import JobId, TenantId
from comfyrail.jobs.job import Job
from comfyrail.jobs.queue import QueuePlace
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import (
    JobCover,
    JobFilter,
    JobPage,
    OpenJob,
    OpenJobMark,
    OpenJobPage,
    OpenStage,
)
from comfyrail.store.search_words import has_words, text_of, words_of
from comfyrail.store.sqlite.lanes import needs_of_group
from comfyrail.store.sqlite.output_operations import match_of, versions_of
from comfyrail.store.sqlite.queue_figures import STEPS, QueueFigures, bucket_start
from comfyrail.store.sqlite.queue_operations import QueueOperations
from comfyrail.store.sqlite.readers import Snapshot
from comfyrail.store.sqlite.rows import read_job, read_output

SHORTEST_ID_PART = 8
OPEN_JOBS_READ = 500
OPEN_BYTES_READ = 8 << 20
"""Of the graphs of open jobs that one search reads: they are in no index yet."""
BEHIND_IDS = "g"
_ID_PART = re.compile(r"[0-9a-f-]{8,36}")
_ID_END = re.compile(r"[0-9a-f]{8,12}")
"""What the page shows of an id: beginnings are alike for a minute."""
_OPEN = (JobState.QUEUED, JobState.PROCESSING)
_QUERY_OF_STAGE = {
    OpenStage.PROCESSING: "open_jobs_processing",
    OpenStage.QUEUED: "open_jobs_queued",
    OpenStage.HELD: "open_jobs_held",
}


class JobListOperations(QueueOperations):
    """Part of SqliteStore. See comfyrail.store.interface.Store."""

    async def search_jobs(
        self, tenant: TenantId, where: JobFilter, after: JobId | None, limit: int
    ) -> JobPage:
        """The part of `list_jobs` for those with a text or a workflow."""
        values = _search_values(tenant, where, after, limit + 1)
        text = (where.text or "").strip()
        words = words_of(text)
        looks = _looks(tenant, text, words)

        def read(snapshot: Snapshot) -> list[Job]:
            rows = {
                str(row["id"]): row
                for look in looks
                for row in snapshot.all_given("search_jobs", **{**values, **look})
            }
            if words:
                rows |= {str(row["id"]): row for row in _open_with(snapshot, values, where, words)}
            newest = sorted(rows, reverse=True)[: limit + 1]
            return [read_job(rows[job_id]) for job_id in newest]

        found = await self._readers.search(read)
        jobs = [self.shown(job) for job in found[:limit]]
        return JobPage(jobs, jobs[-1].id if len(found) > limit else None)

    async def covers_of(
        self, tenant: TenantId, job_ids: Sequence[JobId]
    ) -> Mapping[JobId, JobCover]:
        wanted = json.dumps(job_ids)
        rows = await self._readers.search(
            lambda snapshot: snapshot.all("covers_of_jobs", tenant=tenant, job_ids=wanted)
        )
        return {
            JobId(row["job_id"]): JobCover(read_output(row), row["saved"] or row["files"])
            for row in rows
        }

    async def open_jobs(
        self, tenant: TenantId, after: OpenJobMark | None, limit: int
    ) -> OpenJobPage:
        def read(snapshot: Snapshot) -> tuple[list[OpenJob], OpenJobMark | None]:
            found = list(_open_rows(snapshot, tenant, after, limit + 1))
            rows = found[:limit]
            places = _places(
                snapshot, self.figures, [row for stage, row in rows if stage.has_place]
            )
            jobs = [
                OpenJob(
                    read_job(row),
                    places.get(JobId(row["id"])),
                    needs_of_group(snapshot, row["queue_group"]),
                )
                for _, row in rows
            ]
            return jobs, _mark(*rows[-1]) if len(found) > limit else None

        found, last = await self._readers.search(read)
        jobs = [OpenJob(self.shown(each.job), each.place, each.needs) for each in found]
        return OpenJobPage(jobs, last)


def _search_values(
    tenant: TenantId, where: JobFilter, after: JobId | None, limit: int
) -> dict[str, Any]:
    states = where.states or ({where.state} if where.state else frozenset())
    return {
        "tenant": tenant,
        "after": after,
        "limit": limit,
        "id_from": None,
        "id_before": None,
        "id_end": None,
        "words": None,
        "name": None,
        "batch_id": where.batch_id,
        "states": json.dumps(sorted(states)) if states else None,
        "surface": where.surface,
        "origin_key": where.origin_key,
        "submitted_from": where.submitted_from,
        "submitted_before": where.submitted_before,
        **versions_of(where.workflow),
    }


def _looks(tenant: TenantId, text: str, words: Sequence[str]) -> list[dict[str, str]]:
    """What must be given for each look; together they find everything that has ended."""
    if not text:
        return [{}]
    looks = [{"name": text.casefold()}]
    if words:
        looks.append({"words": match_of(tenant, words)})
    start = text.lower()
    if _ID_PART.fullmatch(start):
        looks.append({"id_from": start, "id_before": start + BEHIND_IDS})
    if _ID_END.fullmatch(start):
        looks.append({"id_end": start})
    return looks


def _open_with(
    snapshot: Snapshot, values: Mapping[str, Any], where: JobFilter, words: Sequence[str]
) -> Iterator[sqlite3.Row]:
    """The newest of the open jobs that have the words: those are indexed at their end."""
    wanted = where.states or ({where.state} if where.state else set(_OPEN))
    names = ("tenant", "after", "submitted_from", "submitted_before")
    known = {name: values[name] for name in names}
    rows = [
        row
        for state in _OPEN
        if state in wanted
        for row in snapshot.all("list_jobs_by_state", **known, state=state, limit=OPEN_JOBS_READ)
    ]
    rows.sort(key=lambda row: str(row["id"]), reverse=True)
    found, read = 0, 0
    for row in rows[:OPEN_JOBS_READ]:
        if not _is_wanted(row, values):
            continue
        prompt = snapshot.one("get_prompt", job_id=row["id"])
        content = b"" if prompt is None else prompt["prompt"]
        read += len(content)
        if read > OPEN_BYTES_READ:
            return
        if has_words(text_of(content), words):
            yield row
            found += 1
        if found == values["limit"]:
            return


def _is_wanted(row: sqlite3.Row, values: Mapping[str, Any]) -> bool:
    """What else is asked of a job, where the query at hand does not."""
    named = ("batch_id", "surface", "origin_key")
    if any(values[name] is not None and row[name] != values[name] for name in named):
        return False
    workflow = row["workflow_id"] or ""
    if values["version"] is not None:
        return bool(workflow == values["version"])
    start = values["versions_from"]
    return start is None or bool(start <= workflow < values["versions_before"])


def _open_rows(
    snapshot: Snapshot, tenant: TenantId, after: OpenJobMark | None, limit: int
) -> Iterator[tuple[OpenStage, sqlite3.Row]]:
    for stage, query in _QUERY_OF_STAGE.items():
        if limit <= 0 or (after is not None and stage < after.stage):
            continue
        is_begun = after is not None and stage == after.stage
        rows = snapshot.all(
            query,
            tenant=tenant,
            key=after.key if after and is_begun else -1,
            job_id=after.job_id if after and is_begun else "",
            limit=limit,
        )
        limit -= len(rows)
        yield from ((stage, row) for row in rows)


def _mark(stage: OpenStage, row: sqlite3.Row) -> OpenJobMark:
    keys = {
        OpenStage.PROCESSING: row["started_at"] or 0,
        OpenStage.QUEUED: row["rank"],
        OpenStage.HELD: row["held_until"],
    }
    return OpenJobMark(stage, keys[stage], JobId(row["id"]))


def _places(
    snapshot: Snapshot, figures: QueueFigures, rows: Sequence[sqlite3.Row]
) -> dict[JobId, QueuePlace]:
    """Where they stand, with one look at the queue for all; each bucket is summed up once."""
    if not rows:
        return {}
    starts = {str(row["id"]): bucket_start(row["rank"]) for row in rows}
    before = {start: figures.before_bucket(start) for start in set(starts.values())}
    places = {}
    for row in snapshot.all("places_of_jobs", job_ids=json.dumps(list(starts)), step=STEPS[0]):
        jobs, seconds = before[starts[row["id"]]]
        places[JobId(row["id"])] = QueuePlace(jobs + row["jobs"] + 1, seconds + row["seconds"])
    return places
