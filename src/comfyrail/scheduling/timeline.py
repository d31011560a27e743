"""The workers of one round, and what they will be doing: each is given jobs one after another,
and what it has been given counts at once (its time, its models, its memory).

Nothing here looks at all workers for a job. Workers that have a model warm are found by the model,
and the others by their profile, in heaps by when they are free; an entry that is no longer true
is mended when it comes up. The few workers that a job is to stay away from are passed over when
they come up.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace

from comfyrail.jobs.needs import JobNeeds, ModelUse
from comfyrail.jobs.workers import SchedulableWorker, WorkerProfile
from comfyrail.scheduling.candidates import CandidateMemo
from comfyrail.scheduling.scoring import load_seconds, memory_fit

Index = int
"""Of a worker in the sequence that the round was given, or of a profile in order of appearance."""

Entry = tuple[float, int, float, Index]
"""When a worker is free, how many models it has that jobs wait for, idle since when, which one."""


EMPTY = -1
"""In the place of the number of models: a worker that has none at all loses none by a load."""

LEAST_BUSY = 0.05
"""Seconds. A worker that takes nothing now is never as good as one that does."""

LONGEST_DETOUR = 10.0
"""Seconds. A job goes back to a worker on which it has failed when no other is free within this
time: a long wait behind another job would be worse."""

_NOBODY: frozenset[Index] = frozenset()


class Group:
    """Jobs of equal needs, and where they could run."""

    __slots__ = (
        "avoids",
        "capable",
        "has_one",
        "is_choosy",
        "kinds",
        "largest",
        "matters",
        "names",
        "needs",
        "number",
        "sizes",
        "total",
        "warm",
    )

    def __init__(self, needs: JobNeeds, number: int, assumed_bytes: int) -> None:
        self.needs = needs
        self.number = number
        self.names = needs.model_names
        self.sizes = {model.name: model.size or assumed_bytes for model in needs.models}
        self.total = sum(self.sizes.values())
        self.has_one = len(self.sizes) == 1
        self.largest = max(self.sizes, key=lambda name: (self.sizes[name], name), default=None)
        self.warm: list[Entry] | None = None
        """Workers that have the largest model, by when they could begin to run the group."""
        self.capable: list[tuple[float, float, Index]] | None = None
        """Profiles that can run it, by when the first worker of each is free, then by how well its
        memory fits."""
        self.is_choosy = bool(needs.avoided or needs.above_memory or needs.worker)
        """Whether it does not go to just any of the workers that can run it."""
        self.kinds: frozenset[Index] = frozenset()
        """The profiles in `capable`."""
        self.avoids: frozenset[Index] = _NOBODY
        """Workers of these profiles that it does not go to."""
        self.matters: bool | None = None


class Timeline:
    def __init__(
        self, workers: Sequence[SchedulableWorker], groups: Iterable[Group], memo: CandidateMemo
    ) -> None:
        self.workers = workers
        self.ready = [_ready_in(worker) for worker in workers]
        """Seconds until each would begin the next job that it is given."""
        self.slots = [worker.slots for worker in workers]
        self.warm = [worker.warm for worker in workers]
        self.free_slots = sum(self.slots)
        self._memo = memo
        self._groups = list(groups)
        self._sizes: dict[str, int] = {}
        for group in self._groups:
            self._sizes.update(group.sizes)
        self._with_model: dict[str, list[Entry]] = {name: [] for name in self._sizes}
        self._in_order: set[str] = set()
        """Models whose list of workers has been made a heap: the others are not asked for yet."""
        self._shared_heaps: dict[tuple[tuple[ModelUse, ...], frozenset[Index]], list[Entry]] = {}
        """By models and profiles, those that are not a model's own."""
        self._heaps_by_largest: dict[str, list[tuple[Group, list[Entry]]]] = {}
        """The same by their largest model, each with one of its groups."""
        self._profiles: list[WorkerProfile] = []
        self._kinds: list[Index] = []
        """Of each worker, the number of its profile."""
        self._of_profile: list[list[Entry]] = []
        self._places: list[int] = []
        """Of each profile, the free slots."""
        self._contested: frozenset[Index] | None = None
        self._avoided: dict[str, Index] | None = None
        self._index_workers()

    def _index_workers(self) -> None:
        with_model, wanted = self._with_model, frozenset(self._sizes)
        numbers: dict[WorkerProfile, Index] = {}
        for index, worker in enumerate(self.workers):
            useful = worker.warm & wanted
            held = len(useful) if worker.warm else EMPTY
            entry = (self.ready[index], held, worker.idle_since, index)
            for name in useful:
                with_model[name].append(entry)
            number = numbers.get(worker.profile)
            if number is None:
                number = numbers[worker.profile] = len(numbers)
                self._of_profile.append([])
                self._places.append(0)
            self._kinds.append(number)
            self._of_profile[number].append(entry)
            self._places[number] += worker.slots
        self._profiles = list(numbers)
        for heap in self._of_profile:
            heapify(heap)

    def idle(self) -> Iterator[Index]:
        """Workers that have nothing to do and have been given nothing."""
        for index, slots in enumerate(self.slots):
            if slots > 0 and self.ready[index] <= 0:
                yield index

    def can_run(self, group: Group, index: Index) -> bool:
        """Whether the worker may be given jobs of the group."""
        if not group.is_choosy:
            return self._memo.can_run(group.needs, self.workers[index].profile)
        self._capable(group)
        return self._kinds[index] in group.kinds and index not in group.avoids

    def is_runnable(self, group: Group) -> bool:
        """Whether there is a worker, free or not, that can run it."""
        return bool(self._capable(group))

    def has_place(self, group: Group) -> bool:
        """Whether a worker that can run it, be it one to be avoided, would take a job now."""
        if group.needs.worker:
            soonest = self.soonest(group)
            return soonest is not None and self.slots[soonest[1]] > 0
        return any(self._places[number] > 0 for *_, number in self._capable(group))

    def matters(self, group: Group) -> bool:
        """Whether it makes a difference who is kept for the group: not where all that can run it
        are busy, and nobody who could begin now would rather have one of those.
        """
        if group.matters is None:
            if self._contested is None:
                self._contested = frozenset(
                    number
                    for each in self._groups
                    if self.has_place(each)
                    for *_, number in self._capable(each)
                )
            group.matters = any(n in self._contested for *_, n in self._capable(group))
        return group.matters

    def warmest(self, group: Group) -> tuple[float, Index] | None:
        """The worker that has the group's largest model and would run a job soonest (what else is
        missing is loaded first), with the seconds until then. None: no worker has the model.
        """
        heap = group.warm
        if heap is None:
            heap = group.warm = self._warm_workers(group)
        passed_over: list[Entry] = []
        found: tuple[float, Index] | None = None
        while heap and found is None:
            start, useful, idle_since, index = heap[0]
            if group.largest not in self.warm[index]:
                heappop(heap)
                continue
            true_start = self.ready[index] if group.has_one else self.start_on(group, index)
            if true_start != start:
                heapreplace(heap, (true_start, useful, idle_since, index))
            elif index in group.avoids:
                passed_over.append(heappop(heap))
            else:
                found = start, index
        for entry in passed_over:
            heappush(heap, entry)
        return found

    def _warm_workers(self, group: Group) -> list[Entry]:
        """Groups of one model that every worker can run share the heap of that model; those with
        the same models that workers of the same profiles can run share one of their own.
        """
        if group.largest is None:
            return []
        everywhere = self._with_model[group.largest]
        if group.largest not in self._in_order:
            self._in_order.add(group.largest)
            heapify(everywhere)
        if group.has_one and len(self._capable(group)) == len(self._profiles):
            return everywhere
        self._capable(group)
        key = (group.needs.models, group.kinds)
        heap = self._shared_heaps.get(key)
        if heap is None:
            heap = self._shared_heaps[key] = self._warm_among(group, everywhere)
            self._heaps_by_largest.setdefault(group.largest, []).append((group, heap))
        return heap

    def _warm_among(self, group: Group, everywhere: list[Entry]) -> list[Entry]:
        capable, kinds = group.kinds, self._kinds
        heap = [entry for entry in everywhere if kinds[entry[3]] in capable]
        if not group.has_one:
            heap = [
                (self.start_on(group, index), useful, idle_since, index)
                for _, useful, idle_since, index in heap
            ]
        heapify(heap)
        return heap

    def soonest(self, group: Group) -> tuple[float, Index] | None:
        """The capable worker that is free first, with the seconds until a job would run there. Of
        several: the one whose memory fits best, then that with the fewest models that jobs wait
        for. None: none is capable.
        """
        heap = self._capable(group)
        while heap:
            ready, unfit, number = heap[0]
            true_ready, index = self._first_of(number, group.avoids)
            if true_ready == ready:
                return self.start_on(group, index), index
            heapreplace(heap, (true_ready, unfit, number))
        return None

    def _capable(self, group: Group) -> list[tuple[float, float, Index]]:
        if group.capable is None:
            needed = group.needs.video_memory
            numbers = [
                number
                for number, profile in enumerate(self._profiles)
                if self._memo.can_run(group.needs, profile)
            ]
            if group.is_choosy:
                numbers = self._preferred(group, numbers)
            group.kinds = frozenset(numbers)
            group.capable = [
                (
                    self._first_of(number, group.avoids)[0],
                    -memory_fit(needed, self._profiles[number].video_memory),
                    number,
                )
                for number in numbers
            ]
            heapify(group.capable)
        return group.capable

    def _preferred(self, group: Group, numbers: Sequence[Index]) -> list[Index]:
        """Of the profiles that can run the group those that it goes to: not to workers on which it
        has failed, where there is another one that will soon be free; and of those that are left to
        the ones with more memory than was too little, where there are any. One that is for a single
        worker goes there or nowhere.
        """
        if group.needs.worker:
            return self._only(group, numbers)
        asked = [index for index in self._to_avoid(group) if self._kinds[index] in numbers]
        avoids, left = set(asked), list(numbers)
        for start in range(len(asked) + 1):
            avoids = set(asked[start:])
            counts = Counter(self._kinds[index] for index in avoids)
            left = [each for each in numbers if len(self._of_profile[each]) > counts[each]]
            if self._is_free_soon(left, frozenset(avoids)):
                break
        else:
            avoids, left = set(), list(numbers)
        too_little = group.needs.above_memory
        larger = [each for each in left if (self._profiles[each].video_memory or 0) > too_little]
        left = larger if too_little and larger else left
        group.avoids = frozenset(index for index in avoids if self._kinds[index] in left)
        return left

    def _only(self, group: Group, numbers: Sequence[Index]) -> list[Index]:
        wanted = group.needs.worker
        index = next((at for at, each in enumerate(self.workers) if each.id == wanted), None)
        if index is None or self._kinds[index] not in numbers:
            return []
        number = self._kinds[index]
        group.avoids = frozenset(at for *_, at in self._of_profile[number] if at != index)
        return [number]

    def _is_free_soon(self, numbers: Sequence[Index], avoids: frozenset[Index]) -> bool:
        return any(self._first_of(each, avoids)[0] <= LONGEST_DETOUR for each in numbers)

    def _to_avoid(self, group: Group) -> Iterable[Index]:
        if self._avoided is None:
            asked = {worker_id for each in self._groups for worker_id in each.needs.avoided}
            self._avoided = {
                worker.id: index for index, worker in enumerate(self.workers) if worker.id in asked
            }
        return (self._avoided[each] for each in group.needs.avoided if each in self._avoided)

    def _first_of(self, number: Index, avoids: frozenset[Index] = _NOBODY) -> tuple[float, Index]:
        """Of a profile that has workers besides those to be avoided."""
        heap = self._of_profile[number]
        passed_over: list[Entry] = []
        while True:
            ready, useful, idle_since, index = heap[0]
            if self.ready[index] != ready:
                heapreplace(heap, (self.ready[index], useful, idle_since, index))
            elif index in avoids:
                passed_over.append(heappop(heap))
            else:
                break
        for entry in passed_over:
            heappush(heap, entry)
        return ready, index

    def start_on(self, group: Group, index: Index) -> float:
        """Seconds until a job of the group would run on this worker, its models loaded."""
        if group.names <= self.warm[index]:
            return self.ready[index]
        missing = self.missing(group, index)
        return self.ready[index] + load_seconds(missing, self.workers[index].profile)

    def missing(self, group: Group, index: Index) -> int:
        """Bytes that the worker would have to load."""
        warm = self.warm[index]
        if group.names <= warm:
            return 0
        if group.has_one:
            return group.total
        return sum(size for name, size in group.sizes.items() if name not in warm)

    def has_room(self, group: Group, index: Index) -> bool:
        """Whether the group's models surely push nothing out of the worker's memory."""
        warm = self.warm[index]
        if not warm:
            return True
        profile = self.workers[index].profile
        memory = profile.video_memory
        together = warm | group.names
        if not profile.keeps_models or memory is None or not self._sizes.keys() >= together:
            return False
        return sum(self._sizes[name] for name in together) <= memory

    def give(self, group: Group, index: Index, seconds: float) -> bool:
        """Let the worker run a job of the group next; whether it takes the job already now, or
        has only been kept for it.
        """
        self.ready[index] = self.start_on(group, index) + max(seconds, LEAST_BUSY)
        if not group.names <= self.warm[index] or not self.workers[index].profile.keeps_models:
            self._load(group, index)
        if self.slots[index] <= 0:
            return False
        self.slots[index] -= 1
        self._places[self._kinds[index]] -= 1
        self.free_slots -= 1
        return True

    def _load(self, group: Group, index: Index) -> None:
        """Which models a worker drops for others is its own affair: unless all are known to fit,
        those that it had before count as gone.
        """
        before = self.warm[index]
        worker = self.workers[index]
        self.warm[index] = before | group.names if self.has_room(group, index) else group.names
        for name in sorted(group.names - before):
            entry = (self.ready[index], 1, worker.idle_since, index)
            if name in self._in_order:
                heappush(self._with_model[name], entry)
            else:
                self._with_model[name].append(entry)
            for other, heap in self._heaps_by_largest.get(name, ()):
                if self._kinds[index] in other.kinds:
                    start = self.start_on(other, index)
                    heappush(heap, (start, 1, worker.idle_since, index))


def _ready_in(worker: SchedulableWorker) -> float:
    return max(worker.free_in, 0.0 if worker.slots > 0 else LEAST_BUSY)
