"""Who has had how much [4.4]."""

from comfyrail.ids import TenantId
from comfyrail.jobs.priority import QueueClass
from comfyrail.scheduling.fairness import FairShares, RoundOfService, ShareKey


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
