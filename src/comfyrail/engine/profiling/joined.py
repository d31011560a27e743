"""Nodes that ran together in one call, as the executor joins calls that differ in images only."""

from collections.abc import Iterable
from dataclasses import dataclass

from comfyrail.engine.profiling.records import NodeRecord


@dataclass(frozen=True, slots=True)
class Share:
    """A node's part of a call that was measured as the leader's: `number` of `parts`."""

    leader: NodeRecord
    number: int
    parts: int


def find_shares(records: Iterable[NodeRecord]) -> dict[str, Share]:
    """The shares of all nodes that were joined, by node id.

    The call is measured once, as the first node's. The executor says of every member that it took
    the same part of the time, to the last digit: so they are found.
    """
    groups: dict[tuple[str, float], list[NodeRecord]] = {}
    for record in records:
        definition = record.definition
        if definition is not None and definition.batches and record.said_seconds > 0:
            groups.setdefault((definition.name, record.said_seconds), []).append(record)
    shares: dict[str, Share] = {}
    for group in groups.values():
        leaders = [record for record in group if record.stretches]
        members = [record for record in group if not record.stretches]
        if len(leaders) == 1 and members:
            for number, record in enumerate([*leaders, *members]):
                shares[record.node_id] = Share(leaders[0], number, 1 + len(members))
    return shares
