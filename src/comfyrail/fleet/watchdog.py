"""Notices that a worker has fallen silent, and that it is back [7.4].

A socket on which nothing was heard for a while is asked for a sign of life. If there is none, or a
call went unanswered, the worker is asked by a call of its own. One that does not answer that either
is suspected: it gets no jobs, and those that wait there go back. One that stays silent for as long
as a lease lasts has lost its jobs; and one that stays silent for longer is ended and started anew,
where that is ours to do. A worker that answers again, as quickly as it should and not just once, is
used again at once.

A worker whose executor hangs while it answers is not silent: that is for the job's own time limit.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import structlog

from comfyrail.errors import WorkerError, WorkerUnreachable
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.ids import WorkerId

log = structlog.get_logger(__name__)

FIRST_PERIOD_SECONDS = 0.1
LONGEST_PERIOD_SECONDS = 5.0
"""Between two calls to a worker that does not answer, and of each of them."""
QUICK_ANSWERS = 2
"""In a row, from one that was suspected: one that is merely slow would be trusted and suspected
again and again.
"""
ASKED_AT_ONCE = 3
"""The first answer may be late because it was asked for before the worker was back."""
LEAST_SECONDS = 0.01
IDLE_BEATS_A_SECOND = 500
"""Of very many workers those that have nothing to do are asked less often."""


@runtime_checkable
class EndsHungWorkers(Protocol):
    """A host that can end its worker though that does not answer, and start it anew."""

    async def end_hung(self) -> bool:
        """Kill the worker, with all that it has started; False where it is not ours to end.
        Raises WorkerError.
        """
        ...


@dataclass(frozen=True, slots=True)
class WatchdogRules:
    """Seconds. `beat`: a socket that is silent for so long is asked for a sign of life, which must
    come within `sign`; `answer`: so must the answer to a call that asks whether anybody is there.
    `lost`: the silence after which a worker's jobs go elsewhere; `restart`: that after which it is
    ended and started anew (None: never).
    """

    beat: float = 2.0
    sign: float = 1.0
    answer: float = 1.5
    lost: float = 15.0
    restart: float | None = 60.0

    @classmethod
    def for_lease(cls, seconds: float) -> "WatchdogRules":
        """Rules by which a worker is suspected well before its leases are over."""
        usual = cls()
        return cls(
            beat=min(usual.beat, seconds / 6),
            sign=min(usual.sign, seconds / 8),
            answer=min(usual.answer, seconds / 4),
            lost=seconds,
            restart=4 * seconds,
        )


class Watchdog:
    """Watches one worker from its start to its end.

    `suspect` is told when it is suspected, and no longer; `line_lost` that its socket has been gone
    for too long to keep jobs waiting for it; `lose` that its jobs are lost, and why; `recover` does
    what has to be done before it is trusted again; `end` ends it. `is_idle` says whether it has
    nothing to do.
    """

    _watched = 0
    """Workers in this process."""

    def __init__(
        self,
        worker_id: WorkerId,
        connection: WorkerConnection,
        rules: WatchdogRules,
        *,
        suspect: Callable[[bool], None],
        line_lost: Callable[[], None],
        lose: Callable[[str], None],
        recover: Callable[[WorkerConnection], Awaitable[None]],
        end: Callable[[str], Awaitable[None]],
        is_idle: Callable[[], bool],
    ) -> None:
        self._worker_id = worker_id
        self._connection = connection
        self._contact = connection.contact
        self._rules = rules
        self._suspect = suspect
        self._line_lost = line_lost
        self._lose = lose
        self._recover = recover
        self._end = end
        self._is_idle = is_idle
        self._trusted = asyncio.Event()
        self._trusted.set()
        self._has_lost = False
        self._end_at = rules.restart
        self._told_of_line: float | None = None
        self._asked_at = 0.0
        self._pauses = 0

    @property
    def complaint(self) -> str:
        """What is wrong with a worker that is suspected."""
        # Its socket may give signs of life though it answers no calls.
        unanswered = self._contact.now() - self._asked_at
        return f"The worker {_not_answered(max(unanswered, self._contact.silence()))}."

    async def until_trusted(self) -> None:
        await self._trusted.wait()

    async def run(self) -> None:
        Watchdog._watched += 1
        try:
            while True:
                await self._until_doubtful()
                self._contact.is_doubted = False
                self._asked_at = self._contact.now()
                if not await self._answers(self._rules.answer):
                    await self._wait_until_it_is_back()
        finally:
            Watchdog._watched -= 1

    def _seconds_until_beat(self) -> float:
        beat = self._rules.beat
        if self._is_idle():
            beat = max(beat, Watchdog._watched / IDLE_BEATS_A_SECOND)
        return beat - self._contact.line_silence()

    async def _until_doubtful(self) -> None:
        contact, rules = self._contact, self._rules
        while not contact.is_doubted:
            if contact.line_closed_at is not None:
                self._look_at_closed_line(contact.now() - contact.line_closed_at)
                await contact.rest(rules.answer)
            elif (seconds := self._seconds_until_beat()) > 0:
                await contact.rest(min(rules.beat, max(LEAST_SECONDS, seconds)))
            elif not await self._gives_a_sign():
                return

    def _look_at_closed_line(self, seconds: float) -> None:
        closed_at = self._contact.line_closed_at
        if seconds >= self._rules.answer and self._told_of_line != closed_at:
            self._told_of_line = closed_at
            self._line_lost()

    async def _gives_a_sign(self) -> bool:
        """Whether the other end of its socket is alive."""
        contact = self._contact
        heard_at = contact.line_heard_at
        end = contact.now() + self._rules.sign
        await self._connection.ping(self._rules.sign)
        while contact.line_heard_at == heard_at:
            left = end - contact.now()
            if left <= 0 or contact.is_doubted or contact.line_closed_at is not None:
                return False
            await contact.rest(left, for_signs=True)
        return True

    async def _answers(self, seconds: float) -> bool:
        """Whether it answers a call, while this server is there to hear the answer."""
        contact = self._contact
        while True:
            pauses = contact.pauses
            try:
                with contact.attending(seconds):
                    await self._connection.client.ask_for_sign(seconds)
            except WorkerUnreachable:
                if contact.pauses == pauses:
                    return False
            else:
                return True

    async def _wait_until_it_is_back(self) -> None:
        self._trusted.clear()
        self._has_lost = False
        self._end_at = self._rules.restart
        log.warning("worker_silent", worker_id=self._worker_id, seconds=self._seconds())
        self._suspect(True)
        period = FIRST_PERIOD_SECONDS
        began = self._contact.now()
        while not await self._is_back():
            await self._judge()
            await self._connection.ping(self._rules.sign)
            rest = min(began + period - self._contact.now(), self._seconds_until_judgement())
            await self._contact.rest(max(LEAST_SECONDS, rest), for_signs=True)
            longest = LONGEST_PERIOD_SECONDS if self._has_lost else self._rules.answer
            period = min(longest, 2 * period)
            began = self._contact.now()
        self._contact.is_doubted = False
        log.info("worker_answers", worker_id=self._worker_id)
        self._trusted.set()
        self._suspect(False)

    async def _is_back(self) -> bool:
        if not await self._answers_quickly():
            return False
        try:
            await self._recover(self._connection)
        except WorkerError as error:
            log.warning("worker_not_recovered", worker_id=self._worker_id, error=error.message)
            return False
        return True

    async def _answers_quickly(self) -> bool:
        quick = 0
        for _ in range(ASKED_AT_ONCE):
            asked_at = self._contact.now()
            if not await self._answers(self._seconds_for_answer()):
                return False
            is_quick = self._contact.now() - asked_at <= self._rules.answer
            quick = quick + 1 if is_quick else 0
            if quick == QUICK_ANSWERS:
                return True
        return False

    def _seconds_for_answer(self) -> float:
        """Until it is judged; but after the server itself was away, long enough for an answer."""
        was_away = self._contact.pauses != self._pauses
        self._pauses = self._contact.pauses
        least = self._rules.answer if was_away else LEAST_SECONDS
        return max(least, self._seconds_until_judgement())

    async def _judge(self) -> None:
        silence = self._contact.silence()
        if not self._has_lost and silence >= self._rules.lost:
            self._has_lost = True
            self._lose(f"the worker {_not_answered(silence)}")
        if self._end_at is not None and silence >= self._end_at:
            self._end_at = silence + (self._rules.restart or 0.0)
            await self._end(f"the worker {_not_answered(silence)}, and was ended")

    def _seconds_until_judgement(self) -> float:
        silence = self._contact.silence()
        due = [LONGEST_PERIOD_SECONDS]
        if not self._has_lost:
            due.append(self._rules.lost - silence)
        if self._end_at is not None:
            due.append(self._end_at - silence)
        return min(due)

    def _seconds(self) -> float:
        return round(self._contact.silence(), 1)


def _not_answered(seconds: float) -> str:
    return f"has not answered for {seconds:.0f} s"
