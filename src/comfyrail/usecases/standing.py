"""Where a job stands in the queue, by what is known of it and of the fleet [4.2]."""

from collections.abc import Mapping

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock
from comfyrail.fleet.fleet import Fleet
from comfyrail.jobs.needs import JobNeeds, ModelUse, job_needs
from comfyrail.jobs.priority import (
    DEFAULT_TARGETS,
    Factors,
    Standing,
    WaitTargets,
    expected_time_factor,
    standing_of,
)
from comfyrail.planning.analysis import Analysis

SMALL_SHARE = 0.25
LARGE_SHARE = 0.75
SMALL_FACTOR = 0.3
LARGE_FACTOR = -0.3
WARM_FACTOR = 0.3
LOOK_SECONDS = 1.0
"""The fleet is looked over at most so often: a submission must not cost a walk over all workers."""


class Standings:
    """What the fleet has to do with priority: the largest memory, and what is warm somewhere."""

    def __init__(self, fleet: Fleet, clock: Clock, targets: WaitTargets = DEFAULT_TARGETS) -> None:
        self._fleet = fleet
        self._clock = clock
        self._targets = targets
        self._looked_at = -LOOK_SECONDS
        self._largest_memory = 0
        self._warm: frozenset[str] = frozenset()

    def of(
        self,
        principal: Principal,
        priority: float,
        needs: JobNeeds,
        expected_seconds: float,
        *,
        is_batch: bool = False,
    ) -> Standing:
        self._look()
        factors = Factors(
            expected_time=expected_time_factor(expected_seconds),
            resources=self._resource_factor(needs.video_memory),
            cache=self._cache_factor(needs),
        )
        return standing_of(
            priority, principal.tier, factors, is_batch=is_batch, targets=self._targets
        )

    def _look(self) -> None:
        now = self._clock.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        warm: set[str] = set()
        largest = 0
        for worker in self._fleet.capabilities:
            largest = max(largest, worker.video_memory or 0)
            warm |= worker.warm_models
        self._warm, self._largest_memory = frozenset(warm), largest

    def _resource_factor(self, video_memory: int) -> float:
        """Small jobs fit in anywhere and go a little earlier, very large ones a little later."""
        if not self._largest_memory:
            return 0.0
        share = video_memory / self._largest_memory
        if share <= SMALL_SHARE:
            return SMALL_FACTOR
        return LARGE_FACTOR if share > LARGE_SHARE else 0.0

    def _cache_factor(self, needs: JobNeeds) -> float:
        names = needs.model_names
        return WARM_FACTOR * len(names & self._warm) / len(names) if names else 0.0


def needs_of(analysis: Analysis, labels: Mapping[str, str], worker: str = "") -> JobNeeds:
    """What a workflow asks of the worker that runs it."""
    return job_needs(
        analysis.node_types,
        (
            ModelUse(model.reference.folder, model.reference.name, model.size)
            for model in analysis.models
        ),
        video_memory=analysis.needs.video_memory,
        memory=analysis.needs.memory,
        labels=labels,
        worker=worker,
    )
