"""The longest chain of nodes that had to wait for each other."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Step:
    """A node that was at work: `sources` feed it, `parent` put it in by expanding.

    `done_at` is when others could use its result; for a node that expanded, when the nodes in its
    place had run.
    """

    node_id: str
    began: float
    done_at: float
    seconds: float
    sources: Sequence[str] = ()
    parent: str | None = None


@dataclass(frozen=True, slots=True)
class CriticalPath:
    seconds: float = 0.0
    nodes: tuple[str, ...] = ()


class _Chain(NamedTuple):
    """The longest chain up to some point, and the last node of it."""

    seconds: float
    last: str


def critical_path(steps: Sequence[Step]) -> CriticalPath:
    """The chain that no number of threads could have made shorter.

    A link counts only if its source was done when the node began: one that the node did not wait
    for (a lazy input that it never asked for) is none. Linear in nodes and links, but for a sort.
    """
    search = _Search()
    for _, kind, step in sorted(_moments(steps), key=lambda each: each[:2]):
        if kind == _BEGINS:
            search.begin(step)
        else:
            search.finish(step)
    return search.result()


_BEGINS = 1


def _moments(steps: Iterable[Step]) -> Iterable[tuple[float, int, Step]]:
    """Beginnings and ends. What ends at a moment is there for what begins then."""
    for step in steps:
        yield step.began, _BEGINS, step
        took_time = step.done_at > step.began
        yield max(step.began, step.done_at), 0 if took_time else 2, step


class _Search:
    def __init__(self) -> None:
        self._own: dict[str, _Chain] = {}
        """Up to the end of the node's own work."""
        self._inside: dict[str, _Chain] = {}
        """The longest so far of those that it expanded into."""
        self._done: dict[str, _Chain] = {}
        self._before: dict[str, str | None] = {}

    def begin(self, step: Step) -> None:
        came = [self._done[source] for source in step.sources if source in self._done]
        if step.parent in self._own:
            came.append(self._own[step.parent])
        longest = max(came, default=None)
        self._before[step.node_id] = None if longest is None else longest.last
        before = 0.0 if longest is None else longest.seconds
        self._own[step.node_id] = _Chain(before + step.seconds, step.node_id)

    def finish(self, step: Step) -> None:
        own = self._own[step.node_id]
        chain = max(own, self._inside.get(step.node_id, own))
        self._done[step.node_id] = chain
        if step.parent is not None:
            self._inside[step.parent] = max(chain, self._inside.get(step.parent, chain))

    def result(self) -> CriticalPath:
        longest = max(self._own.values(), default=None)
        if longest is None:
            return CriticalPath()
        path: list[str] = []
        node_id: str | None = longest.last
        while node_id is not None:
            path.append(node_id)
            node_id = self._before[node_id]
        return CriticalPath(longest.seconds, tuple(reversed(path)))
