"""Who is ready next. Linear in nodes and edges, without recursion; knows nothing of running."""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

Order = Literal["arrival", "memory"]

LAST_RANK = 3
MOST_LOOKED_AT = 64


class Plan:
    """The nodes that must run, handed out as their sources finish.

    `sources_of` gives what a node needs before it can be looked at; `is_known` tells of a node
    whose result is there already, so that neither it nor what only it needs is handed out;
    `is_urgent` of one that should run as soon as it can. The plan grows while it is carried out.

    In the order `arrival` nodes near an urgent one come first, so that results show early. In the
    order `memory` a node runs as late as it can before whoever needs it: branch after branch.
    """

    def __init__(
        self,
        sources_of: Callable[[str], Sequence[str]],
        is_known: Callable[[str], bool],
        is_urgent: Callable[[str], bool],
        order: Order = "arrival",
    ) -> None:
        self._sources_of = sources_of
        self._is_known = is_known
        self._is_urgent = is_urgent
        self._waiting_for: dict[str, int] = {}
        self._consumers: dict[str, list[str]] = {}
        self._ranks: dict[str, int] = {}
        self._in_memory_order = order == "memory"
        self._positions: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self._ready: list[deque[str]] = [deque() for _ in range(LAST_RANK + 1)]

    def __len__(self) -> int:
        """Nodes that have not finished."""
        return len(self._waiting_for)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._waiting_for

    def demand(self, node_ids: Iterable[str]) -> list[str]:
        """Plan these nodes, if their results are not known, and all that they need.

        Gives the nodes that were not planned before.
        """
        fresh = self._collect(deque(node_ids))
        if self._in_memory_order:
            self._number(fresh)
        for node_id in fresh:
            if self._waiting_for[node_id] == 0:
                self.make_ready(node_id)
        return fresh

    def postpone(self, node_id: str, sources: Iterable[str]) -> list[str]:
        """Hand out a node again when these have finished too; it was handed out before.

        Gives the nodes that were not planned before.
        """
        wanted = [source for source in dict.fromkeys(sources) if not self._is_known(source)]
        for source in wanted:
            self._consumers.setdefault(source, []).append(node_id)
            self._rank_source(source, self._ranks.get(node_id, LAST_RANK))
        self._waiting_for[node_id] = len(wanted)
        fresh = self.demand(wanted)
        if not wanted:
            self.make_ready(node_id)
        return fresh

    def next_ready(self) -> str | None:
        """Hand out a node whose sources have all finished, or None if there is none now."""
        if self._in_memory_order:
            return heapq.heappop(self._heap)[1] if self._heap else None
        for queue in self._ready:
            if queue:
                return queue.popleft()
        return None

    def finish(self, node_id: str) -> None:
        """Say that a node which was handed out has its result."""
        del self._waiting_for[node_id]
        for consumer in self._consumers.pop(node_id, ()):
            self._waiting_for[consumer] -= 1
            if self._waiting_for[consumer] == 0:
                self.make_ready(consumer)

    def sole_consumer(self, node_id: str) -> str | None:
        """The node that alone takes this one's result, and waits for nothing else."""
        consumers = self._consumers.get(node_id, ())
        if len(consumers) == 1 and self._waiting_for[consumers[0]] == 1:
            return consumers[0]
        return None

    def hold_back(self, node_id: str) -> None:
        """Do not hand this one out by itself any more: someone has it by another way."""
        self._waiting_for[node_id] += 1

    def let_back(self, node_id: str) -> None:
        """Take a `hold_back` back."""
        self._waiting_for[node_id] -= 1
        if self._waiting_for[node_id] == 0:
            self.make_ready(node_id)

    def take_ready(self, wanted: Callable[[str], bool], most: int) -> list[str]:
        """Hand out up to `most` ready nodes that are wanted, from among those that are next."""
        if self._in_memory_order:
            taken = [node_id for _, node_id in self._heap[:MOST_LOOKED_AT] if wanted(node_id)]
            chosen = set(taken[:most])
            self._heap = [item for item in self._heap if item[1] not in chosen]
            heapq.heapify(self._heap)
            return taken[:most]
        taken = []
        for queue in self._ready:
            kept: list[str] = []
            for _ in range(min(len(queue), MOST_LOOKED_AT)):
                node_id = queue.popleft()
                (taken if len(taken) < most and wanted(node_id) else kept).append(node_id)
            queue.extendleft(reversed(kept))
        return taken

    def stuck_nodes(self) -> list[str]:
        """Nodes that wait for each other, when nothing runs and nothing is ready."""
        waiting = dict(self._waiting_for)
        # Take away, again and again, those that nobody waits for: what is left is in a cycle.
        blocks: dict[str, int] = dict.fromkeys(waiting, 0)
        takes: dict[str, list[str]] = {node_id: [] for node_id in waiting}
        for source, consumers in self._consumers.items():
            if source in waiting:
                blocks[source] = len(consumers)
                for consumer in consumers:
                    takes[consumer].append(source)
        free = [node_id for node_id, count in blocks.items() if count == 0]
        while free:
            node_id = free.pop()
            del waiting[node_id]
            for source in takes[node_id]:
                blocks[source] -= 1
                if blocks[source] == 0:
                    free.append(source)
        return list(waiting)

    def _collect(self, to_visit: deque[str]) -> list[str]:
        fresh: list[str] = []
        while to_visit:
            node_id = to_visit.popleft()
            if node_id in self._waiting_for or self._is_known(node_id):
                continue
            rank = 0 if self._is_urgent(node_id) else self._ranks.get(node_id, LAST_RANK)
            self._ranks[node_id] = rank
            count = 0
            for source in self._sources_of(node_id):
                if self._is_known(source):
                    continue
                count += 1
                self._consumers.setdefault(source, []).append(node_id)
                self._rank_source(source, rank)
                to_visit.append(source)
            self._waiting_for[node_id] = count
            fresh.append(node_id)
        return fresh

    def _rank_source(self, source: str, rank: int) -> None:
        if rank < self._ranks.get(source, LAST_RANK):
            self._ranks[source] = rank + 1

    def _number(self, fresh: Sequence[str]) -> None:
        """Give positions by a walk to the sources first, so that branches come one by one."""
        new = set(fresh)
        start = len(self._positions)
        order: list[str] = []
        seen: set[str] = set()
        for root in fresh:
            if root in seen:
                continue
            seen.add(root)
            path = [(root, iter(self._sources_of(root)))]
            while path:
                node_id, sources = path[-1]
                for source in sources:
                    if source in new and source not in seen:
                        seen.add(source)
                        path.append((source, iter(self._sources_of(source))))
                        break
                else:
                    order.append(node_id)
                    path.pop()
        for position, node_id in enumerate(order, start):
            self._positions[node_id] = position

    def make_ready(self, node_id: str) -> None:
        """Hand out this one, which waits for nothing, when its turn comes."""
        if self._in_memory_order:
            heapq.heappush(self._heap, (self._positions.get(node_id, 0), node_id))
        else:
            self._ready[self._ranks.get(node_id, LAST_RANK)].append(node_id)
