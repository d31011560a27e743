"""What one worker has been given: the job that runs, and those behind it in its own queue [6.1]."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite

from comfyrail.clock import Clock
from comfyrail.fleet.company import Company, Seat
from comfyrail.fleet.session import AttemptSession
from comfyrail.fleet.suspects import Suspect
from comfyrail.ids import AttemptToken, JobId
from comfyrail.jobs.outcome import Lost

LONGEST_SECONDS = 7 * 86400.0
HELD_UP_SECONDS = 1.0
HELD_UP_HORIZONS = 3
LOOK_MOST_SECONDS = 5.0
LOOK_LEAST_SECONDS = 0.1
RECENT_JOBS = 8


@dataclass(frozen=True, slots=True)
class PrefetchRules:
    """A busy worker takes a further job when what it has is expected to end within `horizon`
    seconds, and has at most `depth` jobs. A depth of 1 is no prefetching.
    """

    horizon: float = 2.0
    depth: int = 4


@dataclass(slots=True)
class Held:
    """One attempt that the worker has. `models`: bytes by name."""

    job_id: JobId
    session: AttemptSession
    models: Mapping[str, int] = field(default_factory=dict)
    suspect: Suspect | None = None
    seat: Seat = field(default_factory=lambda: Company().join())
    is_given_back: bool = False
    """The session was told to end because of something that is not this job's affair."""
    has_left: bool = False
    """The worker has done its part; the attempt goes on without it."""


class Workload:
    """`news` is called when the worker would take a further job although nothing has happened."""

    def __init__(self, rules: PrefetchRules, clock: Clock, news: Callable[[], None]) -> None:
        self._rules = rules
        self._clock = clock
        self._news = news
        self._held: dict[AttemptToken, Held] = {}
        self._recent: deque[float] = deque(maxlen=RECENT_JOBS)
        self._timer: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        """Those that the worker is needed for."""
        return len(self._here)

    @property
    def _here(self) -> list[Held]:
        return [held for held in self._held.values() if not held.has_left]

    @property
    def jobs(self) -> tuple[JobId, ...]:
        """Without those that have ended, or run elsewhere, though the worker has not let go."""
        return tuple(each.job_id for each in self._held.values() if not each.session.is_over)

    @property
    def held(self) -> Mapping[AttemptToken, Held]:
        """All attempts, also those that the worker has done its part of."""
        return self._held

    def add(self, token: AttemptToken, held: Held) -> None:
        self._held[token] = held
        self._empty.clear()
        self._set_timer()

    def let_go(self, token: AttemptToken, seconds: float) -> None:
        """The worker has done its part of the attempt, in so many seconds: it keeps no other from
        being taken any more.
        """
        self._held[token].has_left = True
        self._recent.append(seconds)
        self._set_timer()

    def remove(self, token: AttemptToken, seconds: float | None) -> None:
        """The attempt has ended; after so many seconds of work, where it ran to its end."""
        held = self._held.pop(token)
        if seconds is not None and not held.has_left:
            self._recent.append(seconds)
        self._set_timer()
        if not self._held:
            self._empty.set()

    async def until_empty(self) -> None:
        """Until all attempts have ended, also those that the worker has done its part of."""
        await self._empty.wait()

    def give_back(self, lost: Lost, *, only_waiting: bool, still_runs: bool) -> None:
        """End the attempts as lost, once each; `only_waiting`: those that have not begun."""
        for held in self._here:
            if not held.is_given_back and not (only_waiting and held.session.has_begun):
                held.is_given_back = True
                held.session.worker_is_gone(lost, still_runs=still_runs)

    def give_back_waiting(self, why: str, *, still_runs: bool) -> None:
        """Those that have not begun go back, at no cost to their jobs, because something is wrong
        with the worker: they are suspects. Where none is known to have begun, the first may be the
        one that runs: it stays.
        """
        lost = Lost(why, counted=False, is_suspect=True)
        held_ones = self._here
        for held in held_ones if _has_begun(held_ones) else held_ones[1:]:
            if not held.is_given_back and not held.session.has_begun:
                held.is_given_back = True
                held.session.worker_is_gone(lost, still_runs=still_runs)

    def given_back(self) -> list[str]:
        """The prompts of those that were told to end and have not yet."""
        return [held.session.prompt_id for held in self._held.values() if held.is_given_back]

    def free_in(self) -> float:
        """Seconds until it has done what it has, as far as anyone knows."""
        return min(LONGEST_SECONDS, sum(_remaining(held) for held in self._here))

    def slots(self, *, one_at_a_time: bool = False) -> int:
        """Jobs that it would take now."""
        here = self._here
        held = len(here)
        depth = 1 if one_at_a_time else self._rules.depth
        if held >= depth or any(each.seat.runs_alone for each in here):
            return 0
        if held:
            remaining = [_remaining(each) for each in here]
            if sum(remaining) > self._rules.horizon:
                return 0
            # One that takes longer than expected: nobody knows when it ends. One job behind it
            # keeps the worker from idling; more would only be kept from other workers.
            if held > 1 and not all(remaining):
                return 0
        return depth - held if depth > 1 and self._is_in_flow() else 1

    def close(self) -> None:
        self._stop_timer()

    def _is_in_flow(self) -> bool:
        """Whether its last jobs were so short that all it may hold end within the horizon."""
        return (
            len(self._recent) == RECENT_JOBS
            and max(self._recent) * self._rules.depth <= self._rules.horizon
        )

    def _set_timer(self) -> None:
        """Look again when what it has may have come within the horizon: estimates change."""
        self._stop_timer()
        takes_more_later = 0 < len(self) < self._rules.depth and not self.slots()
        if not takes_more_later and not self._has_waiting():
            return
        # Half of the way: a job may turn out to be quicker than it seemed.
        seconds = (self.free_in() - self._rules.horizon) / 2
        seconds = min(LOOK_MOST_SECONDS, max(LOOK_LEAST_SECONDS, seconds))
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._has_waiting() and self._is_held_up():
            # Others may begin them sooner, and more urgent ones may have come.
            why = "what runs on its worker takes longer than expected"
            self.give_back(Lost(why, counted=False), only_waiting=True, still_runs=True)
        if self.slots():
            self._news()
        if self._held:
            self._set_timer()

    def _has_waiting(self) -> bool:
        return any(not held.session.has_begun and not held.is_given_back for held in self._here)

    def _is_held_up(self) -> bool:
        """Whether what has begun keeps those behind it for much longer than was promised."""
        begun = [held for held in self._here if held.session.has_begun]
        limit = max(HELD_UP_SECONDS, HELD_UP_HORIZONS * self._rules.horizon)
        return bool(begun) and sum(map(_remaining, begun)) > limit

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _has_begun(held_ones: Iterable[Held]) -> bool:
    return any(held.session.has_begun for held in held_ones)


def _remaining(held: Held) -> float:
    seconds = held.session.remaining_seconds()
    return max(0.0, seconds) if isfinite(seconds) else LONGEST_SECONDS
