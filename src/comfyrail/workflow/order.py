"""Kahn's topological order, without recursion: linear in nodes and edges."""

from collections import deque
from collections.abc import Collection, Mapping, Sequence

from comfyrail.errors import CyclicWorkflow


def topological_order(sources: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Ids in an order in which each comes after all of its sources; ties keep the given order.

    `sources` maps every id to the ids that feed it (all of them keys too). Raises CyclicWorkflow.
    """
    waiting = {node: len(feeds) for node, feeds in sources.items()}
    consumers: dict[str, list[str]] = {node: [] for node in sources}
    for node, feeds in sources.items():
        for feed in feeds:
            consumers[feed].append(node)
    ready = deque(node for node, count in waiting.items() if count == 0)
    order: list[str] = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for consumer in consumers[node]:
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                ready.append(consumer)
    if len(order) < len(sources):
        raise CyclicWorkflow(_find_cycle(sources, set(sources) - set(order)))
    return tuple(order)


def _find_cycle(sources: Mapping[str, Sequence[str]], stuck: Collection[str]) -> list[str]:
    """One cycle among the stuck nodes, in the direction in which values would flow."""
    node = min(stuck)
    walked: dict[str, int] = {}
    path: list[str] = []
    while node not in walked:
        walked[node] = len(path)
        path.append(node)
        node = next(feed for feed in sources[node] if feed in stuck)
    return path[walked[node] :][::-1]
