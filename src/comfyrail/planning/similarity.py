"""Which past executions are similar to a workflow [3.2].

A set of executions is one number, with bit `i` for the record `i`: what many executions share is
then counted for all of them at once.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction

from comfyrail.planning.records import ExecutionRecord

LEAST_SIMILAR = 5
"""With fewer similar executions there is no history to speak of."""
LEAST_JACCARD = Fraction(7, 10)
COMPLEXITY_SHARE = 0.2
_SHARE = LEAST_JACCARD / (1 + LEAST_JACCARD)
"""The same as the share of both sizes added up that two sets have in common."""
REMEMBERED_TYPES = 1024


class SimilarExecutions:
    """All that it gives are sets of executions, as above; `indices_of` has their records."""

    def __init__(self, records: Sequence[ExecutionRecord]) -> None:
        self._by_signature: dict[str, int] = {}
        self._with_type: dict[str, int] = {}
        self._by_count: dict[int, int] = {}
        """Executions by how many types they have."""
        self._near: dict[frozenset[str], int] = {}
        for index, record in enumerate(records):
            bit = 1 << index
            types = record.node_types
            self._by_signature[record.signature] = self.with_signature(record.signature) | bit
            for name in types:
                self._with_type[name] = self._with_type.get(name, 0) | bit
            self._by_count[len(types)] = self._by_count.get(len(types), 0) | bit
        order = sorted(range(len(records)), key=lambda index: records[index].complexity)
        self._complexities = [records[index].complexity for index in order]
        self._simplest = [0]
        """The set of the `i` simplest executions at place `i`."""
        for index in order:
            self._simplest.append(self._simplest[-1] | 1 << index)

    def with_signature(self, signature: str) -> int:
        return self._by_signature.get(signature, 0)

    def with_types(self, node_types: Collection[str]) -> int:
        """Those whose node types are nearly the same."""
        types = frozenset(node_types)
        near = self._near.get(types)
        if near is None:
            near = self._compare(types)
            if len(self._near) < REMEMBERED_TYPES:
                self._near[types] = near
        return near

    def in_any_way(self, signature: str, node_types: Collection[str], complexity: float) -> int:
        """Those with the same signature, nearly the same types or nearly the same complexity."""
        least, most = complexity * (1 - COMPLEXITY_SHARE), complexity * (1 + COMPLEXITY_SHARE)
        start = bisect_left(self._complexities, least)
        end = bisect_right(self._complexities, most)
        as_complex = self._simplest[end] ^ self._simplest[start]
        return self.with_signature(signature) | self.with_types(node_types) | as_complex

    def _compare(self, types: frozenset[str]) -> int:
        """Those whose Jaccard similarity to the types is above the least."""
        shared = _count(self._with_type.get(name, 0) for name in types)
        near = 0
        for count, executions in self._by_count.items():
            # The first whole number above it.
            needed = _SHARE.numerator * (len(types) + count) // _SHARE.denominator + 1
            if needed <= min(len(types), count):
                near |= _at_least(needed, shared, executions)
        return near


def indices_of(executions: int) -> list[int]:
    """The records of a set, from old to new."""
    return [index for index, bit in enumerate(reversed(f"{executions:b}")) if bit == "1"]


def _count(sets: Iterable[int]) -> list[int]:
    """How many of the sets each record is in, as binary digits: at place `i` the set of the records
    whose count has the digit `i`. Three sets of a digit are one of it and one of the next.
    """
    digits: list[int] = []
    column = [each for each in sets if each]
    while column:
        carried = []
        while len(column) > 1:
            one, two = column.pop(), column.pop()
            three = column.pop() if column else 0
            odd = one ^ two
            column.append(odd ^ three)
            carried.append(one & two | odd & three)
        digits.append(column[0])
        column = [each for each in carried if each]
    return digits


def _at_least(number: int, digits: Sequence[int], among: int) -> int:
    """Those of a set whose count is at least the number."""
    if number >> len(digits):
        return 0
    above, equal = 0, among
    for place in reversed(range(len(digits))):
        having = equal & digits[place]
        if number >> place & 1:
            equal = having
        else:
            above |= having
            equal ^= having
    return above | equal
