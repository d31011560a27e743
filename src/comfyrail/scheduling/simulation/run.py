"""Virtual time: arrivals, ends of jobs and the rounds between them, one after another."""

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from comfyrail.scheduling.simulation.policies import Policy
from comfyrail.scheduling.simulation.scenario import Scenario
from comfyrail.scheduling.simulation.workers import SimulatedWorker, make_workers
from comfyrail.scheduling.simulation.workload import SimulatedJob, Workload


@dataclass(frozen=True, slots=True)
class Begun:
    """A job that a worker has begun. Virtual seconds."""

    job: SimulatedJob
    worker: int
    at: float
    loading: float

    @property
    def wait(self) -> float:
        """Until a worker begins it."""
        return self.at - self.job.arrival

    @property
    def until_running(self) -> float:
        """Until its models are loaded too."""
        return self.wait + self.loading

    @property
    def ends(self) -> float:
        return self.at + (self.loading + self.job.seconds)


@dataclass(slots=True)
class Trace:
    """What happened in one run. `rounds`: real seconds that each decision took."""

    begun: list[Begun] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    workers: list[SimulatedWorker] = field(default_factory=list)
    arrived: int = 0
    jobs: Sequence[SimulatedJob] = ()
    """All that there are; the first `arrived` of them have come."""


class Simulation:
    def __init__(
        self,
        scenario: Scenario,
        workload: Workload,
        policy: Policy,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._scenario = scenario
        self._workload = workload
        self._policy = policy
        self._timer = timer
        self._workers = make_workers(scenario, loads_take_time=policy.loads_take_time)
        self._idle = {worker.number: worker for worker in self._workers}
        self._ends: list[tuple[float, int]] = []
        self._wake: float | None = None
        self._trace = Trace(workers=list(self._workers), jobs=workload.jobs)

    def run(self) -> Trace:
        stop = self._scenario.stop_after
        next_round = 0.0
        moment = self._next_moment()
        while moment is not None and (stop is None or moment <= stop):
            moment = max(moment, next_round)
            self._happen(moment)
            self._round(moment)
            is_asked_again = self._wake is not None and self._wake <= moment
            next_round = moment + (0 if is_asked_again else self._scenario.round_seconds)
            moment = self._next_moment()
        return self._trace

    def _next_moment(self) -> float | None:
        jobs, arrived = self._workload.jobs, self._trace.arrived
        moments = [self._ends[0][0]] if self._ends else []
        if arrived < len(jobs):
            moments.append(jobs[arrived].arrival)
        if self._wake is not None:
            moments.append(self._wake)
        return min(moments, default=None)

    def _happen(self, now: float) -> None:
        jobs, trace = self._workload.jobs, self._trace
        while self._ends and self._ends[0][0] <= now:
            at, number = heapq.heappop(self._ends)
            worker = self._workers[number]
            if worker.job is not None:
                self._policy.finished(worker.job)
            worker.end(at)
            self._idle[number] = worker
        while trace.arrived < len(jobs) and jobs[trace.arrived].arrival <= now:
            self._policy.add(jobs[trace.arrived])
            trace.arrived += 1

    def _round(self, now: float) -> None:
        started = self._timer()
        decided = self._policy.decide(now, self._workers, self._idle)
        taken = self._timer() - started
        self._trace.rounds.append(taken if decided.seconds is None else decided.seconds)
        self._wake = None if decided.wake_in is None else now + decided.wake_in
        for job, worker in decided.begun:
            del self._idle[worker.number]
            loading, seconds = worker.begin(job, now)
            heapq.heappush(self._ends, (now + seconds, worker.number))
            self._trace.begun.append(Begun(job, worker.number, now, loading))
