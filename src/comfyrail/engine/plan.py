"""Who is ready next. Linear in nodes and edges, without recursion; knows nothing of running."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence

_RANKS = 4


class Plan:
    """The nodes that must run, handed out as their sources finish.

    Nodes in `known` have a result already: they are not handed out, and what only they need does
    not run. Among ready nodes those near an output come first, so that results show early.
    """

    def __init__(
        self,
        sources: Mapping[str, Sequence[str]],
        outputs: Sequence[str],
        known: Collection[str] = (),
    ) -> None:
        self._waiting_for: dict[str, int] = {}
        self._consumers: dict[str, list[str]] = {}
        self.boundary: set[str] = set()
        """Known nodes whose results the nodes to run will ask for."""
        self._collect(sources, outputs, known)
        self._ranks = _rank_by_distance(outputs, sources, self._waiting_for)
        self._ready: list[deque[str]] = [deque() for _ in range(_RANKS)]
        for node_id in sources:
            if self._waiting_for.get(node_id) == 0:
                self._mark_ready(node_id)

    def __len__(self) -> int:
        return len(self._waiting_for)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._waiting_for

    def consumers_of(self, node_id: str) -> Sequence[str]:
        """The nodes to run that take a value of this one, once for each link."""
        return self._consumers.get(node_id, ())

    def next_ready(self) -> str | None:
        """Hand out a node whose sources have all finished, or None if there is none now."""
        for queue in self._ready:
            if queue:
                return queue.popleft()
        return None

    def finish(self, node_id: str) -> None:
        """Say that a node which was handed out has its result."""
        for consumer in self.consumers_of(node_id):
            self._waiting_for[consumer] -= 1
            if self._waiting_for[consumer] == 0:
                self._mark_ready(consumer)

    def _collect(
        self,
        sources: Mapping[str, Sequence[str]],
        outputs: Sequence[str],
        known: Collection[str],
    ) -> None:
        to_visit = [node_id for node_id in outputs if node_id not in known]
        while to_visit:
            node_id = to_visit.pop()
            if node_id in self._waiting_for:
                continue
            self._waiting_for[node_id] = 0
            for source in sources[node_id]:
                self._consumers.setdefault(source, []).append(node_id)
                if source in known:
                    self.boundary.add(source)
                else:
                    self._waiting_for[node_id] += 1
                    to_visit.append(source)

    def _mark_ready(self, node_id: str) -> None:
        self._ready[self._ranks.get(node_id, _RANKS - 1)].append(node_id)


def _rank_by_distance(
    outputs: Sequence[str], sources: Mapping[str, Sequence[str]], running: Collection[str]
) -> dict[str, int]:
    """Steps to the nearest output, for nodes that are less than the last rank away."""
    ranks: dict[str, int] = {}
    layer = [node_id for node_id in outputs if node_id in running]
    for rank in range(_RANKS - 1):
        fresh = [node_id for node_id in layer if node_id not in ranks]
        ranks.update(dict.fromkeys(fresh, rank))
        layer = [source for node_id in fresh for source in sources[node_id] if source in running]
    return ranks
