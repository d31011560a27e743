"""How webhooks, emails and text messages go, for monitoring."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from comfyrail.notifications.verdicts import Verdict
from comfyrail.store.notifications import DeliveryState
from comfyrail.usecases.figures import Figure, Sample


class CountedDeliveries(Protocol):
    async def count_deliveries(self) -> Mapping[DeliveryState, int]: ...


class DeliveryFigures:
    def __init__(self, store: CountedDeliveries, counts: Mapping[Verdict, int]) -> None:
        self._store = store
        self._counts = counts

    async def __call__(self) -> Sequence[Figure]:
        states = await self._store.count_deliveries()
        return [
            Figure(
                "comfyrail_deliveries",
                "Deliveries of webhooks, emails, text messages and uploads that wait or are dead.",
                [Sample(count, {"state": state}) for state, count in states.items()],
            ),
            Figure(
                "comfyrail_delivery_tries",
                "Tries to deliver since this server began, by result.",
                [Sample(self._counts.get(verdict, 0), {"result": verdict}) for verdict in Verdict],
            ),
        ]
