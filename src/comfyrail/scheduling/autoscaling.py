"""How many workers a pool should have, as a pure function [5.4].

A pool grows when jobs of a class would begin later than they should on what exists or is starting,
when work waits that nothing can run, when the forecast says that more will be needed by the time a
worker is up, and to keep its idle ones warm. It shrinks by workers that have been idle for long and
will not be needed soon. The two thresholds are apart, so that it does not flap.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor

from comfyrail.clock import Instant
from comfyrail.ids import WorkerId
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.priority import QueueClass, WaitTargets
from comfyrail.jobs.queue import Backlog
from comfyrail.jobs.workers import PoolView, PoolWorker, WorkerProfile, WorkerStatus, most_workers
from comfyrail.scheduling.candidates import shared_memo
from comfyrail.scheduling.forecast import Forecast

UTILIZATION = 0.8
"""How busy workers are meant to be under a foretold load."""
START_SHARE, KEEP_SHARE = 0.5, 0.8
"""A worker is started for a foretold load of half a worker, and kept for a fifth of one."""
UNUSED_SECONDS = 5.0
"""A worker that has been idle for so long although jobs wait shows that more would not help."""
SHORTEST_JOB_SECONDS = 0.01

_URGENCY = (QueueClass.HIGH, QueueClass.MEDIUM, QueueClass.LOW, QueueClass.BATCH)
_CAPACITY = frozenset((WorkerStatus.STARTING, WorkerStatus.IDLE, WorkerStatus.BUSY))
_GONE = frozenset((WorkerStatus.STOPPED, WorkerStatus.FAILED))

CanRun = Callable[[JobNeeds, WorkerProfile], bool]


@dataclass(frozen=True, slots=True)
class Supply:
    """Workers of one profile that are not of the pool: when each is free, in seconds."""

    profile: WorkerProfile
    free_in: Sequence[float]


@dataclass(frozen=True, slots=True)
class ScaleDecision:
    """Workers to start, workers to drain and end, and why."""

    start: int = 0
    retire: Sequence[WorkerId] = field(default=())
    reason: str = ""


def plan_scale(
    pool: PoolView,
    demand: Sequence[Backlog],
    others: Sequence[Supply],
    forecast: Forecast,
    now: Instant,
    targets: WaitTargets,
    can_run: CanRun = shared_memo.can_run,
) -> ScaleDecision:
    """What to do about one pool now. `demand`: all that waits; `others`: what else there is."""
    return _Plan(pool, demand, others, forecast, now, targets, can_run).decide()


class _Plan:
    def __init__(
        self,
        pool: PoolView,
        demand: Sequence[Backlog],
        others: Sequence[Supply],
        forecast: Forecast,
        now: Instant,
        targets: WaitTargets,
        can_run: CanRun,
    ) -> None:
        self._pool = pool
        self._now = now
        self._targets = targets
        self._forecast = forecast
        present = [each for each in pool.workers if each.status not in _GONE]
        self._present = len(present)
        self._capacity = [each for each in present if each.status in _CAPACITY]
        self._idle = [each for each in self._capacity if each.status is WorkerStatus.IDLE]
        self._largest = most_workers(pool.limits, pool.profile)
        self._room = max(0, self._largest - self._present) if pool.can_start else 0
        self._work, self._exclusive = self._of_pool(demand, others, can_run)
        groups = [each.needs for each in self._work]
        self._others = [
            each for each in others if any(can_run(needs, each.profile) for needs in groups)
        ]
        self._others_in_all = sum(len(each.free_in) for each in others)

    def decide(self) -> ScaleDecision:
        wanted, reason = self._wanted()
        start = min(wanted, self._room)
        if start > 0:
            return ScaleDecision(start, (), reason)
        retire, why = self._to_retire(is_short=wanted > 0)
        if wanted > 0:
            why = f"{reason}; {self._why_no_room()}"
        return ScaleDecision(0, retire, why)

    # Growing

    def _wanted(self) -> tuple[int, str]:
        """How many more workers there should be, and why."""
        candidates = [
            self._for_what_nothing_else_runs(),
            self._for_the_queue(),
            self._for_the_forecast(),
            self._for_warmth(),
        ]
        return max(candidates, key=lambda each: each[0])

    def _for_what_nothing_else_runs(self) -> tuple[int, str]:
        jobs = sum(each.jobs for each in self._exclusive)
        if not jobs or self._capacity:
            return 0, ""
        return 1, f"{jobs} jobs wait that no worker can run"

    def _for_the_queue(self) -> tuple[int, str]:
        """The larger of what all work needs on all workers, and what the work that only this
        pool can run needs on this pool alone.
        """
        if any(each.idle_seconds > UNUSED_SECONDS for each in self._idle):
            return 0, ""
        own = [self._free_in(each) for each in self._capacity]
        everywhere = [*own, *(free for each in self._others for free in each.free_in)]
        return max(
            self._for_classes(self._work, everywhere),
            self._for_classes(self._exclusive, own),
            key=lambda each: each[0],
        )

    def _for_classes(self, work: Iterable[Backlog], free_in: Sequence[float]) -> tuple[int, str]:
        """Class by class, the urgent ones first: those behind wait for them too."""
        by_class: dict[QueueClass, list[Backlog]] = {}
        for each in work:
            by_class.setdefault(each.queue_class, []).append(each)
        best, reason = 0, ""
        jobs, seconds = 0, 0.0
        for queue_class in _URGENCY:
            waiting = by_class.get(queue_class)
            if not waiting:
                continue
            jobs += sum(each.jobs for each in waiting)
            seconds += sum(max(0.0, each.expected_seconds) for each in waiting)
            goal = self._goal(queue_class, min(each.oldest_rank for each in waiting))
            missing = self._missing(jobs, seconds / max(1, jobs), goal, free_in)
            if missing > best:
                best = missing
                reason = (
                    f"{jobs} jobs wait up to class {queue_class}: with {len(free_in)} workers "
                    f"not all of them would begin within {goal:.0f} s"
                )
        return best, reason

    def _goal(self, queue_class: QueueClass, oldest_rank: int) -> float:
        """Seconds within which the class's jobs should have begun. The oldest must hurry, the
        newest have the whole target; and no worker can help before it is up.
        """
        target = self._targets.of(queue_class)
        slack = max(0.0, (oldest_rank - self._now) / 1000)
        return max((min(slack, target) + target) / 2, self._pool.start_seconds + target / 2)

    def _missing(self, jobs: int, mean: float, goal: float, free_in: Sequence[float]) -> int:
        mean = max(SHORTEST_JOB_SECONDS, mean)
        begun = sum(1 + (goal - free) / mean for free in free_in if free <= goal)
        if begun >= jobs:
            return 0
        by_each = 1 + (goal - self._pool.start_seconds) / mean
        return min(jobs - floor(begun), ceil((jobs - begun) / by_each))

    def _for_the_forecast(self) -> tuple[int, str]:
        """What will be needed when a worker that is started now is up."""
        start = self._pool.start_seconds
        load = self._forecast.highest(start, start + 60)
        workers = floor(load / UTILIZATION + START_SHARE) - self._others_in_all
        missing = workers - len(self._capacity)
        return missing, f"a load of {load:.1f} workers is foretold in {start:.0f} s"

    def _for_warmth(self) -> tuple[int, str]:
        warm = self._pool.limits.warm
        ready = sum(each.status is not WorkerStatus.BUSY for each in self._capacity)
        return warm - ready, f"{warm} idle workers are to be kept warm"

    # Shrinking

    def _to_retire(self, *, is_short: bool) -> tuple[Sequence[WorkerId], str]:
        leaving = sum(each.status is WorkerStatus.DRAINING for each in self._pool.workers)
        surplus = self._present - leaving - self._largest
        if surplus > 0:
            idle = sorted(self._idle, key=_longest_idle_first)[:surplus]
            return tuple(each.id for each in idle), "there are more than the pool may have"
        limits = self._pool.limits
        idle = [each for each in self._idle if each.idle_seconds >= limits.idle_timeout]
        if is_short or not idle:
            return (), ""
        load = self._forecast.highest(0, limits.idle_timeout)
        needed = floor(load / UTILIZATION + KEEP_SHARE) - self._others_in_all
        spare = len(self._capacity) - max(limits.minimum, needed)
        beyond_warm = len(self._idle) - limits.warm
        chosen = sorted(idle, key=_longest_idle_first)[: max(0, min(spare, beyond_warm))]
        why = f"idle for {limits.idle_timeout:g} s, and no need for them is foretold"
        return tuple(each.id for each in chosen), why if chosen else ""

    # What there is

    def _why_no_room(self) -> str:
        if not self._pool.can_start:
            return "its driver has just failed and rests"
        return f"the pool may have no more than {self._largest} workers"

    def _free_in(self, worker: PoolWorker) -> float:
        if worker.status is WorkerStatus.STARTING:
            return max(0.0, self._pool.start_seconds - worker.age_seconds)
        return max(0.0, worker.free_in)

    def _of_pool(
        self, demand: Sequence[Backlog], others: Sequence[Supply], can_run: CanRun
    ) -> tuple[Sequence[Backlog], Sequence[Backlog]]:
        """What the pool can run, and what of it nobody else can. A pool that was never seen may
        run all that nobody else can.
        """
        profile = self._pool.profile
        work: list[Backlog] = []
        exclusive: list[Backlog] = []
        elsewhere: Mapping[str, bool] = {
            each.needs.group: any(can_run(each.needs, other.profile) for other in others)
            for each in demand
        }
        for each in demand:
            runs_elsewhere = elsewhere[each.needs.group]
            is_ours = not runs_elsewhere if profile is None else can_run(each.needs, profile)
            if each.jobs > 0 and is_ours:
                work.append(each)
                if not runs_elsewhere:
                    exclusive.append(each)
        return work, exclusive


def _longest_idle_first(worker: PoolWorker) -> tuple[float, WorkerId]:
    return -worker.idle_seconds, worker.id
