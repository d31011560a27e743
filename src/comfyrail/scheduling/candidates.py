"""Which kinds of workers can run which kinds of jobs, worked out once."""

from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.workers import WorkerProfile
from comfyrail.scheduling.scoring import can_run

PAIRS_KEPT = 200_000


class CandidateMemo:
    """Answers of `can_run` by group and profile, bounded. `asked` and `worked_out` are counts."""

    def __init__(self, pairs_kept: int = PAIRS_KEPT) -> None:
        self._kept = pairs_kept
        self._known: dict[tuple[str, WorkerProfile], bool] = {}
        self.asked = 0
        self.worked_out = 0

    def __len__(self) -> int:
        return len(self._known)

    def can_run(self, needs: JobNeeds, profile: WorkerProfile) -> bool:
        self.asked += 1
        key = (needs.group, profile)
        known = self._known.get(key)
        if known is None:
            self.worked_out += 1
            if len(self._known) >= self._kept:
                self._known.clear()
            known = self._known[key] = can_run(needs, profile)
        return known


shared_memo = CandidateMemo()
"""Of this process: groups and profiles mean the same wherever they come up."""
