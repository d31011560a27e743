"""Who goes first [12.4]: no starvation, and no needless waiting."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from comfyrail.engine.resources.grant import Grant
from comfyrail.engine.resources.line import MOST_OVERTAKEN
from comfyrail.engine.resources.needs import ResourceNeeds
from comfyrail.engine.resources.pool import ResourcePool
from tests.engine.resources.pool_parts import (
    StillClock,
    capacity,
    cores,
    gpu_share,
    whole_gpus,
)


async def settle() -> None:
    """Let all tasks run until they wait."""
    for _ in range(5):
        await asyncio.sleep(0)


class Line:
    """Requests in the order in which they were made, and in which they were granted."""

    def __init__(self, pool: ResourcePool) -> None:
        self._pool = pool
        self.tasks: dict[str, asyncio.Task[Grant]] = {}
        self.served: list[str] = []

    async def ask(self, name: str, needs: ResourceNeeds) -> None:
        async def acquire() -> Grant:
            grant = await self._pool.acquire(needs)
            self.served.append(name)
            return grant

        self.tasks[name] = asyncio.create_task(acquire())
        await settle()

    async def end(self, name: str) -> None:
        (await self.tasks[name]).release()
        await settle()


@asynccontextmanager
async def line(pool: ResourcePool) -> AsyncIterator[Line]:
    asked = Line(pool)
    try:
        yield asked
    finally:
        for task in asked.tasks.values():
            task.cancel()
        await asyncio.gather(*asked.tasks.values(), return_exceptions=True)


async def test_equals_are_served_in_the_order_in_which_they_came() -> None:
    pool = ResourcePool(capacity(1))
    async with line(pool) as asked:
        names = [str(number) for number in range(20)]
        for name in names:
            await asked.ask(name, cores(1))
        for name in names:
            assert asked.served[-1] == name
            await asked.end(name)
        assert asked.served == names


async def test_a_small_one_goes_ahead_while_a_large_one_waits() -> None:
    pool = ResourcePool(capacity(4))
    async with line(pool) as asked:
        await asked.ask("first", cores(3))
        await asked.ask("large", cores(4))
        await asked.ask("small", cores(1))
        assert asked.served == ["first", "small"]


async def test_a_large_one_in_a_stream_of_small_ones_is_served_within_the_bound() -> None:
    pool = ResourcePool(capacity(4), clock=StillClock())
    async with line(pool) as asked:
        for number in range(4):
            await asked.ask(str(number), cores(1))
        await asked.ask("large", cores(4))
        # For ever two come for each that ends, so that without a bound there is never room.
        for number in range(MOST_OVERTAKEN + 4):
            await asked.ask(f"{number} a", cores(1))
            await asked.ask(f"{number} b", cores(1))
            await asked.end(asked.served[number])
        assert "large" in asked.served
        assert asked.served.index("large") == 4 + MOST_OVERTAKEN


async def test_one_release_does_not_let_more_pass_than_the_bound() -> None:
    pool = ResourcePool(capacity(4), clock=StillClock(), most_overtaken=1)
    async with line(pool) as asked:
        await asked.ask("first", cores(3))
        await asked.ask("second", cores(1))
        await asked.ask("large", cores(4))
        for name in "abc":
            await asked.ask(name, cores(1))
        await asked.end("first")
        assert asked.served == ["first", "second", "a"]


async def test_those_that_try_and_do_not_wait_cannot_starve_one_that_does() -> None:
    pool = ResourcePool(capacity(2), clock=StillClock())
    async with line(pool) as asked:
        holding = pool.reserve(cores(1))
        await asked.ask("large", cores(2))
        taken = 0
        while (grant := pool.try_reserve(cores(1))) is not None:
            assert pool.can_schedule(cores(1)) is False
            holding.release()
            holding, taken = grant, taken + 1
        assert taken == MOST_OVERTAKEN
        assert not pool.can_schedule(cores(1))
        holding.release()
        await settle()
        assert asked.served == ["large"]


async def test_overtaking_ends_with_time_too() -> None:
    clock = StillClock()
    pool = ResourcePool(capacity(4), clock=clock, overtaking_seconds=5)
    async with line(pool) as asked:
        await asked.ask("first", cores(2))
        await asked.ask("large", cores(4))
        assert pool.can_schedule(cores(1))
        clock.seconds = 5
        assert not pool.can_schedule(cores(1))
        await asked.ask("small", cores(1))
        await asked.end("first")
        assert asked.served == ["first", "large"]
        await asked.end("large")
        assert asked.served == ["first", "large", "small"]


async def test_one_that_is_due_does_not_hold_up_those_that_do_it_no_harm() -> None:
    clock = StillClock()
    pool = ResourcePool(capacity(4, 100), clock=clock)
    async with line(pool) as asked:
        await asked.ask("has the GPU", whole_gpus(1))
        await asked.ask("wants it", ResourceNeeds(2, 0, 1, 0, 0, 0))
        clock.seconds = 60
        for number in range(3 * MOST_OVERTAKEN):
            await asked.ask(str(number), cores(2))
            assert asked.served[-1] == str(number)
            assert not pool.can_schedule(cores(1))
            assert not pool.can_schedule(gpu_share(1))
            await asked.end(str(number))
        await asked.ask("last", cores(2))
        await asked.end("has the GPU")
        assert asked.served[-1] == "wants it"


async def test_a_whole_gpu_is_had_in_the_end_though_shares_of_it_come_and_go() -> None:
    pool = ResourcePool(capacity(4, 100), clock=StillClock())
    async with line(pool) as asked:
        await asked.ask("0", gpu_share(50))
        await asked.ask("whole", whole_gpus(1))
        number = 0
        while "whole" not in asked.served:
            number += 1
            await asked.ask(str(number), gpu_share(50))
            await asked.end(str(number - 1))
            assert number <= MOST_OVERTAKEN + 1
        assert number == MOST_OVERTAKEN + 1


async def test_when_one_that_is_due_gives_up_those_behind_it_are_served() -> None:
    clock = StillClock()
    pool = ResourcePool(capacity(4), clock=clock)
    async with line(pool) as asked:
        await asked.ask("first", cores(2))
        await asked.ask("large", cores(4))
        clock.seconds = 60
        await asked.ask("small", cores(1))
        assert asked.served == ["first"]
        seen = pool.changes
        asked.tasks["large"].cancel()
        await settle()
        assert asked.served == ["first", "small"]
        assert pool.changes != seen
