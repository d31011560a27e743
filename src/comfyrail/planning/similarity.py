"""Which past executions are similar to a workflow [3.2]."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from comfyrail.planning.records import ExecutionRecord

LEAST_SIMILAR = 5
"""With fewer similar executions there is no history to speak of."""
LEAST_JACCARD = 0.7
COMPLEXITY_SHARE = 0.2


@dataclass(slots=True)
class _Group:
    """Executions with one set of node types, from simple to complex."""

    bits: int
    members: list[int] = field(default_factory=list)
    complexities: list[float] = field(default_factory=list)


class SimilarExecutions:
    """Gives indices into the records. Looks through sets of node types, which are far fewer."""

    def __init__(self, records: Sequence[ExecutionRecord]) -> None:
        self._bit_of: dict[str, int] = {}
        self._groups: dict[int, _Group] = {}
        self._by_signature: dict[str, list[int]] = {}
        for index, record in enumerate(records):
            self._by_signature.setdefault(record.signature, []).append(index)
            bits = 0
            for name in record.node_types:
                bits |= 1 << self._bit_of.setdefault(name, len(self._bit_of))
            self._groups.setdefault(bits, _Group(bits)).members.append(index)
        for group in self._groups.values():
            group.members.sort(key=lambda index: records[index].complexity)
            group.complexities = [records[index].complexity for index in group.members]

    def with_signature(self, signature: str) -> Sequence[int]:
        """From old to new."""
        return self._by_signature.get(signature, ())

    def with_types(self, node_types: Collection[str]) -> list[int]:
        """Those whose node types are nearly the same."""
        return [
            index
            for group, is_near in self._compare(node_types)
            if is_near
            for index in group.members
        ]

    def in_any_way(
        self, signature: str, node_types: Collection[str], complexity: float
    ) -> set[int]:
        """Those with the same signature, nearly the same types or nearly the same complexity."""
        found = set(self.with_signature(signature))
        least, most = complexity * (1 - COMPLEXITY_SHARE), complexity * (1 + COMPLEXITY_SHARE)
        for group, is_near in self._compare(node_types):
            if is_near:
                found.update(group.members)
            else:
                start = bisect_left(group.complexities, least)
                found.update(group.members[start : bisect_right(group.complexities, most)])
        return found

    def _compare(self, node_types: Collection[str]) -> Iterator[tuple[_Group, bool]]:
        """Every group, and whether the Jaccard similarity to its types is high enough."""
        bits = unknown = 0
        for name in node_types:
            if name in self._bit_of:
                bits |= 1 << self._bit_of[name]
            else:
                unknown += 1
        for group in self._groups.values():
            shared = (group.bits & bits).bit_count()
            together = (group.bits | bits).bit_count() + unknown
            yield group, shared > LEAST_JACCARD * together
