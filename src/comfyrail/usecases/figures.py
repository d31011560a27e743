"""The server's figures at one moment, for monitoring: GET /metrics in docs/reference/api.md."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from comfyrail.fleet.figures import FleetFigures
from comfyrail.fleet.fleet import Fleet
from comfyrail.jobs.states import JobState
from comfyrail.usecases.estimates import Estimates
from comfyrail.usecases.queue import ClassReport, Queue, QueueReport

POOL_COUNTS = ("total", "available", "allocated", "idle", "running", "starting", "failed")
WHOLE_FLEET = "all"


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
    def __init__(
        self,
        queue: Queue,
        fleet: Fleet,
        estimates: Estimates,
        others: Sequence[Callable[[], Awaitable[Sequence[Figure]]]] = (),
    ) -> None:
        self._others = others
        self._queue = queue
        self._fleet = fleet
        self._estimates = estimates

    async def __call__(self) -> Sequence[Figure]:
        queue = await self._queue.report()
        workers = Counter(str(view.status) for view in self._fleet.views())
        counts = {JobState.QUEUED: queue.queued, JobState.PROCESSING: queue.processing}
        return [
            Figure(
                "comfyrail_jobs",
                "Jobs that have not ended, by state.",
                [Sample(count, {"state": state}) for state, count in counts.items()],
            ),
            Figure(
                "comfyrail_workers",
                "Workers by status.",
                [Sample(count, {"status": status}) for status, count in workers.items()],
            ),
            *_queue_figures(queue),
            *_pool_figures(self._fleet.figures()),
            *self._estimate_figures(),
            *[figure for look in self._others for figure in await look()],
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


def _queue_figures(report: QueueReport) -> Sequence[Figure]:
    def by_class(name: str, meaning: str, value: Callable[[ClassReport], float]) -> Figure:
        return Figure(
            name,
            meaning,
            [Sample(value(each), {"queue_class": each.queue_class}) for each in report.classes],
        )

    waits = [
        Sample(value, {"queue_class": each.queue_class, "quantile": quantile})
        for each in report.classes
        for quantile, value in (("0.5", each.waits.median), ("0.95", each.waits.p95))
        if value is not None
    ]
    return [
        by_class("comfyrail_queue_jobs", "Jobs that wait.", lambda each: each.queued),
        by_class(
            "comfyrail_queue_seconds",
            "Seconds that the jobs that wait are expected to take.",
            lambda each: each.expected_seconds,
        ),
        by_class(
            "comfyrail_jobs_started",
            "Jobs that this server has started since it began.",
            lambda each: each.waits.started,
        ),
        by_class(
            "comfyrail_wait_targets_missed",
            "Of these, jobs that waited longer than the target of their class.",
            lambda each: each.waits.missed,
        ),
        Figure("comfyrail_wait_seconds", "How long the latest jobs waited.", waits),
        Figure(
            "comfyrail_queue_paused",
            "1 while no job is started.",
            [Sample(float(report.state.is_paused))],
        ),
    ]


def _pool_figures(figures: FleetFigures) -> Sequence[Figure]:
    pools = {WHOLE_FLEET: figures.overall, **figures.pools}
    return [
        Figure(
            "comfyrail_pool_workers",
            "Workers of a pool by what they do.",
            [
                Sample(getattr(pool, count), {"pool": name, "figure": count})
                for name, pool in pools.items()
                for count in POOL_COUNTS
            ],
        ),
        Figure(
            "comfyrail_pool_utilization",
            "The share of the last minute in which the workers that are up worked.",
            [Sample(pool.utilization, {"pool": name}) for name, pool in pools.items()],
        ),
    ]
