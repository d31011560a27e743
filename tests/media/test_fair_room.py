"""Whoever wants many places waits behind those who want few."""

import asyncio

import pytest

from comfyrail.results.fair_room import FairRoom, RoomIsFull


async def test_owners_take_turns() -> None:
    room, served = FairRoom(1, 100), list[str]()

    async def work(owner: str) -> None:
        async with room.place(owner):
            served.append(owner)
            await asyncio.sleep(0)

    async with room.place("first"):
        tasks = [asyncio.create_task(work(owner)) for owner in "aaaabb"]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert served == ["a", "b", "a", "b", "a", "a"]


async def test_one_that_does_not_wait_any_more_costs_no_place() -> None:
    room = FairRoom(1, 100)

    async def work() -> None:
        async with room.place("a"):
            pass

    async with room.place("first"):
        tasks = [asyncio.create_task(work()) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
    tasks[1].cancel()  # its turn has come just now
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(5), room.place("b"):
        pass


async def test_owner_with_too_many_that_wait_is_refused_and_others_are_not() -> None:
    room = FairRoom(1, 1)

    async def work(owner: str) -> None:
        async with room.place(owner):
            pass

    async with room.place("a"):
        waiting = asyncio.create_task(work("a"))
        await asyncio.sleep(0)
        with pytest.raises(RoomIsFull):
            await work("a")
        other = asyncio.create_task(work("b"))
        await asyncio.sleep(0)
        assert not other.done()
    await asyncio.gather(waiting, other)
