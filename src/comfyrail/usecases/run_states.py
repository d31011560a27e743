"""The states of runs: versioned documents in the store, and files beside it where wanted [10.4]."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock
from comfyrail.errors import Conflict, JobNotFound, PayloadTooLarge
from comfyrail.ids import JobId, TenantId
from comfyrail.jobs.job import Job
from comfyrail.store.interface import Document, Store
from comfyrail.usecases.run_record import (
    AREA,
    SURFACE,
    RunRecord,
    RunState,
    read_record,
    read_state,
    status_of,
    updated,
)

MOST_NOTES_BYTES = 64 << 10
STATES_KEPT = 1000
"""Of a tenant; those of the oldest runs that have ended go first."""
STATES_READ = 20_000
TRIES = 20


@dataclass(frozen=True, slots=True)
class KnownState:
    version: int
    state: RunState


class Copies(Protocol):
    """Where the same documents are kept once more."""

    def put(self, tenant: TenantId, run_id: str, content: bytes) -> None: ...

    def remove(self, tenant: TenantId, run_id: str) -> None: ...


class RunStates:
    """The documents. The keeper writes what the server knows, clients their notes."""

    def __init__(self, store: Store, clock: Clock, copies: Copies | None = None) -> None:
        self._store = store
        self._clock = clock
        self._copies = copies

    async def update(self, job: Job, record: RunRecord) -> KnownState:
        """Write down what has become of a run."""
        now = self._clock.now()
        return await self.change(
            job.tenant, job.id, lambda before: updated(before, job, record, now)
        )

    async def change_fetch(
        self, job: Job, record: RunRecord, change: Callable[[RunState], None]
    ) -> KnownState:
        """Write down how far a run's outputs are."""
        now = self._clock.now()

        def changed(before: RunState | None) -> RunState:
            state = updated(before, job, record, now)
            change(state)
            state.status = status_of(job, record, state.fetch)
            return state

        return await self.change(job.tenant, job.id, changed)

    async def change(
        self,
        tenant: TenantId,
        run_id: str,
        change: Callable[[RunState | None], RunState],
        version: int | None = None,
    ) -> KnownState:
        """Read, change and write, until nobody has come in between. With `version` only that one is
        changed: raises Conflict where there is another.
        """
        for _ in range(TRIES):
            there = await self._store.get_document(tenant, AREA, run_id)
            known = version if version is not None else there.version if there else 0
            state = change(_state_of(there))
            content = msgspec.json.encode(state)
            try:
                made = await self._store.put_document(tenant, AREA, run_id, content, known)
            except Conflict:
                if version is not None:
                    raise
                await asyncio.sleep(0)
                continue
            found = KnownState(made, state)
            self.copy(tenant, found)
            return found
        raise Conflict(f"The state of run {run_id} is changed by many at once. Try again.")

    def copy(self, tenant: TenantId, known: KnownState) -> None:
        if self._copies is not None:
            self._copies.put(tenant, known.state.run_id, as_file(known))

    async def find(self, tenant: TenantId, run_id: str) -> KnownState | None:
        there = await self._store.get_document(tenant, AREA, run_id)
        return None if there is None else KnownState(there.version, read_state(there.content))

    # What clients do

    async def show(self, principal: Principal, run_id: JobId) -> KnownState:
        """Raises JobNotFound where there is none."""
        found = await self.find(principal.tenant, run_id)
        if found is None:
            raise _not_found(run_id)
        return found

    async def newest(self, principal: Principal, limit: int) -> Sequence[KnownState]:
        """The newest one first."""
        names = await self._names(principal.tenant)
        found = [await self.find(principal.tenant, name) for name in names[-limit:][::-1]]
        return [each for each in found if each is not None]

    async def summary(self, principal: Principal) -> Sequence[KnownState]:
        """All of them, newest first."""
        return await self.newest(principal, STATES_READ)

    async def note(
        self,
        principal: Principal,
        run_id: JobId,
        notes: Mapping[str, Any],
        version: int | None = None,
    ) -> KnownState:
        """Merge a client's notes into the state of its run; None takes one away. Makes the state
        anew where it was cleared.
        """
        job = await self._store.get_job(principal.tenant, run_id)
        if job.surface != SURFACE:
            raise _not_found(run_id)
        record = read_record((await self._store.origin_of(principal.tenant, run_id)).data)
        now = self._clock.now()

        def merge(before: RunState | None) -> RunState:
            state = updated(before, job, record, now)
            merged = {**state.notes, **notes}
            state.notes = {name: value for name, value in merged.items() if value is not None}
            if len(msgspec.json.encode(state.notes)) > MOST_NOTES_BYTES:
                raise PayloadTooLarge(
                    f"The notes of a run have {MOST_NOTES_BYTES >> 10} KiB at most.",
                    details={"limit": MOST_NOTES_BYTES},
                )
            return state

        return await self.change(principal.tenant, run_id, merge, version)

    async def clear(self, principal: Principal, run_id: JobId) -> None:
        """Forget the state of a run that has ended; its job and its outputs stay."""
        found = await self.show(principal, run_id)
        if not found.state.is_final:
            raise Conflict(
                f"Run {run_id} is {found.state.status}: its state is cleared when it has ended. "
                "Cancel it first.",
                code="RUN_ACTIVE",
                details={"status": found.state.status},
            )
        await self._remove(principal.tenant, run_id)

    async def clear_ended(self, principal: Principal) -> int:
        """The same for all that have ended; how many there were."""
        ended = [each for each in await self.summary(principal) if each.state.is_final]
        for each in ended:
            await self._remove(principal.tenant, each.state.run_id)
        return len(ended)

    async def prune(self, tenant: TenantId) -> None:
        """Keep no more states than there is use for."""
        names = await self._names(tenant)
        for name in names[: max(0, len(names) - STATES_KEPT)]:
            found = await self.find(tenant, name)
            if found is not None and found.state.is_final:
                await self._remove(tenant, name)

    async def _names(self, tenant: TenantId) -> list[str]:
        documents = await self._store.list_documents(tenant, AREA, limit=STATES_READ)
        return [each.name for each in documents]

    async def _remove(self, tenant: TenantId, run_id: str) -> None:
        await self._store.delete_document(tenant, AREA, run_id)
        if self._copies is not None:
            self._copies.remove(tenant, run_id)


def as_file(known: KnownState) -> bytes:
    """The document as it is kept in a file: with its version."""
    content = {"version": known.version, **msgspec.to_builtins(known.state)}
    return msgspec.json.format(msgspec.json.encode(content))


def _state_of(document: Document | None) -> RunState | None:
    return None if document is None else read_state(document.content)


def _not_found(run_id: str) -> JobNotFound:
    return JobNotFound(f"There is no run {run_id}.", details={"execution_id": run_id})
