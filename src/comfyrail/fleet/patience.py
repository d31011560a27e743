"""How long a worker has been silent: in time in which this server could have heard it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from comfyrail.clock import Clock

LATE_SECONDS = 0.5
LATE_SECONDS_AT_LEAST = 0.1
"""A wait that ends so much later than it was to, or takes twice as long, was held up here."""


class Contact:
    """When one worker was last heard, in the server's own time.

    That time stands still while the server is stopped, or too busy to look up: it has not heard
    anybody then, which is no silence of theirs. Whoever watches the worker waits with `rest`; a
    wait that takes much too long counts no longer than it was to take, also for others who ask
    before the watcher has woken.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._missed = 0.0
        self._latest = 0.0
        self._wait: tuple[float, float] | None = None
        """When the one that is under way began, and when it is to end."""
        self._news = asyncio.Event()
        self._wants_signs = False
        self._latest = self.now()
        self.heard_at = self.line_heard_at = self._latest
        """On its socket, and by whatever way."""
        self.line_closed_at: float | None = self._latest
        """Since when there is no socket; None while there is one."""
        self.is_doubted = False
        """Whether a call has gone unanswered since somebody has last looked into it."""
        self.pauses = 0
        """Times that the server itself was away."""

    def now(self) -> float:
        """Seconds of the server's own time."""
        now = self._clock.monotonic()
        if self._wait is not None:
            began, due = self._wait
            if now - due > max(LATE_SECONDS_AT_LEAST, min(LATE_SECONDS, due - began)):
                self.pauses += 1
                self._missed = now - max(due - self._missed, self._latest)
                self._wait = (now, now + LATE_SECONDS)
        self._latest = max(self._latest, now - self._missed)
        return self._latest

    def silence(self) -> float:
        """Seconds since anything was heard from the worker."""
        return self.now() - self.heard_at

    def line_silence(self) -> float:
        """Seconds since anything was heard on its socket."""
        return self.now() - self.line_heard_at

    def note_heard(self) -> None:
        """It has answered a call."""
        self.heard_at = self.now()
        if self._wants_signs:
            self._news.set()

    def note_line_heard(self) -> None:
        """Something came over its socket."""
        self.note_heard()
        self.line_heard_at = self.heard_at

    def note_line(self, *, is_open: bool) -> None:
        """The socket came or went."""
        if is_open:
            self.line_closed_at = None
            self.note_line_heard()
        else:
            self.line_closed_at = self.now()
        self._news.set()

    def note_unanswered(self) -> None:
        """A call has failed."""
        self.is_doubted = True
        self._news.set()

    async def rest(self, seconds: float, *, for_signs: bool = False) -> None:
        """So long at most, and until there is doubt, or the socket came or went; `for_signs`: or
        until anything is heard.
        """
        self._news.clear()
        self._wants_signs = for_signs
        try:
            with self.attending(seconds):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        except TimeoutError:
            return
        finally:
            self._wants_signs = False

    @contextmanager
    def attending(self, seconds: float) -> Iterator[None]:
        """For something that takes so long at most, if the server is not away meanwhile."""
        now = self._clock.monotonic()
        self._wait = (now, now + seconds)
        try:
            yield
        finally:
            self.now()
            self._wait = None
