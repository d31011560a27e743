"""How far a caller has read the events of its jobs, for APIs whose callers do not say it."""

from collections import OrderedDict

from comfyrail.access.principal import Principal
from comfyrail.ids import JobId, TenantId

POSITIONS_KEPT = 10_000


class ReadPositions:
    """In memory, those used last: after a restart a job's events are read from the beginning."""

    def __init__(self, kept: int = POSITIONS_KEPT) -> None:
        self._kept = kept
        self._numbers: OrderedDict[tuple[TenantId, JobId], int] = OrderedDict()

    def of(self, principal: Principal, job_id: JobId) -> int:
        """The number of the last event that was read; 0: none."""
        return self._numbers.get((principal.tenant, job_id), 0)

    def move(self, principal: Principal, job_id: JobId, number: int) -> None:
        key = (principal.tenant, job_id)
        self._numbers[key] = number
        self._numbers.move_to_end(key)
        while len(self._numbers) > self._kept:
            self._numbers.popitem(last=False)
