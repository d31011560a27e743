"""Who decides: the placement of the server, and the rules of others to measure it by."""

import heapq
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from comfyrail.clock import Instant
from comfyrail.ids import TenantId, WorkerId
from comfyrail.jobs.priority import QueueClass
from comfyrail.jobs.queue import Lane, QueuedJob
from comfyrail.scheduling.fairness import FairShares
from comfyrail.scheduling.placement import PlacementRules, place
from comfyrail.scheduling.simulation.scenario import Scenario
from comfyrail.scheduling.simulation.workers import SimulatedWorker
from comfyrail.scheduling.simulation.workload import SimulatedJob

Assignment = tuple[SimulatedJob, SimulatedWorker]


@dataclass(frozen=True, slots=True)
class Decided:
    """What begins now; after how many seconds to ask again although nothing happens; and the real
    seconds that deciding took, where it is not all of the call.
    """

    begun: Sequence[Assignment] = ()
    wake_in: float | None = None
    seconds: float | None = None


class Policy(Protocol):
    loads_take_time: bool

    def add(self, job: SimulatedJob) -> None: ...

    def finished(self, job: SimulatedJob) -> None: ...

    def decide(
        self, now: float, workers: Sequence[SimulatedWorker], idle: Mapping[int, SimulatedWorker]
    ) -> Decided: ...


class Comfyrail:
    """The placement that the server uses, told what the server knows."""

    loads_take_time = True

    def __init__(self, scenario: Scenario, rules: PlacementRules | None = None) -> None:
        self._rules = rules or PlacementRules()
        self._shares = FairShares()
        self._jobs: dict[str, SimulatedJob] = {}
        self._lanes: dict[tuple[QueueClass, TenantId, str], _LaneQueue] = {}
        self._running: dict[TenantId, int] = {}
        self._jobs_per_lane = scenario.jobs_per_lane

    def add(self, job: SimulatedJob) -> None:
        key = (job.queue_class, job.tenant, job.needs.group)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _LaneQueue(job)
        lane.jobs.append(
            QueuedJob(
                job.id, round(job.deadline * 1000), job.expected, Instant(round(job.arrival * 1000))
            )
        )
        self._jobs[job.id] = job

    def finished(self, job: SimulatedJob) -> None:
        self._running[job.tenant] -= 1

    def decide(
        self, now: float, workers: Sequence[SimulatedWorker], idle: Mapping[int, SimulatedWorker]
    ) -> Decided:
        if not idle or not self._lanes:
            return Decided()
        lanes = [lane.head(self._jobs_per_lane) for lane in self._lanes.values()]
        seen = [worker.as_seen(now) for worker in workers]
        moment = Instant(round(now * 1000))
        started = time.perf_counter()
        decision = place(lanes, seen, moment, self._shares, self._running, self._rules)
        seconds = time.perf_counter() - started
        self._shares.charge(decision.service)
        by_id = {worker.id: worker for worker in idle.values()}
        begun: list[Assignment] = []
        taken: dict[tuple[QueueClass, TenantId, str], set[str]] = {}
        for placement in decision.placements:
            job = self._jobs.pop(placement.job_id)
            taken.setdefault((job.queue_class, job.tenant, job.needs.group), set()).add(job.id)
            self._running[job.tenant] = self._running.get(job.tenant, 0) + 1
            begun.append((job, by_id[WorkerId(placement.worker_id)]))
        for key, ids in taken.items():
            lane = self._lanes[key]
            lane.take(ids)
            if not lane.jobs:
                del self._lanes[key]
        return Decided(begun, decision.wake_in, seconds)


class _LaneQueue:
    """Jobs of one lane: they arrive in the order of their deadlines."""

    def __init__(self, job: SimulatedJob) -> None:
        self._like = job
        self.jobs: deque[QueuedJob] = deque()

    def head(self, limit: int) -> Lane:
        like = self._like
        jobs = list(islice(self.jobs, limit))
        return Lane(like.queue_class, like.tenant, like.needs, jobs, len(self.jobs) > limit)

    def take(self, ids: set[str]) -> None:
        kept: list[QueuedJob] = []
        while ids:
            job = self.jobs.popleft()
            if job.id in ids:
                ids.discard(job.id)
            else:
                kept.append(job)
        self.jobs.extendleft(reversed(kept))


class InTurn:
    """First come, first served; which idle worker takes the next job is the rule's choice."""

    loads_take_time = True

    def __init__(self, choose: Callable[[Sequence[SimulatedWorker]], SimulatedWorker]) -> None:
        self._choose = choose
        self._waiting: deque[SimulatedJob] = deque()

    def add(self, job: SimulatedJob) -> None:
        self._waiting.append(job)

    def finished(self, job: SimulatedJob) -> None:
        pass

    def decide(
        self, now: float, workers: Sequence[SimulatedWorker], idle: Mapping[int, SimulatedWorker]
    ) -> Decided:
        del now, workers
        free = dict(idle)
        begun: list[Assignment] = []
        passed_over: list[SimulatedJob] = []
        while free and self._waiting:
            job = self._waiting.popleft()
            fitting = [worker for worker in free.values() if worker.can_run(job.needs)]
            if not fitting:
                passed_over.append(job)
                continue
            worker = self._choose(fitting)
            del free[worker.number]
            begun.append((job, worker))
        self._waiting.extendleft(reversed(passed_over))
        return Decided(begun)


def longest_idle(workers: Sequence[SimulatedWorker]) -> SimulatedWorker:
    return min(workers, key=lambda worker: (worker.idle_since, worker.number))


def least_loaded(workers: Sequence[SimulatedWorker]) -> SimulatedWorker:
    """All of them are idle: the one that has worked least so far."""
    return min(workers, key=lambda worker: (worker.busy_seconds, worker.number))


class NextInCircle:
    def __init__(self) -> None:
        self._last = -1

    def __call__(self, workers: Sequence[SimulatedWorker]) -> SimulatedWorker:
        later = [worker for worker in workers if worker.number > self._last]
        chosen = min(later or workers, key=lambda worker: worker.number)
        self._last = chosen.number
        return chosen


class ModelPressure:
    """SwarmUI's rule: a model's pressure is 10 x the jobs that wait for it + the age of the oldest
    in seconds. A free worker takes the highest among the models that it has loaded, else the
    highest of all, and of that model the job that came first.
    """

    loads_take_time = True

    def __init__(self) -> None:
        self._waiting: dict[str, deque[SimulatedJob]] = {}

    def add(self, job: SimulatedJob) -> None:
        self._waiting.setdefault(job.needs.group, deque()).append(job)

    def finished(self, job: SimulatedJob) -> None:
        pass

    def decide(
        self, now: float, workers: Sequence[SimulatedWorker], idle: Mapping[int, SimulatedWorker]
    ) -> Decided:
        del workers
        begun: list[Assignment] = []
        free = sorted(idle.values(), key=lambda worker: (worker.idle_since, worker.number))
        cold: list[SimulatedWorker] = []
        for worker in free:
            loaded = [
                jobs for jobs in self._waiting.values() if jobs[0].needs.model_names <= worker.warm
            ]
            if loaded:
                begun.append((self._take(max(loaded, key=self._pressure_at(now))), worker))
            else:
                cold.append(worker)
        for worker in cold:
            fitting = [jobs for jobs in self._waiting.values() if worker.can_run(jobs[0].needs)]
            if fitting:
                begun.append((self._take(max(fitting, key=self._pressure_at(now))), worker))
        return Decided(begun)

    @staticmethod
    def _pressure_at(now: float) -> Callable[[deque[SimulatedJob]], float]:
        return lambda jobs: 10 * len(jobs) + now - jobs[0].arrival

    def _take(self, jobs: deque[SimulatedJob]) -> SimulatedJob:
        job = jobs.popleft()
        if not jobs:
            del self._waiting[job.needs.group]
        return job


class NoLoads:
    """A bound, not a rule that could be followed: loading takes no time, and every free worker
    takes the most urgent class first, of it the job that came first.
    """

    loads_take_time = False

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, SimulatedJob]] = []
        self._order = {each: number for number, each in enumerate(QueueClass)}

    def add(self, job: SimulatedJob) -> None:
        heapq.heappush(self._waiting, (self._order[job.queue_class], job.number, job))

    def finished(self, job: SimulatedJob) -> None:
        pass

    def decide(
        self, now: float, workers: Sequence[SimulatedWorker], idle: Mapping[int, SimulatedWorker]
    ) -> Decided:
        del now, workers
        free = dict(idle)
        begun: list[Assignment] = []
        passed_over: list[tuple[int, int, SimulatedJob]] = []
        while free and self._waiting:
            entry = heapq.heappop(self._waiting)
            worker = next((each for each in free.values() if each.can_run(entry[2].needs)), None)
            if worker is None:
                passed_over.append(entry)
                continue
            del free[worker.number]
            begun.append((entry[2], worker))
        for entry in passed_over:
            heapq.heappush(self._waiting, entry)
        return Decided(begun)


POLICIES: Mapping[str, Callable[[Scenario], Policy]] = {
    "comfyrail": Comfyrail,
    "fifo": lambda _: InTurn(longest_idle),
    "round-robin": lambda _: InTurn(NextInCircle()),
    "least-loaded": lambda _: InTurn(least_loaded),
    "swarmui": lambda _: ModelPressure(),
    "bound": lambda _: NoLoads(),
}
