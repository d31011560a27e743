"""Workers of a simulation: what is in their memory, and what a load pushes out."""

from collections import OrderedDict
from collections.abc import Sequence

from comfyrail.ids import WorkerId
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.workers import SchedulableWorker, WorkerProfile
from comfyrail.scheduling.scoring import can_run
from comfyrail.scheduling.simulation.scenario import Scenario
from comfyrail.scheduling.simulation.workload import GIGABYTE, SimulatedJob

LEAST_LEFT = 0.1
"""A job that takes longer than expected is said to go on for this part of what it has taken."""


class SimulatedWorker:
    """Runs one job at a time; models stay in memory until another needs the room, the least
    recently used going first.
    """

    def __init__(self, number: int, profile: WorkerProfile, memory: int, rate: float) -> None:
        self.id = WorkerId(f"worker-{number:05}")
        self.number = number
        self.profile = profile
        self.job: SimulatedJob | None = None
        self.idle_since = 0.0
        self.busy_seconds = 0.0
        self.loading_seconds = 0.0
        self.loads = 0
        self.jobs = 0
        self._memory = memory
        self._seconds_per_byte = rate
        self._models: OrderedDict[str, int] = OrderedDict()
        self._warm: frozenset[str] = frozenset()
        self._until = 0.0
        self._begun_at = 0.0
        self._shown: SchedulableWorker | None = None

    @property
    def warm(self) -> frozenset[str]:
        return self._warm

    def can_run(self, needs: JobNeeds) -> bool:
        return can_run(needs, self.profile)

    def begin(self, job: SimulatedJob, now: float) -> tuple[float, float]:
        """Seconds of loading, and of all until the job is done."""
        loading = self._load(job.needs)
        self.job = job
        self.jobs += 1
        self.loading_seconds += loading
        self.busy_seconds += loading + job.seconds
        self._begun_at = now
        self._until = now + loading + job.expected
        self._shown = None
        return loading, loading + job.seconds

    def end(self, now: float) -> None:
        self.job = None
        self.idle_since = now
        self._shown = None

    def _load(self, needs: JobNeeds) -> float:
        loaded = 0
        for model in needs.models:
            if model.name in self._models:
                self._models.move_to_end(model.name)
                continue
            self.loads += 1
            loaded += model.size
            self._models[model.name] = model.size
        if loaded:
            used = sum(self._models.values())
            for name in list(self._models):
                if used <= self._memory:
                    break
                if name not in needs.model_names:
                    used -= self._models.pop(name)
            self._warm = frozenset(self._models)
        return loaded * self._seconds_per_byte

    def as_seen(self, now: float) -> SchedulableWorker:
        """What the placement is told: the expected times, not the true ones."""
        if self.job is not None:
            left = max(self._until - now, LEAST_LEFT * (now - self._begun_at))
            return SchedulableWorker(self.id, self.profile, self._warm, 0, left, 1.0)
        if self._shown is None:
            self._shown = SchedulableWorker(
                self.id, self.profile, self._warm, idle_since=self.idle_since
            )
        return self._shown


def make_workers(scenario: Scenario, *, loads_take_time: bool = True) -> Sequence[SimulatedWorker]:
    rate = scenario.models.load_seconds_per_gb / GIGABYTE if loads_take_time else 0.0
    workers: list[SimulatedWorker] = []
    for each in scenario.workers:
        memory = round(each.memory_gb * GIGABYTE)
        profile = WorkerProfile(
            frozenset(),
            video_memory=memory,
            load_bytes_per_second=1 / rate if rate else 1e15,
        )
        workers += [
            SimulatedWorker(len(workers) + n, profile, memory, rate) for n in range(each.count)
        ]
    return workers
