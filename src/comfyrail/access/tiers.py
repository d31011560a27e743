"""What a tier may do [11.2]."""

from collections.abc import Mapping
from dataclasses import dataclass

FREE = "free"
REQUESTS_A_SUBMISSION = 30
"""So many other requests go with each submission: a job is asked about while it runs."""


@dataclass(frozen=True, slots=True)
class TierLimits:
    """Of one tenant."""

    submissions: int
    """In any 60 seconds."""
    concurrent: int
    """Jobs that run at once; the others wait."""

    @property
    def requests(self) -> int:
        """In any 60 seconds, besides submissions."""
        return self.submissions * REQUESTS_A_SUBMISSION


TIERS: Mapping[str, TierLimits] = {
    FREE: TierLimits(10, 2),
    "basic": TierLimits(60, 5),
    "pro": TierLimits(120, 10),
    "premium": TierLimits(300, 20),
    "enterprise": TierLimits(1000, 100),
}


def limits_of(tier: str) -> TierLimits:
    """Of a tier that nobody knows any more: those of the smallest."""
    return TIERS.get(tier, TIERS[FREE])
