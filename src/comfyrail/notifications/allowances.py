"""How much a tenant may send through what belongs to whoever runs the server [9.4]."""

from comfyrail.clock import Clock
from comfyrail.ids import TenantId

HOUR_SECONDS = 3600.0
MOST_TENANTS = 10_000


class HourlyAllowance:
    """So many an hour for each tenant; what was not used does not add up. It is kept in memory: a
    server that begins anew gives everybody a fresh hour.
    """

    def __init__(self, per_hour: int, clock: Clock) -> None:
        self._per_hour = per_hour
        self._clock = clock
        self._used: dict[TenantId, tuple[float, float]] = {}
        """How much is used up, and when that was so."""

    def take(self, tenant: TenantId, amount: int = 1) -> float:
        """0 where it may be sent now; else after how many seconds it may be asked for again."""
        now = self._clock.monotonic()
        amount = min(amount, self._per_hour)
        used = self._used_by(tenant, now)
        excess = used + amount - self._per_hour
        if excess > 0:
            return excess * self._seconds_each
        if len(self._used) >= MOST_TENANTS:
            self._forget(now)
        self._used[tenant] = used + amount, now
        return 0.0

    @property
    def _seconds_each(self) -> float:
        return HOUR_SECONDS / self._per_hour

    def _used_by(self, tenant: TenantId, now: float) -> float:
        used, at = self._used.get(tenant, (0.0, now))
        return max(0.0, used - (now - at) / self._seconds_each)

    def _forget(self, now: float) -> None:
        """Those who have a whole hour again, or else those who came first."""
        for tenant in [each for each in self._used if not self._used_by(each, now)]:
            del self._used[tenant]
        while len(self._used) >= MOST_TENANTS:
            del self._used[next(iter(self._used))]
