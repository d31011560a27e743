"""The tiers of an output's life [8.4], as a pure function of its age."""

import pytest

from comfyrail.clock import Instant, after
from comfyrail.jobs.life_cycle import AGE_AT_THE_END, DAY_SECONDS, end_of_tier, step_at
from comfyrail.jobs.output_config import Tier

MADE = Instant(1_700_000_000_000)
LITTLE = 0.001


@pytest.mark.parametrize(
    ("days", "tier"),
    [
        (0.0, Tier.IMMEDIATE),
        (0.999, Tier.IMMEDIATE),
        (1.0, Tier.STANDARD),
        (29.9, Tier.STANDARD),
        (30.0, Tier.ARCHIVE),
        (364.9, Tier.ARCHIVE),
        (365.0, Tier.GLACIER),
        (7 * 365 - 0.01, Tier.GLACIER),
        (7 * 365.0, None),
        (100 * 365.0, None),
    ],
)
def test_tier_is_that_of_its_age(days: float, tier: Tier | None) -> None:
    now = after(MADE, days * DAY_SECONDS)
    step = step_at(MADE, Tier.GLACIER, now)
    assert step.tier == tier
    assert (step.until is None) == (tier is None)
    assert step.until is None or step.until > now


@pytest.mark.parametrize("retention", list(Tier))
def test_it_is_gone_at_the_end_of_the_last_tier_that_it_may_see(retention: Tier) -> None:
    end = end_of_tier(retention, MADE)
    assert end == after(MADE, AGE_AT_THE_END[retention])
    assert step_at(MADE, retention, Instant(end - 1)).tier == retention
    assert step_at(MADE, retention, end).tier is None


def test_clock_that_was_set_back_makes_nothing_older() -> None:
    assert step_at(MADE, Tier.GLACIER, Instant(MADE - 10**9)).tier is Tier.IMMEDIATE
