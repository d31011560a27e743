"""Kahn's topological order, without recursion: linear in nodes and edges."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

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
        stuck = set(sources) - set(order)
        raise CyclicWorkflow(find_cycles({node: sources[node] for node in sorted(stuck)}, 1)[0])
    return tuple(order)


def find_cycles(sources: Mapping[str, Sequence[str]], limit: int) -> list[list[str]]:
    """Cycles that share no node, at most `limit`, each in the direction in which values flow.

    No cycle is left once the nodes of those found are taken away, unless the limit was reached.
    """
    found: list[list[str]] = []
    done: set[str] = set()
    for start in sources:
        path: dict[str, Iterator[str]] = {} if start in done else {start: iter(sources[start])}
        while path:
            node = next(reversed(path))
            feed = next((each for each in path[node] if each in sources and each not in done), None)
            if feed is None:
                done.add(node)
                del path[node]
            elif feed not in path:
                path[feed] = iter(sources[feed])
            else:
                found.append(_cut_cycle(path, feed, done))
                if len(found) >= limit:
                    return found
    return found


def _cut_cycle(path: dict[str, Iterator[str]], closing: str, done: set[str]) -> list[str]:
    """Take the end of the path, from `closing` on, off it."""
    cycle: list[str] = []
    while closing in path:
        node, _ = path.popitem()
        done.add(node)
        cycle.append(node)
    return cycle
