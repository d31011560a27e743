"""The store's view of jobs as a history: what was submitted, what is shown, files by name."""

from collections.abc import Sequence

from comfyrail.ids import JobId, TenantId
from comfyrail.jobs.job import Job, Output
from comfyrail.store.interface import HistoryPage, HistoryQuery, Submitted
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.rows import encode, read_job, read_output
from comfyrail.store.sqlite.writer import Transaction, Writer

HIDDEN_AT_ONCE = 1000


class PromptOperations:
    """Part of SqliteStore. See comfyrail.store.interface.Store."""

    _writer: Writer
    _readers: Readers

    async def find_by_alias(self, tenant: TenantId, surface: str, alias: str) -> Job | None:
        row = await self._readers.read(
            lambda snapshot: snapshot.one(
                "find_by_alias", tenant=tenant, surface=surface, alias=alias
            )
        )
        return None if row is None else read_job(row)

    async def submitted(self, tenant: TenantId, job_ids: Sequence[JobId]) -> dict[JobId, Submitted]:
        def read(snapshot: Snapshot) -> dict[JobId, Submitted]:
            found = {}
            for job_id in job_ids:
                row = snapshot.one("get_submitted", tenant=tenant, job_id=job_id)
                outputs = snapshot.all("list_outputs", job_id=job_id) if row else ()
                if row:
                    found[job_id] = Submitted(
                        row["prompt"],
                        row["extra_data"],
                        row["origin"],
                        [read_output(each) for each in outputs],
                    )
            return found

        return await self._readers.read(read)

    async def history(self, tenant: TenantId, query: HistoryQuery) -> HistoryPage:
        def read(snapshot: Snapshot) -> HistoryPage:
            find = _newest if query.is_plain else _page
            return HistoryPage(find(snapshot, tenant, query), _count(snapshot, tenant, query))

        return await self._readers.read(read)

    async def hide_jobs(self, tenant: TenantId, job_ids: Sequence[JobId]) -> None:
        def hide(tx: Transaction) -> None:
            for job_id in job_ids:
                tx.run("hide_job", tenant=tenant, job_id=job_id)

        await self._writer.write(hide)

    async def hide_ended_jobs(self, tenant: TenantId, newest: JobId) -> None:
        def hide(tx: Transaction) -> int:
            values = {"tenant": tenant, "newest": newest, "limit": HIDDEN_AT_ONCE}
            return len(tx.all("hide_ended_jobs", **values))

        while await self._writer.write(hide) == HIDDEN_AT_ONCE:
            continue

    async def newest_output(
        self,
        tenant: TenantId,
        filename: str,
        subfolder: str,
        *,
        is_temporary: bool,
        is_gone: bool = False,
    ) -> Output | None:
        row = await self._readers.read(
            lambda snapshot: snapshot.one(
                "newest_output",
                tenant=tenant,
                filename=filename,
                subfolder=subfolder,
                is_temporary=is_temporary,
                is_gone=is_gone,
            )
        )
        return None if row is None else read_output(row)

    async def count_open_jobs(self, tenant: TenantId) -> int:
        row = await self._readers.read(
            lambda snapshot: snapshot.one("count_open_jobs", tenant=tenant)
        )
        return 0 if row is None else int(row["jobs"])


def _newest(snapshot: Snapshot, tenant: TenantId, query: HistoryQuery) -> list[Job]:
    """One look a state: each has its index, and nothing is sorted but what is shown."""
    end = query.offset + query.limit
    rows = [
        row
        for state in query.states
        for row in snapshot.all("list_newest_jobs", tenant=tenant, state=state, limit=end)
    ]
    rows.sort(key=lambda row: str(row["id"]), reverse=True)
    return [read_job(row) for row in rows[query.offset : end]]


def _page(snapshot: Snapshot, tenant: TenantId, query: HistoryQuery) -> list[Job]:
    rows = snapshot.all(
        "page_of_jobs",
        tenant=tenant,
        states=encode(sorted(query.states)).decode(),
        workflow_id=query.workflow_id,
        by_duration=query.by_duration,
        sign=1 if query.is_ascending else -1,
        limit=query.limit,
        offset=query.offset,
    )
    return [read_job(row) for row in rows]


def _count(snapshot: Snapshot, tenant: TenantId, query: HistoryQuery) -> int:
    states = encode(sorted(query.states)).decode()
    if query.workflow_id is None:
        row = snapshot.one("count_shown_jobs", tenant=tenant, states=states)
    else:
        row = snapshot.one(
            "count_page_of_jobs", tenant=tenant, states=states, workflow_id=query.workflow_id
        )
    return int(row["jobs"]) if row else 0
