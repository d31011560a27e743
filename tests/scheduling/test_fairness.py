"""Who has had how much [4.4]."""

from dataclasses import replace
from itertools import pairwise

import pytest

from comfyrail.ids import TenantId
from comfyrail.jobs.priority import QueueClass, WaitTargets, wait_target_seconds
from comfyrail.jobs.queue import Lane
from comfyrail.scheduling.fairness import FairShares, RoundOfService, ShareKey
from comfyrail.scheduling.placement import PlacementRules
from tests.scheduling.making import PROFILE, decide, lane, needs, pairs, worker

PLAIN = needs(types=["A"])


def key(tenant: str, queue_class: QueueClass = QueueClass.MEDIUM) -> ShareKey:
    return queue_class, TenantId(tenant)


def test_who_was_away_gets_no_credit_for_it() -> None:
    shares = FairShares()
    shares.charge(RoundOfService({key("busy"): 900.0}))
    shares.charge(RoundOfService({key("busy"): 100.0}, shares.least([key("busy")])))
    assert shares.clock(key("busy")) == 1000
    assert shares.clock(key("back")) == 900
    assert shares.clock(key("back", QueueClass.HIGH)) == 0


def test_who_waits_keeps_its_claim_while_others_are_served() -> None:
    shares = FairShares()
    for _ in range(3):
        waiting = shares.least([key("served"), key("waits")])
        shares.charge(RoundOfService({key("served"): 10.0}, waiting))
    assert shares.clock(key("served")) - shares.clock(key("waits")) == 30


def test_memory_is_bounded_and_keeps_those_that_are_furthest_ahead() -> None:
    shares = FairShares(tenants_kept=10)
    for number in range(1000):
        shares.charge(RoundOfService({key(f"t{number}"): float(number)}))
        assert len(shares) <= 10
    assert shares.clock(key("t999")) == 999
    assert shares.clock(key("t3")) == 0


def test_negative_service_is_none() -> None:
    shares = FairShares()
    shares.charge(RoundOfService({key("odd"): -5.0}))
    assert shares.clock(key("odd")) == 0


def one_after_another(
    lanes: list[Lane], shares: FairShares, rules: PlacementRules | None = None
) -> list[str]:
    """The first to begin in each of 40 rounds with the same jobs in the queue."""
    begun: list[str] = []
    for _ in range(40):
        decision = decide(lanes, [worker("w")], shares=shares, rules=rules)
        shares.charge(decision.service)
        begun.extend(job for job, _ in pairs(decision))
    return begun


@pytest.mark.parametrize("limit", [None, 0])
def test_tenant_of_which_nothing_can_begin_holds_nobody_back(limit: int | None) -> None:
    """Because no worker can run its job, or because it is at its limit."""
    asked = PLAIN if limit == 0 else needs(types=["A"], labels={"no": "such"})
    high, low = QueueClass.HIGH, QueueClass.LOW
    lanes = [
        lane(PLAIN, 20, name="high", queue_class=high),
        lane(PLAIN, 500, name="low", queue_class=low),
        lane(asked, -300, name="never", tenant="other", queue_class=high),
    ]
    shares = FairShares()
    limits = {} if limit is None else {TenantId("other"): limit}
    begun = one_after_another(lanes, shares, PlacementRules(tenant_limits=limits))
    assert set(begun) == {"high-0"}
    assert shares.clock(key("other", high)) > 300, "the clock of the class stood still"


def test_tenant_far_ahead_of_its_share_is_still_of_its_class() -> None:
    shares = FairShares()
    shares.charge(RoundOfService({key("one", QueueClass.HIGH): 1e6}))
    waits = needs(types=["A"], labels={"pool": "busy"})
    lanes = [
        lane(PLAIN, 29, name="high", queue_class=QueueClass.HIGH),
        lane(PLAIN, 76, name="medium"),
        lane(waits, 20, name="other", tenant="other", queue_class=QueueClass.HIGH),
    ]
    elsewhere = worker(
        "busy", profile=replace(PROFILE, labels={"pool": "busy"}), slots=0, free_in=900
    )
    decision = decide(lanes, [worker("w"), elsewhere], shares=shares)
    assert pairs(decision) == [("high-0", "w")]


@pytest.mark.parametrize("targets", [WaitTargets(), WaitTargets(60, 61, 100, 90)])
def test_no_deadline_is_put_back_into_the_class_below(targets: WaitTargets) -> None:
    rules = PlacementRules(targets=targets)
    for above, below in pairwise(QueueClass):
        delay = rules.longest_delay(above)
        latest = targets.of(above) + delay
        assert delay == 0 or latest <= wait_target_seconds(10, below, targets)


def test_among_tenants_far_ahead_the_one_with_less_goes_first() -> None:
    shares = FairShares()
    ahead = {"most": 9000.0, "more": 6000.0, "much": 3000.0, "least": 0.0}
    shares.charge(RoundOfService({key(name): seconds for name, seconds in ahead.items()}))
    lanes = [lane(PLAIN, -90 + place, name=name, tenant=name) for place, name in enumerate(ahead)]
    workers = [worker(f"w{n}") for n in range(4)]
    order = [job for job, _ in pairs(decide(lanes, workers, shares=shares))]
    assert order == ["least-0", "much-0", "more-0", "most-0"]
