"""Keys that callers give for the nodes of one job. In memory only: they are never on disk, so a job
that waits when the server ends goes on without.
"""

from collections import OrderedDict
from collections.abc import Mapping

from comfyrail.clock import Clock, SystemClock
from comfyrail.ids import JobId

JOBS_KEPT = 10_000
SECONDS_KEPT = 86_400.0
NOTHING: Mapping[str, str] = {}


class PromptSecrets:
    """One for the fleet. What a job needs no longer is forgotten, and what is old in any case."""

    def __init__(self, clock: Clock | None = None, jobs_kept: int = JOBS_KEPT) -> None:
        self._clock = clock or SystemClock()
        self._jobs_kept = jobs_kept
        self._kept: OrderedDict[JobId, tuple[float, Mapping[str, str]]] = OrderedDict()

    def put(self, job_id: JobId, secrets: Mapping[str, str]) -> None:
        """Before the job is stored: a worker may have it at once."""
        now = self._clock.monotonic()
        self._kept[job_id] = (now, dict(secrets))
        while self._kept:
            oldest, (since, _) = next(iter(self._kept.items()))
            if len(self._kept) <= self._jobs_kept and now - since < SECONDS_KEPT:
                return
            del self._kept[oldest]

    def of(self, job_id: JobId) -> Mapping[str, str]:
        found = self._kept.get(job_id)
        return NOTHING if found is None else found[1]

    def forget(self, job_id: JobId) -> None:
        self._kept.pop(job_id, None)

    def __repr__(self) -> str:
        return f"PromptSecrets({len(self._kept)} jobs)"
