"""The store's outputs on SQLite. See comfyrail.store.outputs.OutputStore."""

import json
from collections.abc import Sequence

from comfyrail.clock import Instant
from comfyrail.ids import JobId, OutputId, TenantId, first_id_at
from comfyrail.jobs.job import Output
from comfyrail.jobs.life_cycle import ORDER, GoneReason, Step
from comfyrail.jobs.output_config import Tier
from comfyrail.store.outputs import (
    DueMark,
    DuePage,
    FoundOutput,
    JobToIndex,
    OutputPage,
    OutputQuery,
)
from comfyrail.store.search_words import apart, words_of
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.rows import read_output
from comfyrail.store.sqlite.writer import Transaction, Writer

BEHIND_VERSIONS = chr(ord("@") + 1)


class OutputOperations:
    """Part of SqliteStore."""

    _readers: Readers
    _writer: Writer

    async def search_outputs(
        self, tenant: TenantId, query: OutputQuery, after: OutputId | None, limit: int
    ) -> OutputPage:
        values = {
            "tenant": tenant,
            "after": after,
            "limit": limit + 1,
            "created_from": _first_id(query.created_from),
            "created_before": _first_id(query.created_before),
            "node_id": query.node_id,
            "tier": query.tier,
            "with_temporary": query.with_temporary,
            "with_gone": query.with_gone,
            "kinds": json.dumps(sorted(query.kinds)) if query.kinds else None,
            "ids": json.dumps(sorted(query.ids)) if query.ids else None,
        }
        looks = _looks(tenant, query)

        def read(snapshot: Snapshot) -> list[FoundOutput]:
            rows = {
                str(row["id"]): row
                for name, more in looks
                for row in snapshot.all_given(name, **values, **more)
            }
            newest = sorted(rows, reverse=True)[: limit + 1]
            return [FoundOutput(read_output(rows[id_]), rows[id_]["workflow_id"]) for id_ in newest]

        found = await self._readers.search(read)
        shown = found[:limit]
        more = shown[-1].output.file.id if len(found) > limit else None
        return OutputPage(shown, more)

    async def jobs_to_index(self, limit: int) -> Sequence[JobToIndex]:
        rows = await self._readers.read(lambda snapshot: snapshot.all("jobs_to_index", limit=limit))
        return [
            JobToIndex(JobId(row["job_id"]), TenantId(row["tenant"]), row["prompt"]) for row in rows
        ]

    async def index_jobs(self, texts: Sequence[tuple[JobToIndex, str]]) -> None:
        def index(tx: Transaction) -> None:
            for job, text in texts:
                if tx.one("get_job", job_id=job.job_id) is None:
                    continue
                numbered = tx.one("number_indexed_job", job_id=job.job_id)
                number = numbered["number"] if numbered else None
                tx.run("index_job", number=number, tenant=apart(job.tenant), text=text)
                tx.run("leave_index", job_id=job.job_id)

        await self._writer.write(index)

    async def due_outputs(self, now: Instant, after: DueMark | None, limit: int) -> DuePage:
        step, output_id = after or (-1, "")
        rows = await self._readers.read(
            lambda snapshot: snapshot.all(
                "due_outputs", now=now, after_step=step, after_id=output_id, limit=limit
            )
        )
        last = (Instant(rows[-1]["next_step_at"]), OutputId(rows[-1]["id"])) if rows else None
        return DuePage([read_output(row) for row in rows], last)

    async def take_step(self, output: Output, step: Step) -> None:
        if step.tier is None:
            await self.end_outputs([output], GoneReason.EXPIRED)
            return
        await self._writer.write(
            lambda tx: tx.run(
                "set_tier",
                job_id=output.job_id,
                output_id=output.file.id,
                tier=step.tier,
                next_step_at=step.until,
            )
        )

    async def end_outputs(self, outputs: Sequence[Output], reason: GoneReason) -> None:
        def end(tx: Transaction) -> None:
            for output in outputs:
                tx.run(
                    "end_output",
                    job_id=output.job_id,
                    output_id=output.file.id,
                    now=tx.now,
                    reason=reason,
                )

        await self._writer.write(end)

    async def warmest_other_tier(self, output: Output) -> Tier | None:
        row = await self._readers.read(
            lambda snapshot: snapshot.one(
                "hottest_tier",
                blob_key=output.file.blob_key,
                job_id=output.job_id,
                output_id=output.file.id,
            )
        )
        return None if row is None or row["warmth"] is None else ORDER[row["warmth"]]

    async def oldest_outputs(self, after: OutputId | None, limit: int) -> Sequence[Output]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("oldest_outputs", after=after or "", limit=limit)
        )
        return [read_output(row) for row in rows]

    async def kept_bytes(self) -> int:
        row = await self._readers.scan(lambda snapshot: snapshot.one("kept_bytes"))
        return 0 if row is None else int(row["bytes"])


def _first_id(moment: Instant | None) -> str | None:
    """Ids of outputs are in the order of their making."""
    return None if moment is None else first_id_at(moment)


def _looks(tenant: TenantId, query: OutputQuery) -> list[tuple[str, dict[str, str | None]]]:
    """The queries that together find everything, with the values that only they have."""
    jobs: dict[str, str | None] = {
        "job_id": query.job_id,
        "batch_id": query.batch_id,
        **versions_of(query.workflow),
    }
    are_jobs_known = any(value is not None for value in jobs.values())
    text = (query.text or "").strip()
    named = {"name": text.casefold() if text else None}
    looks: list[tuple[str, dict[str, str | None]]] = [
        ("outputs_of_jobs", {**jobs, **named, "text": None})
        if are_jobs_known
        else ("walk_outputs", named)
    ]
    words = words_of(text)
    if words:
        looks.append(("outputs_of_jobs", {**jobs, "name": None, "text": match_of(tenant, words)}))
    return looks


def versions_of(workflow: str | None) -> dict[str, str | None]:
    """One version of a workflow, or all of them."""
    if workflow is None or "@" in workflow:
        return {"version": workflow, "versions_from": None, "versions_before": None}
    return {
        "version": None,
        "versions_from": f"{workflow}@",
        "versions_before": f"{workflow}{BEHIND_VERSIONS}",
    }


def match_of(tenant: TenantId, words: Sequence[str]) -> str:
    """A query of FTS5: all the words, the last one as a beginning. Nothing in it is an operator."""
    *others, last = words
    owner = " ".join(words_of(tenant))
    parts = [
        *([f'tenant : "{owner}"'] if owner else []),
        *(f'text : "{word}"' for word in others),
        f'text : "{last}" *',
    ]
    return " AND ".join(parts)
