"""The decision itself, as a pure function: which jobs begin now, and where.

Jobs have their turn by deadline, over the heads of all lanes. Each takes the worker where it would
run soonest, loading included, among all workers: one that is busy with its models warm may be
better than an idle one without them, and is then kept for it. A job with slack goes further: it
waits for a warm worker as long as its deadline allows and a load is worth. What is kept for a job
counts for those behind it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite

from comfyrail.clock import Instant
from comfyrail.ids import TenantId
from comfyrail.jobs.priority import DEFAULT_TARGETS, QueueClass, WaitTargets
from comfyrail.jobs.queue import Lane, Placement, QueuedJob
from comfyrail.jobs.workers import SchedulableWorker
from comfyrail.scheduling.candidates import CandidateMemo, shared_memo
from comfyrail.scheduling.fairness import FairShares, RoundOfService, ShareKey
from comfyrail.scheduling.scoring import expected_cost, gpu_score, load_seconds
from comfyrail.scheduling.timeline import Group, Index, Timeline
from comfyrail.scheduling.waiting_lanes import Share, WaitingLane, WaitingLanes

LONGEST_EXPECTED = 7 * 86400.0

_BELOW = dict(pairwise(QueueClass))


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """Everything that can be tuned. Times in seconds."""

    patience: Mapping[QueueClass, float] = field(
        default_factory=lambda: {
            QueueClass.HIGH: 0.5,
            QueueClass.MEDIUM: 0.6,
            QueueClass.LOW: 0.12,
            QueueClass.BATCH: 0.12,
        }
    )
    """By class, the part of a job's slack that it may spend waiting for a warm worker."""
    worth_of_load: float = 8.0
    """A job waits for a warm worker at most so many times as long as loading takes."""
    batch_loads: float = 4.0
    """A job that would have to load its models lets those go first for which the worker is warm, as
    long as their deadlines are not further behind its own than so many times the load takes."""
    batch_lateness: float = 0.5
    """The same for a job that is overdue: than this part of the time by which it is."""
    fairness: float = 16.0
    """How strongly a tenant that is ahead of its share is put behind: its deadlines are taken to be
    so many seconds later for each second that the others need to catch up."""
    targets: WaitTargets = DEFAULT_TARGETS
    """Of the classes. No deadline is put back so far that it would be one of the class below."""
    tenant_limits: Mapping[TenantId, int] | None = None
    """Jobs of a tenant that may run at once; the table may change from round to round."""
    default_limit: int | None = None
    """The same for tenants that are not in `tenant_limits`; None: no limit."""
    worker_limit: int | None = None
    """Jobs that may go to one worker only, and run there at once."""
    assumed_model_bytes: int = 2_000_000_000
    """The size of a model whose size is not known."""
    longest_late: float = 300.0
    """A job that is overdue by more than this takes a worker that is free, even where a busy one is
    said to be better: what is said may be wrong."""
    horizon: float = 60.0
    """A job that would not begin within this time is not planned for, nor are those behind it in
    its lane: by then everything is decided anew."""
    lookahead: int = 1024
    """Jobs that are planned for in a round without beginning. After that, workers that are still
    free take what they are warm for, and then each lane has one turn more."""
    most_placements: int = 1000
    """A round begins no more jobs than this and asks for the next one at once: it is to be short,
    and so is what has to be written for it."""
    shortest_wake: float = 0.25

    def longest_delay(self, queue_class: QueueClass) -> float:
        """Seconds. A deadline of the class below lies in the middle between the targets at the
        earliest, one of this class at its own target at the latest.
        """
        target = self.targets.of(queue_class)
        below = _BELOW.get(queue_class)
        if below is None:
            return target
        return max(0.0, min(target, (self.targets.of(below) - target) / 2))

    def limit_of(self, tenant: TenantId) -> int | None:
        if self.tenant_limits is not None and tenant in self.tenant_limits:
            return self.tenant_limits[tenant]
        return self.default_limit


@dataclass(frozen=True, slots=True)
class Decision:
    """`wake_in`: seconds after which to decide again although nothing has happened (a job's slack
    runs out); None: only on news. `service`: what `FairShares.charge` is to be told.
    """

    placements: Sequence[Placement]
    wake_in: float | None = None
    service: RoundOfService = field(default_factory=RoundOfService)


def place(
    lanes: Sequence[Lane],
    workers: Sequence[SchedulableWorker],
    now: Instant,
    shares: FairShares,
    running: Mapping[TenantId, int],
    rules: PlacementRules,
    memo: CandidateMemo = shared_memo,
    running_for_worker: Mapping[str, int] | None = None,
) -> Decision:
    """What to begin now. `workers`: all that take jobs, the busy ones too; `running`: jobs of each
    tenant that run already; `running_for_worker`: those that may go to one worker only, by it.
    Nothing is changed: charge the shares with the decision's service.
    """
    if not any(worker.slots > 0 for worker in workers):
        return Decision(())
    bound = running_for_worker or {}
    return _Round(lanes, workers, now, shares, running, rules, memo, bound).decide()


class _Round:
    def __init__(
        self,
        lanes: Sequence[Lane],
        workers: Sequence[SchedulableWorker],
        now: Instant,
        shares: FairShares,
        running: Mapping[TenantId, int],
        rules: PlacementRules,
        memo: CandidateMemo,
        running_for_worker: Mapping[str, int],
    ) -> None:
        self._now = now
        self._rules = rules
        self._running = dict(running)
        self._bound = dict(running_for_worker)
        self._waiting = WaitingLanes(lanes, now, rules.assumed_model_bytes)
        self._timeline = Timeline(workers, self._waiting.groups, memo)
        self._waiting.keep(self._may_begin)
        self._least = shares.least(self._waiting.shares)
        longest = {each: 1000 * rules.longest_delay(each) for each in self._least}
        self._waiting.take_turns(shares, self._least, self._delays(len(workers)), longest)
        self._scores: dict[tuple[int, int, int, float], float] = {}
        self._placements: list[Placement] = []
        self._service: dict[ShareKey, float] = {}
        self._wake_in: float | None = None
        self._patient: list[tuple[WaitingLane, QueuedJob]] = []
        """Jobs that wait although they could begin, in the order of their turns."""
        self._wants_more = False
        """Whether there are jobs that this round has not seen and free workers could take."""

    def _may_begin(self, share: Share) -> bool:
        """Whether the tenant could be given anything at all. Who could not has no claim that grows
        while others are served.
        """
        return not self._is_at_limit(share.key[1]) and any(
            self._timeline.is_runnable(lane.group) for *_, lane in share.heap
        )

    def _delays(self, workers: int) -> dict[QueueClass, float]:
        """What one second more for a tenant costs the others of its class is made up for when each
        of them has had one too, on all workers together.
        """
        tenants: dict[QueueClass, int] = {}
        for queue_class, _ in self._waiting.shares:
            tenants[queue_class] = tenants.get(queue_class, 0) + 1
        second = 1000 * self._rules.fairness / max(1, workers)
        return {
            queue_class: second * count if count > 1 else 0.0
            for queue_class, count in tenants.items()
        }

    def decide(self) -> Decision:
        self._take_turns()
        self._fill()
        self._take_last_turns()
        self._spread()
        if not self._timeline.free_slots:
            self._wake_in = None
        elif self._is_full or self._wants_more:
            self._wake_in = 0.0
        self._waiting.clear()
        service = RoundOfService(self._service, self._least)
        return Decision(self._placements, self._wake_in, service)

    @property
    def _is_full(self) -> bool:
        return len(self._placements) >= self._rules.most_placements

    def _take_turns(self) -> None:
        looks = self._rules.lookahead
        while looks > 0 and (lane := self._next()) is not None:
            if not self._timeline.matters(lane.group):
                self._waiting.drop(lane)
                continue
            index = self._take_turn(lane)
            if index is None:
                continue
            if self._timeline.ready[index] > self._rules.horizon:
                self._waiting.drop(lane)
            else:
                self._timeline.give(lane.group, index, _expected(lane.job))
                lane.advance()
                looks -= 1

    def _take_last_turns(self) -> None:
        """Nothing is planned any more: a lane whose job does not begin is done with, for those
        behind it have more time. However many stand before it, a job that a free worker can run
        has its turn.
        """
        while (lane := self._next()) is not None:
            if not self._timeline.has_place(lane.group) or self._take_turn(lane) is not None:
                self._waiting.drop(lane)

    def _next(self) -> WaitingLane | None:
        """The lane that has its turn, while there is a place for its job."""
        while self._timeline.free_slots and not self._is_full:
            lane = self._waiting.next()
            if lane is not None and self._is_at_limit(lane.lane.tenant):
                self._waiting.drop_share(lane.share)
            elif lane is not None and self._is_worker_at_limit(lane):
                self._waiting.drop(lane)
            else:
                return lane
        return None

    def _take_turn(self, lane: WaitingLane) -> Index | None:
        """The busy worker that its job waits for; None: it has begun, or nobody can run it."""
        index = self._choose(lane)
        if index is None:
            self._waiting.drop(lane)
            return None
        if self._timeline.slots[index] <= 0:
            return index
        chosen = self._warmer(lane, index) or lane
        self._begin(chosen, chosen.job, index)
        chosen.advance()
        return None

    def _fill(self) -> None:
        """Workers that nobody has chosen when enough jobs have had their turn: each takes the first
        of those that it is warm for.
        """
        if not self._timeline.free_slots or self._waiting.next() is None:
            return
        for index in self._timeline.idle():
            if self._is_full:
                return
            lane = self._warm_lane(index)
            if lane is not None:
                self._begin(lane, lane.job, index)
                lane.advance()

    def _spread(self) -> None:
        """Jobs that would wait for a warm worker take one that is still free when everybody has had
        his turn, if it has room for their models: such a load pushes nothing out.
        """
        timeline = self._timeline
        for lane, job in self._patient:
            if not timeline.free_slots or self._is_full:
                return
            soonest = timeline.soonest(lane.group)
            if soonest is None or self._may_not(lane):
                continue
            index = soonest[1]
            if timeline.slots[index] > 0 and timeline.has_room(lane.group, index):
                self._begin(lane, job, index)
                self._wants_more = True  # those behind it have not been looked at for this

    def _is_at_limit(self, tenant: TenantId) -> bool:
        limit = self._rules.limit_of(tenant)
        return limit is not None and self._running.get(tenant, 0) >= limit

    def _is_worker_at_limit(self, lane: WaitingLane) -> bool:
        """Whether the one worker that its jobs may go to has as many such jobs as it may."""
        worker, limit = lane.lane.needs.worker, self._rules.worker_limit
        return bool(worker) and limit is not None and self._bound.get(worker, 0) >= limit

    def _may_not(self, lane: WaitingLane) -> bool:
        return self._is_at_limit(lane.lane.tenant) or self._is_worker_at_limit(lane)

    def _choose(self, lane: WaitingLane) -> Index | None:
        """The worker for the lane's next job, or the one that is to be kept for it; None: there is
        no worker that could run it.
        """
        timeline, group = self._timeline, lane.group
        warmest = timeline.warmest(group)
        if warmest is not None and warmest[0] <= 0:
            return warmest[1]
        soonest = timeline.soonest(group)
        if soonest is None or warmest is None:
            return soonest[1] if soonest else None
        start, index = soonest
        warm_start, warm_index = warmest
        is_free = timeline.slots[index] > 0
        takes_now = timeline.slots[warm_index] > 0
        if warm_start > start:
            spare = self._longest_wait(lane, start - timeline.ready[index]) - warm_start
            waits = spare >= 0 and not (is_free and takes_now and timeline.has_room(group, index))
        elif takes_now or not is_free:
            return warm_index
        else:
            spare = warm_start
            waits = (self._now - lane.due) / 1000 <= self._rules.longest_late
        if waits and is_free and not takes_now:
            self._wake_within(spare)
            if warm_start > start:
                self._patient.append((lane, lane.job))
        return warm_index if waits else index

    def _longest_wait(self, lane: WaitingLane, loading: float) -> float:
        slack = (lane.job.rank - self._now) / 1000
        patience = self._rules.patience.get(lane.lane.queue_class, 0.0)
        return min(slack * patience, loading * self._rules.worth_of_load)

    def _wake_within(self, seconds: float) -> None:
        seconds = max(seconds, self._rules.shortest_wake)
        self._wake_in = seconds if self._wake_in is None else min(self._wake_in, seconds)

    def _warmer(self, lane: WaitingLane, index: Index) -> WaitingLane | None:
        """The lane whose next job goes first on a worker that is warm for it and not for this one:
        jobs of a group run back to back [4.6], within what the deadline of this one allows.

        Merging like jobs into one execution [4.8] would come in here: those that would follow each
        other on this worker are the ones that could run as one.
        """
        rules = self._rules
        missing = self._timeline.missing(lane.group, index)
        if not missing:
            return None
        late = max(0.0, (self._now - lane.due) / 1000)
        loading = load_seconds(missing, self._timeline.workers[index].profile)
        latest = lane.due + 1000 * max(rules.batch_loads * loading, rules.batch_lateness * late)
        return self._warm_lane(index, missing // 2, latest, lane.share)

    def _warm_lane(
        self,
        index: Index,
        most_missing: int = 0,
        latest: float | None = None,
        before: Share | None = None,
    ) -> WaitingLane | None:
        """Of the lanes that the worker is warm for, the one that is due first, if by `latest`.

        It may go before one of the share `before` whose turn it is, so all by which its own tenant
        is ahead counts, within a class that by which it is further ahead than the other one.
        """
        timeline = self._timeline
        best: WaitingLane | None = None
        for name in sorted(timeline.warm[index] & self._waiting.models.keys()):
            other = self._first_within_limit(name)
            if other is None:
                continue
            due = other.due_in_full
            if before is not None and before.key[0] is other.lane.queue_class:
                due -= before.excess
            if (
                (latest is None or due <= latest)
                and timeline.missing(other.group, index) <= most_missing
                and timeline.can_run(other.group, index)
            ):
                best, latest = other, due
        return best

    def _first_within_limit(self, model: str) -> WaitingLane | None:
        lane = self._waiting.first_with(model)
        while lane is not None and self._may_not(lane):
            self._waiting.drop(lane)
            lane = self._waiting.first_with(model)
        return lane

    def _begin(self, lane: WaitingLane, job: QueuedJob, index: Index) -> None:
        timeline, group = self._timeline, lane.group
        worker = timeline.workers[index]
        warm = len(group.names & timeline.warm[index])
        missing = timeline.missing(group, index)
        score = self._score(group, index, warm)
        expected = _expected(job)
        seconds = expected + load_seconds(missing, worker.profile) if missing else expected
        timeline.give(group, index, expected)
        lane.begun += 1
        if lane.lane.has_more and lane.begun == len(lane.lane.jobs):
            self._wants_more = True
        lane.share.serve(seconds)
        key = lane.share.key
        tenant = key[1]
        self._running[tenant] = self._running.get(tenant, 0) + 1
        self._service[key] = self._service.get(key, 0.0) + seconds
        only = group.needs.worker
        if only:
            self._bound[only] = self._bound.get(only, 0) + 1
        cost = expected_cost(seconds, group.needs, worker.profile)
        self._placements.append(
            Placement(job.id, worker.id, score, cost, warm, len(group.names), missing)
        )

    def _score(self, group: Group, index: Index, warm: int) -> float:
        worker = self._timeline.workers[index]
        key = (group.number, id(worker.profile), warm, worker.load)
        score = self._scores.get(key)
        if score is None:
            score = self._scores[key] = gpu_score(
                group.needs, worker.profile, self._timeline.warm[index], worker.load
            )
        return score


def _expected(job: QueuedJob) -> float:
    seconds = job.expected_seconds
    return min(max(0.0, seconds), LONGEST_EXPECTED) if isfinite(seconds) else LONGEST_EXPECTED
