"""Jobs of a tenant that run at once, by its tier [11.2]."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from comfyrail.access.principal import LOCAL_USER, Principal
from comfyrail.access.tenant_limits import TenantLimits
from comfyrail.ids import TenantId
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.workers import WorkerProfile
from comfyrail.scheduling.placement import PlacementRules
from comfyrail.scheduling.scheduler import Scheduler
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.access.gate_parts import ask, bearer, gated_server, new_user
from tests.graphs import slow_picture
from tests.processes import Comfyrail, wait_until
from tests.scheduling.test_scheduler import Fleet
from tests.store.test_store import ManualClock, new_job

ANN, BOB = TenantId("ann"), TenantId("bob")
NEEDS = JobNeeds(frozenset({"A"}))


async def submit(
    store: SqliteStore, limits: TenantLimits, clock: ManualClock, caller: Principal
) -> None:
    await limits.note(caller)
    await store.add_job(replace(new_job(clock, needs=NEEDS), tenant=caller.tenant))


async def begun(store: SqliteStore, limits: TenantLimits, clock: ManualClock) -> int:
    """Jobs that a fleet with room for all of them is given."""
    fleet = Fleet(*[WorkerProfile(frozenset({"A"}))] * 20)
    rules = PlacementRules(tenant_limits=limits.concurrent)
    await Scheduler(store, fleet, "me", 60.0, clock, rules=rules).round()
    return len(fleet.begun)


@pytest.mark.parametrize(("tier", "running"), [("free", 2), ("basic", 5), ("pro", 10)])
async def test_as_many_jobs_of_a_tenant_run_at_once_as_its_tier_allows(
    tmp_path: Path, tier: str, running: int
) -> None:
    clock = ManualClock()
    store = await open_sqlite_store(tmp_path, clock)
    try:
        limits = TenantLimits(store)
        for _ in range(12):
            await submit(store, limits, clock, Principal(ANN, tier, is_limited=True))
        assert await begun(store, limits, clock) == running
        assert await store.running_by_tenant() == {ANN: running}
        # The others wait; nobody else waits for them.
        await submit(store, limits, clock, Principal(BOB, "free", is_limited=True))
        assert await begun(store, limits, clock) == 1
    finally:
        await store.close()


async def test_limit_holds_after_a_restart_and_changes_with_the_next_submission(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    store = await open_sqlite_store(tmp_path, clock)
    limits = TenantLimits(store)
    for _ in range(8):
        await submit(store, limits, clock, Principal(ANN, "free", is_limited=True))
    await store.close()
    store = await open_sqlite_store(tmp_path, clock)
    try:
        limits = TenantLimits(store)
        await limits.load()
        assert await begun(store, limits, clock) == 2
        await submit(store, limits, clock, Principal(ANN, "basic", is_limited=True))
        assert await begun(store, limits, clock) == 3
    finally:
        await store.close()


async def test_local_user_has_no_limit_and_the_server_may_have_a_lower_one(tmp_path: Path) -> None:
    clock = ManualClock()
    store = await open_sqlite_store(tmp_path, clock)
    try:
        limits = TenantLimits(store, most=3)
        await limits.note(LOCAL_USER)
        assert not limits.concurrent
        await limits.note(Principal(ANN, "pro", is_limited=True))
        await limits.note(Principal(BOB, "free", is_limited=True))
        assert limits.concurrent == {ANN: 3, BOB: 2}
    finally:
        await store.close()


def states(gate: Comfyrail, caller: dict[str, str]) -> list[str]:
    reply, content = ask(gate, "GET", "/v1/workflows/executions", **caller)
    assert reply.status == 200
    return [job["status"] for job in json.loads(content)["executions"]]


def test_jobs_beyond_the_limit_wait_and_are_not_refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = tmp_path_factory.mktemp("tiers") / "data"
    with gated_server(data, workers="3") as gate:
        gate.wait_ready()
        caller = bearer(new_user(), tier="free")
        wait_until(
            lambda: len(json.loads(ask(gate, "GET", "/v1/workers", **caller)[1])["workers"]) == 3
        )
        for number in range(4):
            body = json.dumps({"workflow": slow_picture(1.0, number)}).encode()
            reply, said = ask(
                gate,
                "POST",
                "/v1/workflows/execute",
                body,
                Content_Type="application/json",
                **caller,
            )
            assert reply.status == 202, said
        most = 0

        def all_done() -> bool:
            nonlocal most
            seen = states(gate, caller)
            most = max(most, seen.count("processing"))
            return seen.count("completed") == 4

        wait_until(all_done, limit=40, pause=0.1)
        assert most == 2
