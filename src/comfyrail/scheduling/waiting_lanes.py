"""The lanes of one round in the order in which their jobs have their turn.

Two levels: the lanes of a tenant in a class by deadline, and these shares by when the first of
each is due, so that what a tenant is given moves one entry and not all of its lanes.
"""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heapreplace

from comfyrail.clock import Instant
from comfyrail.jobs.priority import QueueClass
from comfyrail.jobs.queue import Lane, QueuedJob
from comfyrail.scheduling.fairness import FairShares, ShareKey
from comfyrail.scheduling.timeline import Group


class WaitingLane:
    """A lane, and how far it has been gone through."""

    __slots__ = ("begun", "group", "is_done", "job", "lane", "position", "share")

    def __init__(self, lane: Lane, group: Group, share: "Share") -> None:
        self.lane = lane
        self.group = group
        self.share = share
        self.position = 0
        self.begun = 0
        self.job: QueuedJob = lane.jobs[0]
        self.is_done = False

    def advance(self) -> None:
        self.position += 1
        if self.position < len(self.lane.jobs):
            self.job = self.lane.jobs[self.position]
        else:
            self.is_done = True

    @property
    def due(self) -> float:
        """The deadline of its next job, later by what its tenant is ahead of its share."""
        return self.job.rank + self.share.delay

    @property
    def due_in_full(self) -> float:
        """The same, later by all that its tenant is ahead."""
        return self.job.rank + self.share.delay + self.share.excess


class Share:
    """The lanes of one tenant in one class. `lead`: seconds by which it is ahead of the others.

    `delay`: milliseconds by which its deadlines are put back for that, `longest_delay` at most;
    `excess`: those that would have come on top, which count between shares that are equally due.
    """

    __slots__ = ("delay", "delay_per_second", "excess", "heap", "key", "lead", "longest_delay")

    def __init__(self, key: ShareKey) -> None:
        self.key = key
        self.lead = 0.0
        self.delay = 0.0
        self.delay_per_second = 0.0
        self.longest_delay = 0.0
        self.excess = 0.0
        self.heap: list[tuple[int, int, int, WaitingLane]] = []
        """By deadline; at equal deadlines lanes take turns."""

    def serve(self, seconds: float) -> None:
        self.lead += seconds
        delay = self.lead * self.delay_per_second
        self.delay = min(delay, self.longest_delay)
        self.excess = delay - self.delay

    def first(self) -> WaitingLane | None:
        heap = self.heap
        while heap:
            _, position, number, lane = heap[0]
            if lane.is_done:
                heappop(heap)
            elif lane.position != position:
                heapreplace(heap, (lane.job.rank, lane.position, number, lane))
            else:
                return lane
        return None


class WaitingLanes:
    def __init__(self, lanes: Iterable[Lane], now: Instant, assumed_bytes: int) -> None:
        self.groups: list[Group] = []
        self.shares: dict[ShareKey, Share] = {}
        self._now = now
        self._by_largest: dict[str, list[WaitingLane]] = {}
        self._turns: list[tuple[float, float, int, int, Share]] = []
        self._heaps_by_model: dict[str, list[tuple[float, int, WaitingLane]]] = {}
        self._enter(lanes, assumed_bytes)

    def _enter(self, lanes: Iterable[Lane], assumed_bytes: int) -> None:
        # Lanes of one group mostly share the object: its name need not be asked for each.
        by_object: dict[int, Group] = {}
        by_name: dict[str, Group] = {}
        for number, lane in enumerate(lanes):
            if not lane.jobs:
                continue
            needs = lane.needs
            group = by_object.get(id(needs))
            if group is None:
                group = by_name.get(needs.group)
                if group is None:
                    group = by_name[needs.group] = Group(needs, len(by_name), assumed_bytes)
                by_object[id(needs)] = group
            key = (lane.queue_class, lane.tenant)
            share = self.shares.get(key)
            if share is None:
                share = self.shares[key] = Share(key)
            waiting = WaitingLane(lane, group, share)
            share.heap.append((waiting.job.rank, 0, number, waiting))
            if group.largest is not None:
                self._by_largest.setdefault(group.largest, []).append(waiting)
        self.groups = list(by_name.values())
        for share in self.shares.values():
            heapify(share.heap)

    def keep(self, may_begin: Callable[[Share], bool]) -> None:
        """Leave out the shares of which nothing can begin."""
        for key, share in list(self.shares.items()):
            if not may_begin(share):
                self.drop_share(share)
                del self.shares[key]

    def take_turns(
        self,
        shares: FairShares,
        least: Mapping[QueueClass, float],
        delay: Mapping[QueueClass, float],
        longest_delay: Mapping[QueueClass, float],
    ) -> None:
        """`least`: by class, the clock of the tenant that has had least; `delay`: milliseconds
        that a deadline moves for each second that its tenant is ahead of that, `longest_delay` in
        all at most.
        """
        for number, (key, share) in enumerate(self.shares.items()):
            share.delay_per_second = delay[key[0]]
            share.longest_delay = longest_delay[key[0]]
            share.serve(shares.clock(key) - least[key[0]])
            self._turns.append((*self._order(share.heap[0][0], share), number, share))
        heapify(self._turns)

    def _order(self, rank: int, share: Share) -> tuple[float, float, int]:
        """Overdue jobs count as due now where tenants are compared: nobody gets more than its
        share for having a longer queue.
        """
        return max(rank, self._now) + share.delay, share.excess, rank

    def next(self) -> WaitingLane | None:
        """The lane whose job has its turn."""
        turns = self._turns
        while turns:
            entry = turns[0]
            share = entry[-1]
            lane = share.first()
            if lane is None:
                heappop(turns)
                continue
            order = self._order(lane.job.rank, share)
            if order == entry[:3]:
                return lane
            heapreplace(turns, (*order, *entry[3:]))
        return None

    def drop(self, lane: WaitingLane) -> None:
        """No more of it in this round."""
        lane.is_done = True

    def drop_share(self, share: Share) -> None:
        for *_, lane in share.heap:
            lane.is_done = True
        share.heap.clear()

    def clear(self) -> None:
        """Lanes and shares hold each other: let go, so that no collection of garbage has to."""
        for share in self.shares.values():
            share.heap.clear()

    @property
    def models(self) -> Mapping[str, object]:
        """Names of the largest models of the groups that wait."""
        return self._by_largest

    def first_with(self, model: str) -> WaitingLane | None:
        """Of the lanes whose largest model this is, the one whose job is due first in full."""
        heap = self._heaps_by_model.get(model)
        if heap is None:
            lanes = self._by_largest[model]
            heap = [(lane.due_in_full, number, lane) for number, lane in enumerate(lanes)]
            heapify(heap)
            self._heaps_by_model[model] = heap
        while heap:
            due, number, lane = heap[0]
            if lane.is_done:
                heappop(heap)
            elif lane.due_in_full != due:
                heapreplace(heap, (lane.due_in_full, number, lane))
            else:
                return lane
        return None
