"""Batches are checked in turns: a slow one does not hold up the others."""

import asyncio
import json

import pytest

from comfyrail.errors import NotReady
from comfyrail.ids import TenantId
from comfyrail.jobs.batches import BatchItem, Grid, ItemList
from comfyrail.jobs.parameter_search import Range, Search
from comfyrail.store.signals import BATCHES
from comfyrail.usecases import batch_searches, batch_turns
from comfyrail.usecases.batch_turns import BatchTurns
from tests.batches.parts import ALICE, BOB, Parts

BUSY, CALM = TenantId("busy"), TenantId("calm")


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> BatchTurns:
    """One batch is checked at a time, for one check."""
    monkeypatch.setattr(batch_turns, "CHECKED_AT_ONCE", 1)
    monkeypatch.setattr(batch_turns, "TURN_SECONDS", 0.0)
    return BatchTurns()


async def check(turns: BatchTurns, tenant: TenantId, name: str, count: int, log: list[str]) -> None:
    with turns.admit(tenant) as making:
        for _ in range(count):
            await making.pause()
            log.append(name)
            await asyncio.sleep(0)


async def test_tenants_take_turns_and_so_do_their_batches(turns: BatchTurns) -> None:
    log: list[str] = []
    async with asyncio.TaskGroup() as group:
        for name in ("a", "b", "c"):
            group.create_task(check(turns, BUSY, name, 6, log))
        group.create_task(check(turns, CALM, "x", 6, log))
    assert sorted(log) == sorted("abcx" * 6)
    alone = log[: log.index("x")]
    assert len(alone) <= 3
    shared = log[len(alone) : len(log) - log[::-1].index("x")]
    assert shared.count("x") >= len(shared) // 2, "one of two tenants, though one of four batches"
    assert "".join(each for each in log if each != "x").count("aa") <= 1


async def test_whoever_gives_up_waiting_takes_no_turn_along(turns: BatchTurns) -> None:
    log: list[str] = []
    with turns.admit(BUSY) as making:
        await making.pause()
        waiting = [asyncio.create_task(check(turns, CALM, str(n), 1, log)) for n in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        making.end_turn()
        waiting[1].cancel()  # it has just been given the turn
    await asyncio.gather(*waiting, return_exceptions=True)
    assert [each.cancelled() for each in waiting] == [True, True, False]
    await check(turns, BUSY, "after", 1, log)
    assert log == ["2", "after"]


async def test_fault_in_a_check_ends_the_turn(turns: BatchTurns) -> None:
    async def fail() -> None:
        with turns.admit(BUSY) as making:
            await making.pause()
            raise NotReady("The check broke.")

    with pytest.raises(NotReady):
        await fail()
    log: list[str] = []
    await check(turns, CALM, "x", 1, log)
    assert log == ["x"]


async def test_too_many_batches_in_the_making_are_asked_to_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_turns, "MOST_OF_A_TENANT", 1)
    monkeypatch.setattr(batch_turns, "MOST_IN_THE_MAKING", 2)
    turns = BatchTurns()
    for _ in range(2):
        with turns.admit(BUSY):
            with pytest.raises(NotReady) as caught, turns.admit(BUSY):
                pass
            assert (caught.value.code, caught.value.retry_after) == ("TOO_MANY_BATCHES", 5.0)
            with turns.admit(CALM), pytest.raises(NotReady), turns.admit(TenantId("third")):
                pass


async def test_workflows_of_all_batches_in_the_making_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_turns, "MOST_BYTES_OF_ALL", 100)
    turns = BatchTurns()
    with turns.admit(BUSY) as first:
        first.keep(80)
        with turns.admit(CALM) as second:
            second.keep(15)
            with pytest.raises(NotReady, match="too large"):
                second.keep(15)
        first.keep(20)
    with turns.admit(CALM) as third:
        third.keep(100)


async def test_small_batch_is_accepted_while_slow_ones_are_being_checked(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_turns, "TURN_SECONDS", 0.0)
    slow = [
        asyncio.create_task(parts.submit(Grid({"1.color": list(range(1000))}))) for _ in range(3)
    ]
    await asyncio.sleep(0.02)
    await parts.submit(ItemList([BatchItem({})]), principal=BOB)
    assert not any(each.done() for each in slow)
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    assert [status.batch.planned for status in (await parts.batches.page(BOB, None, 9))[0]] == [1]


async def test_search_makes_a_few_trials_at_a_time(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_searches, "TRIALS_AT_ONCE", 4)
    search = Search({"1.width": Range(1, 9, integer=True)}, trials=20, parallel=6)
    accepted = await parts.submit(search)
    for job_id in accepted.job_ids:
        await parts.store.request_cancel(ALICE.tenant, job_id)
    with parts.store.signals.subscribe(BATCHES) as news:
        await news.wait(0)
        made = []
        for _ in range(3):
            await parts.searches.look()
            made.append((len((await parts.members(accepted.batch_id)).members), await news.wait(0)))
    assert made == [(10, True), (12, False), (12, False)], json.dumps(made)
