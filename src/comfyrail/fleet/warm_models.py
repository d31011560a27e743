"""Which models a worker has in memory, as far as its jobs tell."""

from collections.abc import Mapping

MOST_KNOWN = 64


class WarmModels:
    """The models of the latest jobs, the latest last, that fit into the worker's memory together.

    A guess: workers do not say what they have loaded. ComfyUI unloads what was used longest ago.
    """

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def use(self, models: Mapping[str, int], room: int | None) -> frozenset[str]:
        """A job with these models (bytes by name) has run; what is warm after it.

        `room` None: nobody knows how much there is.
        """
        for name, size in models.items():
            self._sizes.pop(name, None)
            self._sizes[name] = size
        while len(self._sizes) > MOST_KNOWN or (
            room is not None and len(self._sizes) > 1 and sum(self._sizes.values()) > room
        ):
            del self._sizes[next(iter(self._sizes))]
        return frozenset(self._sizes)
