"""Resources [12.4]: one thing after the other."""

import math
import threading
from typing import Any

import pytest

from comfyrail.engine.interrupt import ExecutionHalted, Interrupt
from comfyrail.engine.resources.errors import (
    NeverFits,
    ReservationStopped,
    ReservationTimedOut,
    ResourceError,
)
from comfyrail.engine.resources.needs import Capacity, ResourceNeeds
from comfyrail.engine.resources.pool import ResourcePool
from tests.engine.resources.pool_parts import (
    NOTHING,
    capacity,
    cores,
    gpu_share,
    whole_gpus,
)


def test_a_node_needs_by_default_what_the_spec_says() -> None:
    assert ResourceNeeds() == ResourceNeeds(
        cpu_cores=1,
        memory_mb=512,
        gpu_count=0,
        gpu_memory_mb=0,
        disk_space_mb=100,
        network_bandwidth_mbps=10,
    )


@pytest.mark.parametrize("amount", [-1, math.nan, math.inf])
@pytest.mark.parametrize("kind", ["cpu_cores", "memory_mb", "gpu_memory_mb", "disk_space_mb"])
def test_amounts_are_finite_and_not_negative(kind: str, amount: float) -> None:
    with pytest.raises(ValueError, match=kind):
        ResourceNeeds(**{kind: amount})  # type: ignore[arg-type]


def test_half_a_gpu_and_bad_capacities_are_refused() -> None:
    with pytest.raises(ValueError, match="gpu_count"):
        ResourceNeeds(gpu_count=0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="memory_mb"):
        Capacity(1, -1, 1, 1)
    with pytest.raises(ValueError, match="gpus"):
        Capacity(1, 1, 1, 1, (math.nan,))


def test_what_is_reserved_cannot_be_had_until_it_is_released() -> None:
    pool = ResourcePool(capacity(2))
    first, second = pool.try_reserve(cores(1)), pool.try_reserve(cores(1))
    assert first is not None
    assert second is not None
    assert not pool.can_schedule(cores(1))
    assert pool.fits(cores(1))
    assert pool.try_reserve(cores(1)) is None
    pool.release(first)
    assert pool.can_schedule(cores(1))


def test_all_kinds_are_granted_together_or_none() -> None:
    pool = ResourcePool(Capacity(4, 1000, 1000, 1000))
    held = pool.reserve(ResourceNeeds(1, 900))
    assert pool.try_reserve(ResourceNeeds(1, 200)) is None
    assert pool.figures().used["cpu_cores"] == 1
    held.release()
    assert pool.figures().used["memory_mb"] == 0


def test_a_second_release_and_one_of_another_pool_do_nothing() -> None:
    pool, other = ResourcePool(capacity(2)), ResourcePool(capacity(2))
    grant, kept = pool.reserve(cores(1)), other.reserve(cores(2))
    pool.release(kept)
    for _ in range(3):
        pool.release(grant)
        grant.release()
    assert pool.figures().used["cpu_cores"] == 0
    assert other.figures().used["cpu_cores"] == 2


def test_a_grant_is_released_at_the_end_of_its_block_also_after_an_error() -> None:
    pool = ResourcePool(capacity(1))
    with pool.reserve(cores(1)):
        assert not pool.can_schedule(cores(1))
    with pytest.raises(ZeroDivisionError), pool.reserve(cores(1)):
        1 / 0  # noqa: B018 - what a node might do
    assert pool.can_schedule(cores(1))


def test_nothing_is_granted_even_by_a_pool_that_is_full() -> None:
    pool = ResourcePool(Capacity(0, 0, 0, 0))
    with pool.reserve(NOTHING), pool.reserve(NOTHING) as grant:
        assert grant.gpu_devices == ()
    full = ResourcePool(capacity(1))
    with full.reserve(cores(1)), full.reserve(NOTHING):
        assert full.figures().used["cpu_cores"] == 1


@pytest.mark.parametrize(
    ("needs", "kind", "asked", "available"),
    [
        (cores(5), "cpu_cores", 5, 4),
        (ResourceNeeds(memory_mb=1001), "memory_mb", 1001, 1000),
        (ResourceNeeds(disk_space_mb=1e300), "disk_space_mb", 1e300, 1000),
        (ResourceNeeds(network_bandwidth_mbps=1000.01), "network_bandwidth_mbps", 1000.01, 1000),
        (whole_gpus(4), "gpu_count", 4, 3),
        (whole_gpus(2, 200), "gpu_memory_mb", 200, 150),
        (gpu_share(301), "gpu_memory_mb", 301, 300),
    ],
)
async def test_what_can_never_fit_is_refused_at_once(
    needs: ResourceNeeds, kind: str, asked: float, available: float
) -> None:
    pool = ResourcePool(capacity(4, 100, 300, 150))
    assert not pool.fits(needs)
    assert not pool.can_schedule(needs)
    for reserve in (pool.reserve, pool.try_reserve):
        with pytest.raises(NeverFits) as raised:
            reserve(needs)
        assert (raised.value.kind, raised.value.asked) == (kind, asked)
        assert raised.value.available == available
    with pytest.raises(ResourceError, match=kind) as caught:
        await pool.acquire(needs)
    assert caught.value.category == "resource"
    assert caught.value.details == {"kind": kind, "asked": asked, "available": available}


def test_a_share_of_a_gpu_needs_a_gpu() -> None:
    with pytest.raises(NeverFits, match="gpu_memory_mb"):
        ResourcePool(capacity()).reserve(gpu_share(1))


def test_fractions_add_up_to_nothing_again() -> None:
    pool = ResourcePool(capacity(1))
    grants = [pool.reserve(cores(0.1)) for _ in range(10)]
    assert not pool.can_schedule(cores(0.001))
    for grant in grants:
        grant.release()
    assert pool.figures().used["cpu_cores"] == 0
    pool.reserve(cores(1)).release()


def test_whole_gpus_are_named_and_nobody_else_gets_them() -> None:
    pool = ResourcePool(capacity(4, 300, 100, 200))
    with pool.reserve(whole_gpus(1)) as smallest, pool.reserve(whole_gpus(2)) as rest:
        assert smallest.gpu_devices == (1,)
        assert rest.gpu_devices == (0, 2)
        assert not pool.can_schedule(gpu_share(1))
        assert pool.figures().percent()["gpu_count"] == 100
    with pool.reserve(whole_gpus(1, 150)) as large_enough:
        assert large_enough.gpu_devices == (2,)


def test_shares_of_a_gpu_are_put_together_so_that_whole_ones_stay_free() -> None:
    pool = ResourcePool(capacity(4, 100, 100))
    first, second = pool.reserve(gpu_share(40)), pool.reserve(gpu_share(60))
    assert first.gpu_devices == second.gpu_devices == (0,)
    with pool.reserve(whole_gpus(1)) as whole:
        assert whole.gpu_devices == (1,)
    third = pool.reserve(gpu_share(1))
    assert third.gpu_devices == (1,)
    assert not pool.can_schedule(whole_gpus(1))
    assert pool.figures().used["gpu_memory_mb"] == 101
    for grant in (first, second, third):
        grant.release()
    assert pool.reserve(whole_gpus(2)).gpu_devices == (0, 1)


def test_a_wait_in_vain_ends_after_its_time() -> None:
    pool = ResourcePool(capacity(1))
    with pool.reserve(cores(1)):
        with pytest.raises(ReservationTimedOut) as raised:
            pool.reserve(cores(1), timeout=0.02)
        assert raised.value.category == "timeout"
        with pytest.raises(ReservationTimedOut):
            pool.reserve(cores(1), timeout=0.02, should_stop=lambda: False)
        assert pool.figures().waiting == 0
    pool.reserve(cores(1), timeout=0).release()


def test_a_wait_can_be_stopped() -> None:
    pool, interrupt = ResourcePool(capacity(1)), Interrupt()
    ended: list[BaseException] = []

    def wait(**options: Any) -> None:
        try:
            pool.reserve(cores(1), **options)
        except BaseException as error:  # noqa: BLE001 - whatever ended it is looked at
            ended.append(error)

    with pool.reserve(cores(1)):
        threads = [
            threading.Thread(target=wait, kwargs={"should_stop": stop})
            for stop in (lambda: interrupt.requested, interrupt.check)
        ]
        for thread in threads:
            thread.start()
        while pool.figures().waiting < 2:
            pool.wait(timeout=0.001)
        interrupt.request()
        for thread in threads:
            thread.join(10)
        assert {type(error) for error in ended} == {ReservationStopped, ExecutionHalted}
    assert pool.figures().waiting == 0
    assert pool.can_schedule(cores(1))


def test_figures_say_what_is_used_and_who_waits() -> None:
    pool = ResourcePool(capacity(4, 100, 300))
    empty = pool.figures()
    assert empty.total == {
        "cpu_cores": 4,
        "memory_mb": 1000,
        "disk_space_mb": 1000,
        "network_bandwidth_mbps": 1000,
        "gpu_count": 2,
        "gpu_memory_mb": 400,
    }
    assert not any(empty.used.values())
    with pool.reserve(ResourceNeeds(gpu_count=1)), pool.reserve(gpu_share(100)):
        percent = pool.figures().percent()
        assert percent["cpu_cores"] == 25
        assert percent["memory_mb"] == pytest.approx(51.2)
        assert percent["gpu_count"] == 50
        assert percent["gpu_memory_mb"] == 50
    assert ResourcePool(capacity()).figures().percent()["gpu_count"] == 0


def test_a_change_is_waited_for_and_none_is_missed() -> None:
    pool = ResourcePool(capacity(1))
    grant = pool.reserve(cores(1))
    seen = pool.changes
    assert pool.wait(seen, timeout=0.01) == seen
    releaser = threading.Timer(0.01, grant.release)
    releaser.start()
    assert pool.wait(seen, timeout=10) != seen
    releaser.join()
    assert pool.wait(seen) != seen
