"""The server's figures at one moment, for monitoring: GET /metrics in docs/reference/api.md."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from comfyrail.fleet.fleet import Fleet
from comfyrail.jobs.states import JobState
from comfyrail.store.interface import Store
from comfyrail.usecases.estimates import Estimates


@dataclass(frozen=True, slots=True)
class Sample:
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    meaning: str
    samples: Sequence[Sample]


class Figures:
    def __init__(self, store: Store, fleet: Fleet, estimates: Estimates) -> None:
        self._store = store
        self._fleet = fleet
        self._estimates = estimates

    async def __call__(self) -> Sequence[Figure]:
        counts = await self._store.count_jobs()
        workers = Counter(str(view.status) for view in self._fleet.views())
        states = (JobState.QUEUED, JobState.PROCESSING)
        return [
            Figure(
                "comfyrail_jobs",
                "Jobs that have not ended, by state.",
                [Sample(counts.get(state, 0), {"state": state}) for state in states],
            ),
            Figure(
                "comfyrail_workers",
                "Workers by status.",
                [Sample(count, {"status": status}) for status, count in workers.items()],
            ),
            *self._estimate_figures(),
        ]

    def _estimate_figures(self) -> Sequence[Figure]:
        model = self._estimates.model
        errors = {"model": model.median_error, "mean_of_similar": model.baseline_error}
        return [
            Figure(
                "comfyrail_duration_records",
                "Past executions that expected durations are learned from.",
                [Sample(model.executions)],
            ),
            Figure(
                "comfyrail_duration_median_error",
                "Median relative error of expected durations on held-back history, by method.",
                [
                    Sample(error, {"method": method})
                    for method, error in errors.items()
                    if error is not None
                ],
            ),
        ]
