"""The store's feed on SQLite. See comfyrail.store.feed.FeedStore."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from comfyrail.clock import Instant
from comfyrail.ids import TenantId
from comfyrail.jobs.events import EventType, FeedEntry
from comfyrail.store.feed import OPERATOR, FeedPage
from comfyrail.store.sqlite.outbox import write_notice
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.rows import decode_object
from comfyrail.store.sqlite.writer import Writer


class FeedOperations:
    """Part of SqliteStore."""

    _readers: Readers
    _writer: Writer

    async def feed_after(
        self, tenant: TenantId, after: int, limit: int, *, with_operator: bool
    ) -> FeedPage:
        values = {"after": after, "limit": limit}

        def read(snapshot: Snapshot) -> FeedPage:
            rows = snapshot.all("feed_after", tenant=tenant, **values)
            if with_operator:
                rows += snapshot.all("feed_after", tenant=OPERATOR, **values)
                rows.sort(key=lambda row: int(row["sequence"]))
            entries = [_read_entry(row) for row in rows[:limit]]
            return FeedPage(entries, entries[-1].sequence if entries else after)

        return await self._readers.read(read)

    async def feed_end(self) -> int:
        row = await self._readers.read(lambda snapshot: snapshot.one("feed_end"))
        return 0 if row is None else int(row["sequence"] or 0)

    async def add_notice(
        self, tenant: TenantId, event_type: EventType, data: Mapping[str, Any]
    ) -> None:
        await self._writer.write(lambda tx: write_notice(tx, tenant, event_type, data))


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
