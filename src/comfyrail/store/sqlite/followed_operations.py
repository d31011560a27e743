"""The store's view of jobs that the server follows to their end, and of those of one worker."""

from collections import Counter
from collections.abc import Mapping, Sequence

from comfyrail.ids import JobId, TenantId
from comfyrail.jobs.states import JobState
from comfyrail.store.signals import FOLLOWED
from comfyrail.store.sqlite.lanes import needs_of_group
from comfyrail.store.sqlite.readers import Readers, Snapshot
from comfyrail.store.sqlite.writer import Transaction, Writer


class FollowedOperations:
    """Part of SqliteStore. See comfyrail.store.interface.Store."""

    _writer: Writer
    _readers: Readers

    async def followed_jobs(self, after: str, limit: int) -> Sequence[tuple[TenantId, JobId]]:
        rows = await self._readers.read(
            lambda snapshot: snapshot.all("list_followed_jobs", after=after, limit=limit)
        )
        return [(TenantId(row["tenant"]), JobId(row["job_id"])) for row in rows]

    async def follow_job(self, tenant: TenantId, job_id: JobId) -> None:
        def follow(tx: Transaction) -> None:
            tx.run("follow_job", job_id=job_id, tenant=tenant)
            tx.notify(FOLLOWED)

        await self._writer.write(follow)

    async def leave_job(self, job_id: JobId) -> None:
        await self._writer.write(lambda tx: tx.run("leave_job", job_id=job_id))

    async def running_for_worker(self) -> Mapping[str, int]:
        def read(snapshot: Snapshot) -> Counter[str]:
            found: Counter[str] = Counter()
            for row in snapshot.all("running_groups"):
                worker = needs_of_group(snapshot, row["queue_group"]).worker
                if worker:
                    found[worker] += row["jobs"]
            return found

        return await self._readers.read(read)

    async def count_jobs_of(self, tenant: TenantId) -> Mapping[JobState, int]:
        def read(snapshot: Snapshot) -> dict[JobState, int]:
            found = {}
            for state in JobState:
                row = snapshot.one("count_jobs_of_tenant", tenant=tenant, state=state)
                found[state] = row["jobs"] if row else 0
            return found

        return await self._readers.read(read)

    async def count_retried(self, tenant: TenantId) -> int:
        row = await self._readers.read(
            lambda snapshot: snapshot.one("count_retried", tenant=tenant)
        )
        return row["jobs"] if row else 0
