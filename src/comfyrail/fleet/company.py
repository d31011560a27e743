"""Which attempts were on one worker together: each of them may be what the worker ended of [7.4].

A job must not pay for what another one did to their worker. So where several were there, and it is
not known which of them ran, none is to blame; but each is a suspect, and has a worker to itself
from then on: the next time it will be known.
"""

from collections.abc import Callable


def _nobody_waits() -> None:
    """Nobody waits for a turn."""


class Seat:
    """The place of one attempt among those that its worker was given, in their order."""

    def __init__(self, company: list["Seat"], *, runs_alone: bool) -> None:
        self._company = company
        self.others: set[Seat] = set()
        """Those that were there with it, and nobody has seen how they ended."""
        self.runs_alone = runs_alone
        """It is handed over when all before it have left, and those behind it when it has."""
        self.is_taken = False
        """It was handed over to the worker, or is about to be."""
        self.wake: Callable[[], None] = _nobody_waits
        """Called when its turn may have come."""

    @property
    def has_turn(self) -> bool:
        """Whether it may be handed over."""
        before = self._company[: self._company.index(self)]
        return not (before and self.runs_alone) and not any(each.runs_alone for each in before)

    @property
    def is_certain(self) -> bool:
        """Whether no other attempt can be what the worker ended of."""
        return self.is_taken and not self.others

    def take(self) -> None:
        """It is handed over to the worker now."""
        self.is_taken = True
        for other in self._company:
            if other.is_taken and other is not self:
                other.others.add(self)
                self.others.add(other)

    def settle(self) -> None:
        """It is known how it ended on the worker: whatever happens there now is not its doing."""
        for other in self.others:
            other.others.discard(self)

    def leave(self) -> None:
        """It is over, and the worker has let go of it as far as anyone can tell."""
        self._company.remove(self)
        self.others.clear()
        for other in self._company:
            other.wake()


class Company:
    """All that one worker has been given."""

    def __init__(self) -> None:
        self._seats: list[Seat] = []

    def join(self, *, runs_alone: bool = False) -> Seat:
        """A place behind all others."""
        seat = Seat(self._seats, runs_alone=runs_alone)
        self._seats.append(seat)
        return seat
