"""Which models a worker has in memory, as far as its jobs tell."""

from collections.abc import Iterable, Mapping

MOST_KNOWN = 64


class WarmModels:
    """The models of the latest jobs, the latest last, that fit into the worker's memory together;
    those of the last job alone on a worker that does not keep others.

    A guess: workers do not say what they have loaded.
    """

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def use(
        self, models: Mapping[str, int], room: int | None, *, keeps: bool = True
    ) -> frozenset[str]:
        """A job with these models (bytes by name) has run; what is warm after it.

        `room` None: nobody knows how much there is. `keeps`: earlier ones stay while there is room.
        """
        self._sizes = _after(self._sizes if keeps else {}, models, room)
        return frozenset(self._sizes)

    def names(self) -> frozenset[str]:
        return frozenset(self._sizes)

    def expected(
        self, jobs: Iterable[Mapping[str, int]], room: int | None, *, keeps: bool = True
    ) -> frozenset[str]:
        """What will be warm after these jobs."""
        sizes = self._sizes
        for models in jobs:
            sizes = _after(sizes if keeps else {}, models, room)
        return frozenset(sizes)


def _after(sizes: dict[str, int], models: Mapping[str, int], room: int | None) -> dict[str, int]:
    after = {name: size for name, size in sizes.items() if name not in models} | dict(models)
    taken = sum(after.values())
    for name in list(after):
        if len(after) <= MOST_KNOWN and (room is None or len(after) == 1 or taken <= room):
            break
        taken -= after.pop(name)
    return after
