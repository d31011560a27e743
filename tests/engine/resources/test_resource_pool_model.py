"""Resources [12.4]: any order of requests, releases and withdrawals, step by step."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from comfyrail.engine.resources.grant import Grant
from comfyrail.engine.resources.needs import Capacity, ResourceNeeds
from comfyrail.engine.resources.pool import ResourcePool
from tests.engine.resources.pool_parts import StillClock

CAPACITY = Capacity(4, 8, 4, 4, (4, 8))
MOST_OVERTAKEN = 3

needs_of_all_kinds = st.builds(
    ResourceNeeds,
    cpu_cores=st.integers(0, 4),
    memory_mb=st.integers(0, 8),
    gpu_count=st.integers(0, 2),
    gpu_memory_mb=st.integers(0, 4),
    disk_space_mb=st.integers(0, 1),
    network_bandwidth_mbps=st.just(0),
)


class PoolMachine(RuleBasedStateMachine):
    """Requests that wait are tasks of a loop that runs only where a rule lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = StillClock()
        self.pool = ResourcePool(CAPACITY, clock=self.clock, most_overtaken=MOST_OVERTAKEN)
        self.waiting: list[asyncio.Task[Grant]] = []
        self.held: list[Grant] = []

    def teardown(self) -> None:
        """Whatever was done, all that wait are served when those before them end."""
        while self.waiting or self.held:
            assert self.held, "those in the line wait for nobody"
            self.held.pop(0).release()
            self.settle()
        assert not any(self.pool.figures().used.values())
        self.loop.close()

    def settle(self) -> None:
        for _ in range(3):
            self.loop.run_until_complete(asyncio.sleep(0))
        for task in [task for task in self.waiting if task.done()]:
            self.waiting.remove(task)
            if not task.cancelled():
                self.held.append(task.result())

    @rule(needs=needs_of_all_kinds)
    def ask(self, needs: ResourceNeeds) -> None:
        expected = self.pool.can_schedule(needs)
        task = self.loop.create_task(self.pool.acquire(needs))
        self.waiting.append(task)
        self.settle()
        assert (task not in self.waiting) == expected

    @rule(needs=needs_of_all_kinds)
    def try_to_have(self, needs: ResourceNeeds) -> None:
        expected = self.pool.can_schedule(needs)
        grant = self.pool.try_reserve(needs)
        assert (grant is not None) == expected
        if grant is not None:
            self.held.append(grant)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        grant = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        grant.release()
        grant.release()
        self.settle()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), release_first=st.booleans())
    def cancel(self, data: st.DataObject, *, release_first: bool) -> None:
        task = data.draw(st.sampled_from(self.waiting))
        if release_first and self.held:
            self.held.pop(0).release()
        task.cancel()
        self.settle()
        assert task.cancelled()

    @rule(seconds=st.sampled_from([0.1, 10]))
    def pass_time(self, seconds: float) -> None:
        self.clock.seconds += seconds

    @invariant()
    def no_more_is_used_than_there_is(self) -> None:
        figures = self.pool.figures()
        for kind in ("cpu_cores", "memory_mb", "disk_space_mb"):
            used = sum(getattr(grant.needs, kind) for grant in self.held)
            assert used == figures.used[kind] <= figures.total[kind]

    @invariant()
    def no_device_is_had_twice(self) -> None:
        for device, memory in enumerate(CAPACITY.gpus):
            users = [grant.needs for grant in self.held if device in grant.gpu_devices]
            if any(needs.gpu_count for needs in users):
                assert len(users) == 1
                assert users[0].gpu_memory_mb <= memory
            assert sum(needs.gpu_memory_mb for needs in users) <= memory

    @invariant()
    def all_that_wait_are_in_the_line(self) -> None:
        assert self.pool.figures().waiting == len(self.waiting)

    @invariant()
    def nobody_is_harmed_more_often_than_the_rule_allows(self) -> None:
        assert all(place.overtaken <= MOST_OVERTAKEN for place in self.pool._line._places)


PoolMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPool = PoolMachine.TestCase
