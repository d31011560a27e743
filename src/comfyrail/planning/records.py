"""What is remembered of an execution: numbers, choices, names of models; no text of a user."""

from collections.abc import Collection, Mapping
from math import isfinite

import msgspec

from comfyrail.clock import Instant
from comfyrail.planning.analysis import Analysis
from comfyrail.planning.node_kinds import NodeKind
from comfyrail.planning.node_work import MOST_CALLS
from comfyrail.planning.work import MOST_UNITS

LONGEST_EXECUTION = 7 * 86400.0
MOST_COMPLEXITY = 1e12


# A history has up to some 100,000 of these. They have no cycles: the garbage collector, which stops
# every thread while it looks, need not look at them.
class NodeRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A node of an execution. `seconds` is None where it did not run or was not measured."""

    class_type: str
    kind: NodeKind
    units: float
    steps: float
    model: str | None
    seconds: float | None
    is_cached: bool = False
    settings: str | None = None


class ExecutionRecord(msgspec.Struct, frozen=True, gc=False):
    job_id: str
    signature: str
    complexity: float
    device: str
    seconds: float
    """From the start of the attempt to its end."""
    finished_at: Instant
    nodes: tuple[NodeRun, ...]
    is_cold: bool = False
    """Models were loaded for it."""

    @property
    def node_types(self) -> frozenset[str]:
        return frozenset(node.class_type for node in self.nodes)

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @staticmethod
    def decode(data: bytes) -> "ExecutionRecord | None":
        """None for what is no record: corrupt, or of a version that had other fields."""
        try:
            record = _decoder.decode(data)
        except msgspec.DecodeError:  # also of what has the wrong shape
            return None
        return record if _makes_sense(record) else None


_decoder = msgspec.json.Decoder(ExecutionRecord)


def record_of(
    analysis: Analysis,
    *,
    job_id: str,
    device: str | None,
    seconds: float,
    finished_at: Instant,
    node_seconds: Mapping[str, float | None],
    cached: Collection[str] = (),
    is_cold: bool | None = None,
) -> ExecutionRecord:
    """`node_seconds` and `cached` are by node id, as measured; nodes that never ran are in neither.

    Without `is_cold` an execution counts as cold when a loader ran in it.
    """
    nodes = tuple(
        NodeRun(
            class_type=work.class_type,
            kind=work.kind,
            units=work.units,
            steps=work.steps,
            model=work.model,
            seconds=None if node_id in cached else _sane(node_seconds.get(node_id)),
            is_cached=node_id in cached,
            settings=work.settings,
        )
        for node_id, work in analysis.works.items()
        if work.runs
    )
    if is_cold is None:
        is_cold = any(node.kind is NodeKind.LOADER and node.seconds is not None for node in nodes)
    return ExecutionRecord(
        job_id=job_id,
        signature=analysis.signature,
        complexity=min(analysis.complexity, MOST_COMPLEXITY),
        device=device or "",
        seconds=_sane(seconds) or 0.0,
        finished_at=finished_at,
        nodes=nodes,
        is_cold=is_cold,
    )


def _sane(seconds: float | None) -> float | None:
    if seconds is None or not isfinite(seconds):
        return None
    return round(min(max(seconds, 0.0), LONGEST_EXECUTION), 6)


def _makes_sense(record: ExecutionRecord) -> bool:
    """Whether all numbers are such as `record_of` gives. None of the comparisons holds for NaN."""
    return (
        0 <= record.seconds <= LONGEST_EXECUTION
        and 0 <= record.complexity <= MOST_COMPLEXITY
        and all(
            0 <= node.units <= MOST_UNITS
            and 0 <= node.steps <= MOST_CALLS
            and (node.seconds is None or 0 <= node.seconds <= LONGEST_EXECUTION)
            for node in record.nodes
        )
    )
