"""The store's feed on SQLite. See comfyrail.store.feed.FeedStore."""

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from comfyrail.clock import Instant
from comfyrail.ids import TenantId
from comfyrail.jobs.events import EventType, FeedEntry
from comfyrail.store.feed import ALL, OPERATOR, FeedPage, FeedWhere
from comfyrail.store.sqlite.outbox import write_notice
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.rows import decode_object
from comfyrail.store.sqlite.writer import Writer


class FeedOperations:
    """Part of SqliteStore."""

    _readers: Readers
    _writer: Writer

    async def feed_after(
        self,
        tenant: TenantId,
        after: int,
        limit: int,
        *,
        with_operator: bool,
        where: FeedWhere = ALL,
    ) -> FeedPage:
        tenants = (tenant, OPERATOR) if with_operator else (tenant,)

        def read(snapshot: Snapshot) -> FeedPage:
            if where.job_id is not None:
                return _of_job(snapshot, tenant, after, limit, where)
            reach = [
                snapshot.one("feed_reach", tenant=each, after=after, limit=limit)
                for each in tenants
            ]
            counted = [row for row in reach if row is not None and row["events"]]
            if not counted:
                return FeedPage((), after)
            # Where one of them has more than that, the others are read no further.
            full = [int(row["sequence"]) for row in counted if row["events"] == limit]
            last = min(full) if full else max(int(row["sequence"]) for row in counted)
            rows = [
                row
                for each in tenants
                for row in snapshot.all_given(
                    "feed_between", tenant=each, after=after, last=last, types=_types(where)
                )
            ]
            rows.sort(key=lambda row: int(row["sequence"]))
            return FeedPage([_read_entry(row) for row in rows], last, has_more=bool(full))

        return await self._readers.scan(read)

    async def feed_end(self) -> int:
        row = await self._readers.read(lambda snapshot: snapshot.one("feed_end"))
        return 0 if row is None else int(row["sequence"])

    async def prune_notices(self, before: Instant, limit: int) -> int:
        return await self._writer.write(
            lambda tx: len(tx.all("prune_notices", before=before, limit=limit))
        )

    async def add_notice(
        self, tenant: TenantId, event_type: EventType, data: Mapping[str, Any]
    ) -> None:
        await self._writer.write(lambda tx: write_notice(tx, tenant, event_type, data))


def _of_job(
    snapshot: Snapshot, tenant: TenantId, after: int, limit: int, where: FeedWhere
) -> FeedPage:
    """By the job's own index: nothing else is looked at."""
    rows = snapshot.all("feed_of_job", tenant=tenant, job_id=where.job_id, after=after, limit=limit)
    end = snapshot.one("feed_end")
    has_more = len(rows) == limit
    last = rows[-1]["sequence"] if has_more else max(after, end["sequence"] if end else 0)
    entries = [_read_entry(row) for row in rows if not where.types or row["type"] in where.types]
    return FeedPage(entries, int(last), has_more)


def _types(where: FeedWhere) -> str | None:
    return json.dumps(sorted(where.types)) if where.types else None


def _read_entry(row: sqlite3.Row) -> FeedEntry:
    return FeedEntry(
        sequence=row["sequence"],
        job_id=row["job_id"],
        number=row["number"],
        type=EventType(row["type"]),
        at=Instant(row["at"]),
        data=decode_object(row["data"]),
        workflow_id=row["workflow_id"],
        batch_id=row["batch_id"],
        surface=row["surface"],
    )
