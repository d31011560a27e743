"""The store's outputs on SQLite. See comfyrail.store.outputs.OutputStore."""

import json
import re
from collections.abc import Sequence

from comfyrail.clock import Instant
from comfyrail.ids import JobId, OutputId, TenantId, first_id_at
from comfyrail.jobs.job import Output
from comfyrail.jobs.life_cycle import ORDER, GoneReason, Step
from comfyrail.jobs.output_config import Tier
from comfyrail.store.outputs import FoundOutput, JobToIndex, OutputPage, OutputQuery
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.rows import read_output
from comfyrail.store.sqlite.writer import Transaction, Writer

MOST_WORDS = 20
_WORD = re.compile(r"\w+")


class OutputOperations:
    """Part of SqliteStore."""

    _readers: Readers
    _writer: Writer

    async def search_outputs(
        self, tenant: TenantId, query: OutputQuery, after: OutputId | None, limit: int
    ) -> OutputPage:
        text = (query.text or "").strip()
        values = {
            "tenant": tenant,
            "after": after,
            "limit": limit + 1,
            "created_from": _first_id(query.created_from),
            "created_before": _first_id(query.created_before),
            "job_id": query.job_id,
            "batch_id": query.batch_id,
            "node_id": query.node_id,
            "tier": query.tier,
            "with_temporary": query.with_temporary,
            "with_gone": query.with_gone,
            "kinds": json.dumps(sorted(query.kinds)) if query.kinds else None,
            "workflow": query.workflow,
            "any_version": _any_version(query.workflow),
            "text": _match(tenant, text) if text else None,
            "filename": text.lower(),
        }

        def read(snapshot: Snapshot) -> list[FoundOutput]:
            rows = snapshot.all("search_outputs", **values)
            return [FoundOutput(read_output(row), row["workflow_id"]) for row in rows]

        found = await self._readers.read(read)
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
                tx.run("index_job", number=number, tenant=job.tenant, text=text)
                tx.run("leave_index", job_id=job.job_id)

        await self._writer.write(index)

    async def due_outputs(self, now: Instant, limit: int) -> Sequence[Output]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("due_outputs", now=now, limit=limit)
        )
        return [read_output(row) for row in rows]

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
        row = await self._readers.read(lambda snapshot: snapshot.one("kept_bytes"))
        return 0 if row is None else int(row["bytes"])


def _first_id(moment: Instant | None) -> str | None:
    """Ids of outputs are in the order of their making."""
    return None if moment is None else first_id_at(moment)


def _any_version(workflow: str | None) -> str:
    """A pattern for GLOB: its own signs stand for themselves."""
    escaped = re.sub(r"([\[*?])", r"[\1]", workflow or "")
    return f"{escaped}@*"


def _match(tenant: TenantId, text: str) -> str:
    """A query of FTS5: all the words, the last one as a beginning. Without words it finds nothing.

    Only letters and digits get into it, so that nothing in it is an operator.
    """
    *words, last = _WORD.findall(text)[:MOST_WORDS] or [""]
    owner = " ".join(_WORD.findall(tenant))
    parts = [f'tenant : "{owner}"', *(f'text : "{word}"' for word in words), f'text : "{last}" *']
    return " AND ".join(parts)
