"""Hands out the machine to the nodes that run at the same time [12.4]."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from comfyrail.clock import Clock, SystemClock
from comfyrail.engine.resources.errors import NeverFits, ReservationTimedOut
from comfyrail.engine.resources.figures import ResourceFigures
from comfyrail.engine.resources.grant import Grant
from comfyrail.engine.resources.line import (
    MOST_OVERTAKEN,
    OVERTAKING_SECONDS,
    Place,
    WaitingLine,
)
from comfyrail.engine.resources.needs import Capacity, ResourceNeeds
from comfyrail.engine.resources.room import Room
from comfyrail.engine.resources.units import PLAIN_KINDS, Demand
from comfyrail.engine.resources.wakeups import TaskWakeup, ThreadWakeup, Wakeup


@dataclass(eq=False, slots=True)
class _Waiter(Place):
    """One that waits in the line; its grant is put here before it is woken."""

    needs: ResourceNeeds
    wakeup: Wakeup
    grant: Grant | None = field(default=None, init=False)


class ResourcePool:
    """Used by any thread, and by tasks of any event loop.

    What is handed out is never more than the capacity. A request gets all that it needs in one
    step or waits without holding any of it. Who goes first is in `WaitingLine`. To be safe from
    deadlock, whoever holds a grant must not wait for another.

    Needs that would not fit if nothing else ran raise NeverFits at once. Needs of nothing are
    granted at once.
    """

    def __init__(
        self,
        capacity: Capacity,
        *,
        clock: Clock | None = None,
        most_overtaken: int = MOST_OVERTAKEN,
        overtaking_seconds: float = OVERTAKING_SECONDS,
    ) -> None:
        self.capacity = capacity
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._whole_room = Room.of(capacity)
        self._room = self._whole_room.copy()
        self._line = WaitingLine[_Waiter](most_overtaken, overtaking_seconds)
        self._held: dict[Grant, Demand] = {}
        self._changes = 0
        self._watchers: set[Wakeup] = set()

    def fits(self, needs: ResourceNeeds) -> bool:
        """Whether it could be granted if nothing else ran."""
        return self._whole_room.place(Demand.of(needs)) is not None

    def can_schedule(self, needs: ResourceNeeds) -> bool:
        """Whether it would be granted now: it fits, and those that wait do not come first."""
        demand = Demand.of(needs)
        with self._lock:
            newcomer = self._line.place_newcomer(demand, self._room, self._clock.monotonic())
            return newcomer is not None

    def try_reserve(self, needs: ResourceNeeds) -> Grant | None:
        """A grant if it can be had now. Whoever asks again and again is not in the line."""
        demand = self._check(needs)
        with self._lock:
            return self._grant_now(needs, demand)

    def reserve(
        self,
        needs: ResourceNeeds,
        timeout: float | None = None,
        should_stop: Callable[[], object] | None = None,
    ) -> Grant:
        """Block the calling thread until there is enough.

        Raises ReservationTimedOut after `timeout` seconds, and ReservationStopped soon after
        `should_stop` has begun to say yes; an error that it raises passes through.
        """
        wakeup = ThreadWakeup()
        waiter = self._enter(needs, wakeup)
        try:
            if waiter.grant is None:
                wakeup.wait(timeout, should_stop)
        except BaseException:
            self._withdraw(waiter)
            raise
        if (grant := self._leave(waiter)) is None:
            raise ReservationTimedOut(timeout or 0.0)
        return grant

    async def acquire(self, needs: ResourceNeeds) -> Grant:
        """Wait for a grant in a task. A task that is cancelled meanwhile takes nothing with it."""
        wakeup = TaskWakeup()
        waiter = self._enter(needs, wakeup)
        try:
            while waiter.grant is None:
                await wakeup.wait()
        except BaseException:
            self._withdraw(waiter)
            raise
        return waiter.grant

    def release(self, grant: Grant) -> None:
        """Give it back. Nothing happens if that was done before, or if another pool gave it."""
        with self._lock:
            demand = self._held.pop(grant, None)
            if demand is not None:
                self._room.give_back(demand, grant.gpu_devices)
                self._serve()

    @property
    def changes(self) -> int:
        """A number that is another one whenever something may be had that could not before."""
        return self._changes

    def wait(self, seen: int | None = None, timeout: float | None = None) -> int:
        """Block until `changes` is not `seen` (what it is now, if not given); gives `changes`.

        Read `changes` before `can_schedule`, so that nothing is missed in between.
        """
        wakeup = ThreadWakeup()
        if self._watch(wakeup, seen):
            try:
                wakeup.wait(timeout)
            finally:
                self._unwatch(wakeup)
        return self._changes

    async def wait_async(self, seen: int | None = None) -> int:
        """As `wait`, in a task."""
        wakeup = TaskWakeup()
        if self._watch(wakeup, seen):
            try:
                await wakeup.wait()
            finally:
                self._unwatch(wakeup)
        return self._changes

    def figures(self) -> ResourceFigures:
        with self._lock:
            free = self._room.units()
            whole_gpus = sum(demand.whole_gpus for demand in self._held.values())
            waiting = len(self._line)
        total = self._whole_room.units()
        used = {kind: (total[kind] - free[kind]) / 1000 for kind in total}
        return ResourceFigures(
            {**used, "gpu_count": whole_gpus},
            {kind: units / 1000 for kind, units in total.items()}
            | {"gpu_count": len(self.capacity.gpus)},
            waiting,
        )

    def _check(self, needs: ResourceNeeds) -> Demand:
        demand = Demand.of(needs)
        if self._whole_room.place(demand) is None:
            raise _never_fits(needs, self.capacity)
        return demand

    def _enter(self, needs: ResourceNeeds, wakeup: Wakeup) -> _Waiter:
        """One that has its grant already, or else is in the line."""
        demand = self._check(needs)
        with self._lock:
            waiter = _Waiter(demand, self._clock.monotonic(), needs, wakeup)
            waiter.grant = self._grant_now(needs, demand)
            if waiter.grant is None:
                self._line.join(waiter)
        return waiter

    def _leave(self, waiter: _Waiter) -> Grant | None:
        """Take it out of the line, unless its grant came first."""
        with self._lock:
            if self._line.leave(waiter):
                self._serve()
            return waiter.grant

    def _withdraw(self, waiter: _Waiter) -> None:
        grant = self._leave(waiter)
        if grant is not None:
            self.release(grant)

    def _grant_now(self, needs: ResourceNeeds, demand: Demand) -> Grant | None:
        devices = self._line.place_newcomer(demand, self._room, self._clock.monotonic())
        if devices is None:
            return None
        self._room.take(demand, devices)
        self._line.let_pass(demand, self._room)
        return self._hold(Grant(needs, devices, self.release), demand)

    def _serve(self) -> None:
        """Give to all in the line that can be served after something has changed."""
        self._changes += 1
        while self._watchers:
            self._watchers.pop().wake()
        is_settled = False
        while not is_settled:
            is_settled = True
            for waiter, devices in self._line.serve(self._room, self._clock.monotonic()):
                waiter.grant = self._hold(Grant(waiter.needs, devices, self.release), waiter.demand)
                if not waiter.wakeup.wake():
                    del self._held[waiter.grant]
                    self._room.give_back(waiter.demand, devices)
                    is_settled = False

    def _hold(self, grant: Grant, demand: Demand) -> Grant:
        self._held[grant] = demand
        return grant

    def _watch(self, wakeup: Wakeup, seen: int | None) -> bool:
        """Whether there is something to wait for."""
        with self._lock:
            if seen is not None and seen != self._changes:
                return False
            self._watchers.add(wakeup)
            return True

    def _unwatch(self, wakeup: Wakeup) -> None:
        with self._lock:
            self._watchers.discard(wakeup)


def _never_fits(needs: ResourceNeeds, capacity: Capacity) -> NeverFits:
    for kind in PLAIN_KINDS:
        asked, available = getattr(needs, kind), getattr(capacity, kind)
        if asked > available:
            return NeverFits(kind, asked, available)
    if needs.gpu_count > len(capacity.gpus):
        return NeverFits("gpu_count", needs.gpu_count, len(capacity.gpus))
    # Of the devices that it needs, the largest ones there are: the smallest is too small.
    largest = sorted(capacity.gpus, reverse=True)[: max(needs.gpu_count, 1)]
    return NeverFits("gpu_memory_mb", needs.gpu_memory_mb, largest[-1] if largest else 0)
