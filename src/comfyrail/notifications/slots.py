"""How many calls are under way at once, and whose: nobody takes all places [9.3]."""

from collections import Counter

from comfyrail.ids import TenantId


class Slots:
    """`most` places, of which one tenant has `of_one_tenant` at most. The last `kept_free` are for
    tenants that have none: however slow others are, whoever comes is served.
    """

    def __init__(self, most: int, of_one_tenant: int, kept_free: int) -> None:
        self._most = most
        self._of_one_tenant = of_one_tenant
        self._kept_free = kept_free
        self._taken: Counter[TenantId] = Counter()

    @property
    def taken(self) -> int:
        return self._taken.total()

    def may_take(self, tenant: TenantId) -> bool:
        own = self._taken[tenant]
        free = self._most - self.taken
        return own < self._of_one_tenant and free > (self._kept_free if own else 0)

    def take(self, tenant: TenantId) -> None:
        self._taken[tenant] += 1

    def give_back(self, tenant: TenantId) -> None:
        self._taken[tenant] -= 1
        if not self._taken[tenant]:
            del self._taken[tenant]
