"""The life of an output [8.4]: from tier to tier as it grows old, until it is gone."""

from dataclasses import dataclass
from enum import StrEnum

from comfyrail.clock import Instant, after
from comfyrail.jobs.output_config import Tier

DAY_SECONDS = 86_400.0
AGE_AT_THE_END = {
    Tier.IMMEDIATE: DAY_SECONDS,
    Tier.STANDARD: 30 * DAY_SECONDS,
    Tier.ARCHIVE: 365 * DAY_SECONDS,
    Tier.GLACIER: 7 * 365 * DAY_SECONDS,
}
"""How old an output is, in seconds, when it leaves a tier."""
ORDER = tuple(Tier)


class GoneReason(StrEnum):
    EXPIRED = "expired"
    QUOTA = "quota"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of an output: the tier that it is in now, and until when. `tier` None: gone."""

    tier: Tier | None
    until: Instant | None


def end_of_tier(tier: Tier, created_at: Instant) -> Instant:
    return after(created_at, AGE_AT_THE_END[tier])


def step_at(created_at: Instant, retention: Tier, now: Instant) -> Step:
    """Where an output is at a time, however long nobody has looked."""
    for tier in ORDER[: ORDER.index(retention) + 1]:
        until = end_of_tier(tier, created_at)
        if now < until:
            return Step(tier, until)
    return Step(None, None)
