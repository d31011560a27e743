"""The line of those that wait, and who may go before whom."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from comfyrail.engine.resources.gpu_room import Devices
from comfyrail.engine.resources.room import Room
from comfyrail.engine.resources.units import Demand

MOST_OVERTAKEN = 16
OVERTAKING_SECONDS = 5.0


@dataclass(eq=False, slots=True)
class Place:
    """One place in the line; `since` is when it was taken."""

    demand: Demand
    since: float
    overtaken: int = field(default=0, init=False)


PlaceT = TypeVar("PlaceT", bound=Place)


class WaitingLine(Generic[PlaceT]):
    """First come, first served, with bounded overtaking. Whoever holds it has to lock it.

    One who waits is harmed by a later one that takes of a kind of which then too little is left
    for the first. The rule:

    - A later one that harms nobody in front of it goes ahead as soon as it fits.
    - One who waits may be harmed `most_overtaken` times, and only in its first
      `overtaking_seconds`. From then on what it needs is set aside for it as it becomes free, and
      later ones get what is left beyond that.

    So whoever is in the line is served at the latest when those have ended that ran when it
    came, that stood before it, and `most_overtaken` others. The first in the line always fits
    into an empty machine, and nobody in the line holds anything, so it always moves on.
    """

    def __init__(
        self,
        most_overtaken: int = MOST_OVERTAKEN,
        overtaking_seconds: float = OVERTAKING_SECONDS,
    ) -> None:
        self._most_overtaken = most_overtaken
        self._overtaking_seconds = overtaking_seconds
        self._places: dict[PlaceT, None] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, place: PlaceT) -> bool:
        return place in self._places

    def join(self, place: PlaceT) -> None:
        self._places[place] = None

    def leave(self, place: PlaceT) -> bool:
        """Whether it was in the line."""
        return self._places.pop(place, self) is None

    def place_newcomer(self, demand: Demand, room: Room, now: float) -> Devices | None:
        """The devices of one that comes now, or None where it has to join the line."""
        due = [place for place in self._places if self._is_due(place, now)]
        left = room.copy() if due else room
        for place in due:
            left.set_aside(place.demand)
        return left.place(demand)

    def let_pass(self, demand: Demand, room: Room) -> None:
        """Note that a newcomer has been served; `room` is without it."""
        for place in self._harmed_by(demand, room, list(self._places)):
            place.overtaken += 1

    def serve(self, room: Room, now: float) -> list[tuple[PlaceT, Devices]]:
        """Take all that can be served now out of the line, and what they get out of the room."""
        if not self._places:
            return []
        left = room.copy()
        passed: list[PlaceT] = []
        served: list[tuple[PlaceT, Devices]] = []
        for place in list(self._places):
            devices = left.place(place.demand)
            if devices is None:
                passed.append(place)
                if self._is_due(place, now):
                    left.set_aside(place.demand)
                continue
            del self._places[place]
            left.take(place.demand, devices)
            room.take(place.demand, devices)
            served.append((place, devices))
            for harmed in self._harmed_by(place.demand, room, passed):
                was_due = self._is_due(harmed, now)
                harmed.overtaken += 1
                if not was_due and self._is_due(harmed, now):
                    left.set_aside(harmed.demand)
        return served

    def _is_due(self, place: Place, now: float) -> bool:
        """Whether nobody may harm it any more."""
        return (
            place.overtaken >= self._most_overtaken or now - place.since >= self._overtaking_seconds
        )

    @staticmethod
    def _harmed_by(demand: Demand, room: Room, places: Sequence[Place]) -> Iterator[Place]:
        return (place for place in places if room.lacks_for(place.demand, used_by=demand))
