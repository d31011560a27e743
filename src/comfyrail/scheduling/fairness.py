"""Fair share between tenants [4.4]: who has had more than the others of its class, and how much.

Each tenant of a class has a virtual clock that its jobs' seconds move on (start-time fair
queueing). The class has a clock too: that of the tenant with the least among those that wait. Who
was away comes back at the class's clock, so that nobody saves up credit; who is ahead of it has had
more than its share, and waits for the others to catch up.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from comfyrail.ids import TenantId
from comfyrail.jobs.priority import QueueClass

TENANTS_KEPT = 10_000

ShareKey = tuple[QueueClass, TenantId]


@dataclass(frozen=True, slots=True)
class RoundOfService:
    """What one round has given: to be charged once its placements are made."""

    seconds: Mapping[ShareKey, float] = field(default_factory=dict)
    waiting: Mapping[QueueClass, float] = field(default_factory=dict)
    """By class, the clock of the tenant that had least of those that waited."""


class FairShares:
    """Kept in memory by whoever schedules; nothing is lost with it but who was ahead."""

    def __init__(self, tenants_kept: int = TENANTS_KEPT) -> None:
        self._kept = max(1, tenants_kept)
        self._clocks: dict[ShareKey, float] = {}
        self._class_clocks: dict[QueueClass, float] = {}

    def __len__(self) -> int:
        return len(self._clocks)

    def clock(self, key: ShareKey) -> float:
        """Seconds of service that the tenant stands at; never behind its class."""
        return max(self._clocks.get(key, 0.0), self._class_clocks.get(key[0], 0.0))

    def least(self, keys: Iterable[ShareKey]) -> dict[QueueClass, float]:
        """By class, the clock of the one of these tenants that has had least."""
        found: dict[QueueClass, float] = {}
        for key in keys:
            clock = self.clock(key)
            found[key[0]] = min(clock, found.get(key[0], clock))
        return found

    def charge(self, service: RoundOfService) -> None:
        for key, seconds in service.seconds.items():
            self._clocks[key] = self.clock(key) + max(0.0, seconds)
        for queue_class, clock in service.waiting.items():
            self._class_clocks[queue_class] = max(clock, self._class_clocks.get(queue_class, 0.0))
        if len(self._clocks) > self._kept:
            self._forget()

    def _forget(self) -> None:
        """Who is not ahead of its class is as good as unknown; then who is ahead least."""
        ahead = {
            key: clock - self._class_clocks.get(key[0], 0.0) for key, clock in self._clocks.items()
        }
        kept = sorted((key for key, lead in ahead.items() if lead > 0), key=ahead.__getitem__)
        # Half at once, so that a flood of tenants does not sort again on every round.
        keep = kept if len(kept) <= self._kept else kept[-max(1, self._kept // 2) :]
        self._clocks = {key: self._clocks[key] for key in keep}
