"""Which models a worker has in memory, as far as its jobs tell."""

from collections.abc import Iterable, Mapping

MOST_KNOWN = 64


class WarmModels:
    """The models of the latest jobs, the latest last, that fit into the worker's memory together.

    A guess: workers do not say what they have loaded. ComfyUI unloads what was used longest ago.
    """

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def use(
        self, names: Iterable[str], sizes: Mapping[str, int], room: int | None
    ) -> frozenset[str]:
        """A job with these models has run; what is warm after it. `room` None: nobody knows."""
        for name in names:
            self._names.pop(name, None)
            self._names[name] = None
        while len(self._names) > MOST_KNOWN or (
            room is not None and len(self._names) > 1 and self._total(sizes) > room
        ):
            del self._names[next(iter(self._names))]
        return frozenset(self._names)

    def _total(self, sizes: Mapping[str, int]) -> int:
        return sum(sizes.get(name, 0) for name in self._names)
