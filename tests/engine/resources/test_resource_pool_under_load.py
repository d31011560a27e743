"""Resources [12.4]: no oversubscription and no deadlock, whoever asks for whatever at once."""

import asyncio
import random
import threading
import time
from collections import Counter

import pytest

from comfyrail.engine.resources.errors import ReservationStopped, ReservationTimedOut
from comfyrail.engine.resources.grant import Grant
from comfyrail.engine.resources.needs import Capacity, ResourceNeeds
from comfyrail.engine.resources.pool import ResourcePool
from tests.engine.resources.pool_parts import capacity, cores

CAPACITY = Capacity(8, 8000, 2000, 1000, (1000, 2000, 2000))


class Ledger:
    """Counts by itself what is in use, and notes where that is more than there is."""

    def __init__(self, available: Capacity) -> None:
        self._available = available
        self._lock = threading.Lock()
        self._used: Counter[str] = Counter()
        self._held_whole: Counter[int] = Counter()
        self._shares: Counter[int] = Counter()
        self.faults: list[str] = []
        self.uses = 0

    def begin(self, grant: Grant) -> None:
        with self._lock:
            self.uses += 1
            self._add(grant, 1)
            self._look()

    def end(self, grant: Grant) -> None:
        with self._lock:
            self._add(grant, -1)

    def _add(self, grant: Grant, sign: int) -> None:
        needs = grant.needs
        for kind in ("cpu_cores", "memory_mb", "disk_space_mb", "network_bandwidth_mbps"):
            self._used[kind] += sign * getattr(needs, kind)
        expected = needs.gpu_count or (1 if needs.gpu_memory_mb else 0)
        if len(set(grant.gpu_devices)) != expected:
            self.faults.append(f"{needs} got the devices {grant.gpu_devices}")
        for device in grant.gpu_devices:
            if needs.gpu_count:
                self._held_whole[device] += sign
            else:
                self._shares[device] += sign * int(needs.gpu_memory_mb)

    def _look(self) -> None:
        for kind, used in self._used.items():
            if used > getattr(self._available, kind):
                self.faults.append(f"{used} of {kind}")
        for device, memory in enumerate(self._available.gpus):
            whole, shares = self._held_whole[device], self._shares[device]
            if whole > 1 or (whole and shares) or shares > memory:
                self.faults.append(f"device {device}: {whole} times whole, {shares} shared")


def random_needs(chance: random.Random) -> ResourceNeeds:
    """Whole numbers, so that the ledger compares without rounding; some are the most there is."""
    return ResourceNeeds(
        cpu_cores=chance.choice([0, 1, 1, 2, 3, 8]),
        memory_mb=chance.choice([0, 100, 512, 4000, 8000]),
        gpu_count=(count := chance.choice([0, 0, 0, 0, 1, 2, 3])),
        gpu_memory_mb=chance.choice([0, 0, 300, 1000] if count else [0, 0, 0, 300, 1500]),
        disk_space_mb=chance.choice([0, 100, 500, 2000]),
        network_bandwidth_mbps=chance.choice([0, 10, 10, 400]),
    )


def use(pool: ResourcePool, ledger: Ledger, chance: random.Random) -> None:
    """One request of a random kind, held for a random while if it is granted."""
    needs, way = random_needs(chance), chance.random()
    if way < 0.1:
        grant = pool.try_reserve(needs)
        if grant is None:
            return
    elif way < 0.2:
        try:
            grant = pool.reserve(needs, timeout=chance.random() * 0.003)
        except ReservationTimedOut:
            return
    elif way < 0.3:
        try:
            grant = pool.reserve(needs, should_stop=lambda: chance.random() < 0.5)
        except ReservationStopped:
            return
    else:
        grant = pool.reserve(needs)
    with grant:
        ledger.begin(grant)
        time.sleep(chance.choice([0, 0, 0.0005, 0.002]))
        ledger.end(grant)
    if chance.random() < 0.2:
        pool.release(grant)


async def use_in_task(pool: ResourcePool, ledger: Ledger, chance: random.Random) -> None:
    with await pool.acquire(random_needs(chance)) as grant:
        ledger.begin(grant)
        try:
            await asyncio.sleep(chance.choice([0, 0, 0.0005, 0.002]))
        finally:
            ledger.end(grant)


def assert_all_is_free(pool: ResourcePool) -> None:
    figures = pool.figures()
    assert not any(figures.used.values())
    assert figures.waiting == 0
    with pool.reserve(ResourceNeeds(8, 8000, 3, 1000, 2000, 1000), timeout=0):
        assert figures.percent() == dict.fromkeys(figures.total, 0)


def run_threads(pool: ResourcePool, ledger: Ledger, count: int, requests: int) -> list[str]:
    """Threads that make so many requests each; the names of those that did not end."""

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(requests):
            use(pool, ledger, chance)

    threads = [
        threading.Thread(target=work, args=(seed,), daemon=True, name=str(seed))
        for seed in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return [thread.name for thread in threads if thread.is_alive()]


def test_sixteen_threads_with_hundreds_of_requests_all_end_and_never_have_too_much() -> None:
    pool, ledger = ResourcePool(CAPACITY), Ledger(CAPACITY)
    assert run_threads(pool, ledger, count=16, requests=40) == []
    assert ledger.faults == []
    assert ledger.uses > 300
    assert_all_is_free(pool)


async def test_tasks_of_which_many_are_cancelled_all_end_and_leave_nothing_behind() -> None:
    pool, ledger, chance = ResourcePool(CAPACITY), Ledger(CAPACITY), random.Random(1)
    tasks = [
        asyncio.create_task(use_in_task(pool, ledger, random.Random(seed))) for seed in range(500)
    ]
    for _ in range(300):
        await asyncio.sleep(chance.choice([0, 0, 0, 0.001]))
        chance.choice(tasks).cancel()
    async with asyncio.timeout(30):
        await asyncio.gather(*tasks, return_exceptions=True)
    cancelled = sum(task.cancelled() for task in tasks)
    assert 20 < cancelled < 480
    assert sum(task.done() and not task.cancelled() for task in tasks) == 500 - cancelled
    assert ledger.faults == []
    assert_all_is_free(pool)


async def test_threads_and_tasks_share_a_pool() -> None:
    pool, ledger, chance = ResourcePool(CAPACITY), Ledger(CAPACITY), random.Random(2)
    tasks = [
        asyncio.create_task(use_in_task(pool, ledger, random.Random(seed))) for seed in range(200)
    ]
    threads = asyncio.create_task(asyncio.to_thread(run_threads, pool, ledger, 8, 25))
    for _ in range(100):
        await asyncio.sleep(0.001)
        chance.choice(tasks).cancel()
    async with asyncio.timeout(30):
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await threads == []
    assert ledger.faults == []
    assert_all_is_free(pool)


async def test_a_task_cancelled_after_its_grant_came_gives_it_back() -> None:
    pool = ResourcePool(capacity(1))
    held = pool.reserve(cores(1))
    task = asyncio.create_task(pool.acquire(cores(1)))
    behind = asyncio.create_task(pool.acquire(cores(1)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert pool.figures().waiting == 2
    held.release()
    # The grant is the task's now, but the task has not run since.
    assert pool.figures().waiting == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        (await behind).release()
    assert_empty(pool)


async def test_a_task_is_woken_by_a_thread() -> None:
    pool = ResourcePool(capacity(1))
    held = pool.reserve(cores(1))
    seen = pool.changes
    task = asyncio.create_task(pool.acquire(cores(1)))
    watching = asyncio.create_task(pool.wait_async(seen))
    await asyncio.sleep(0)
    await asyncio.to_thread(held.release)
    async with asyncio.timeout(5):
        assert await watching != seen
        (await task).release()
    assert await pool.wait_async(seen) != seen
    assert_empty(pool)


async def test_a_watcher_that_is_cancelled_is_forgotten() -> None:
    pool = ResourcePool(capacity(1))
    watching = asyncio.create_task(pool.wait_async())
    await asyncio.sleep(0)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert pool._watchers == set()


def test_what_would_go_to_a_loop_that_is_closed_goes_to_the_next() -> None:
    pool = ResourcePool(capacity(1))
    held = pool.reserve(cores(1))
    loop = asyncio.new_event_loop()
    request = pool.acquire(cores(1))
    task = loop.create_task(request)
    loop.run_until_complete(asyncio.sleep(0, None))
    loop.run_until_complete(asyncio.sleep(0, None))
    assert pool.figures().waiting == 1
    loop.close()
    waiting = threading.Thread(target=lambda: pool.reserve(cores(1)).release(), daemon=True)
    waiting.start()
    while pool.figures().waiting < 2:
        pool.wait(timeout=0.001)
    held.release()
    waiting.join(10)
    assert not waiting.is_alive()
    assert_empty(pool)
    request.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def assert_empty(pool: ResourcePool) -> None:
    figures = pool.figures()
    assert not any(figures.used.values())
    assert figures.waiting == 0
