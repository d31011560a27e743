"""From what was written down to what it means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from comfyrail.engine.profiling.critical_path import Step, critical_path
from comfyrail.engine.profiling.joined import find_shares
from comfyrail.engine.profiling.lanes import (
    COROUTINE,
    ELSEWHERE,
    MAIN,
    PROCESS,
    Span,
    name_lane,
    number_threads,
    spread,
)
from comfyrail.engine.profiling.node_profile import NodeProfile, Stretch
from comfyrail.engine.profiling.records import NodeRecord, RunRecord
from comfyrail.engine.profiling.report import ProfileReport
from comfyrail.workflow.graph import is_link

_SEVERAL_AT_ONCE = (COROUTINE, PROCESS, ELSEWHERE)
"""Places where nodes overlap: there they are put in as many lanes as are needed."""


def evaluate(record: RunRecord, strategy: str, cache_levels: Mapping[str, str]) -> ProfileReport:
    """A report of an execution that has ended."""
    evaluation = _Evaluation(record, strategy, cache_levels)
    nodes = evaluation.nodes()
    path = critical_path([evaluation.step(node) for node in nodes if node.began is not None])
    on_path = set(path.nodes)
    return ProfileReport(
        execution_id=record.execution_id,
        outcome=record.outcome,
        message=record.message,
        strategy=strategy,
        wall_seconds=evaluation.end - record.began,
        cpu_seconds=record.cpu_seconds,
        highest_memory_bytes=record.highest_memory_bytes,
        critical_seconds=path.seconds,
        critical_path=path.nodes,
        nodes=tuple(
            replace(node, on_critical_path=True) if node.node_id in on_path else node
            for node in nodes
        ),
    )


@dataclass(slots=True)
class _Work:
    """A node with its time, before lanes are given out."""

    record: NodeRecord
    measured: NodeRecord
    """Where its figures are: its own record, or that of the node whose call it was part of."""
    part: float
    spans: list[Span]
    places: list[str]


class _Evaluation:
    def __init__(self, record: RunRecord, strategy: str, cache_levels: Mapping[str, str]) -> None:
        self._record = record
        self._strategy = strategy
        self._levels = cache_levels
        self.end = record.began if record.ended is None else record.ended
        self._shares = find_shares(record.nodes.values())
        stretches = [each for node in record.nodes.values() for each in node.stretches]
        stretches.sort(key=lambda each: each.began)
        self._threads = number_threads((each.thread for each in stretches), record.thread)

    def nodes(self) -> list[NodeProfile]:
        """Those that were at work, in the order in which they began; then those that were known."""
        records = self._record.nodes
        at_work = {node_id for node_id, each in records.items() if _was_at_work(each)}
        works = [self._work(records[node_id]) for node_id in at_work]
        lanes = _give_out_lanes(works)
        found = [self._profile(*each) for each in zip(works, lanes, strict=True)]
        found.sort(key=lambda each: (each.began or 0.0, each.node_id))
        cached = [node_id for node_id, each in records.items() if each.status == "cached"]
        known = dict.fromkeys([*self._record.known, *cached])
        return found + [self._cached(node_id) for node_id in known if node_id not in at_work]

    def step(self, node: NodeProfile) -> Step:
        """The node as a part of a chain."""
        record = self._record.nodes[node.node_id]
        done_at = node.ended or 0.0
        if record.finished_at is not None and self._has_expanded(record):
            done_at = max(done_at, record.finished_at - self._record.began)
        sources = [value[0] for value in self._inputs(node.node_id) if is_link(value)]
        return Step(node.node_id, node.began or 0.0, done_at, node.seconds, sources, node.parent_id)

    # Time and place

    def _work(self, record: NodeRecord) -> _Work:
        share = self._shares.get(record.node_id)
        measured = record if share is None else share.leader
        if not measured.stretches:
            return self._work_elsewhere(record)
        is_coroutine = record.definition is not None and record.definition.is_async
        spans = [self._span(each.began, each.ended) for each in measured.stretches]
        places = [
            COROUTINE
            if is_coroutine and each.thread == self._record.thread
            else self._threads[each.thread]
            for each in measured.stretches
        ]
        if share is None:
            return _Work(record, measured, 1.0, spans, places)
        length = (spans[-1].ended - spans[0].began) / share.parts
        began = spans[0].began + share.number * length
        part = Span(began, began + length)
        return _Work(record, measured, 1 / share.parts, [part], places[:1])

    def _work_elsewhere(self, record: NodeRecord) -> _Work:
        """Nobody was there to measure it: it is timed from outside."""
        ended = self.end if record.finished_at is None else record.finished_at
        began = ended - record.said_seconds if record.ready_at is None else record.ready_at
        if record.definition is not None and record.definition.runs_in == "process":
            place = PROCESS
        else:
            place = ELSEWHERE if self._strategy == "distributed" else MAIN
        return _Work(record, record, 1.0, [self._span(began, ended)], [place])

    def _span(self, began: float, ended: float) -> Span:
        return Span(began - self._record.began, max(began, ended) - self._record.began)

    # Nodes

    def _profile(self, work: _Work, stretches: Sequence[Stretch]) -> NodeProfile:
        record, measured = work.record, work.measured
        began = stretches[0].began
        ready_at = None if record.ready_at is None else record.ready_at - self._record.began
        known = bool(measured.stretches) and not measured.blurred
        read, written = (measured.io if known else None) or (None, None)
        return NodeProfile(
            node_id=record.node_id,
            node_type=self._type_of(record),
            title=self._title_of(record.node_id),
            parent_id=self._parent_of(record.node_id),
            status=record.status or "interrupted",
            cache_level=None,
            attempts=record.failures + (record.status != "failed"),
            ready_at=ready_at,
            began=began,
            ended=stretches[-1].ended,
            seconds=sum(each.seconds for each in stretches),
            waited_seconds=0.0 if ready_at is None else max(0.0, began - ready_at),
            cpu_seconds=_cpu_seconds(measured) * work.part if known else None,
            output_bytes=record.output_bytes,
            peak_memory_bytes=measured.peak_memory_bytes if measured.alone else None,
            read_bytes=None if read is None else round(read * work.part),
            written_bytes=None if written is None else round(written * work.part),
            alone=measured.alone,
            lane=max(stretches, key=lambda each: each.seconds).lane,
            stretches=tuple(stretches),
        )

    def _cached(self, node_id: str) -> NodeProfile:
        record = self._record.nodes.get(node_id) or NodeRecord(node_id)
        return NodeProfile(
            node_id=node_id,
            node_type=self._type_of(record),
            title=self._title_of(node_id),
            parent_id=self._parent_of(node_id),
            status="cached",
            cache_level=self._levels.get(node_id),
            attempts=0,
            ready_at=None,
            began=None,
            ended=None,
            seconds=0.0,
            waited_seconds=0.0,
            cpu_seconds=None,
            output_bytes=record.output_bytes,
            peak_memory_bytes=None,
            read_bytes=None,
            written_bytes=None,
            alone=True,
            lane=None,
            stretches=(),
        )

    # The graph

    def _inputs(self, node_id: str) -> Sequence[Any]:
        inputs = self._entry(node_id).get("inputs")
        return list(inputs.values()) if isinstance(inputs, Mapping) else []

    def _type_of(self, record: NodeRecord) -> str:
        if record.definition is not None:
            return record.definition.name
        return str(self._entry(record.node_id).get("class_type", ""))

    def _title_of(self, node_id: str) -> str | None:
        meta = self._entry(node_id).get("_meta")
        title = meta.get("title") if isinstance(meta, Mapping) else None
        return title if isinstance(title, str) else None

    def _parent_of(self, node_id: str) -> str | None:
        graph = self._record.graph
        return None if graph is None else graph.parent_of(node_id)

    def _has_expanded(self, record: NodeRecord) -> bool:
        return record.definition is not None and record.definition.expands

    def _entry(self, node_id: str) -> Mapping[str, object]:
        try:
            return {} if self._record.graph is None else self._record.graph.entry(node_id)
        except KeyError:
            return {}


def _cpu_seconds(record: NodeRecord) -> float:
    """With the threads that a node may start, where nobody else can have started any."""
    return record.process_cpu_seconds if record.alone else record.thread_cpu_seconds


def _was_at_work(record: NodeRecord) -> bool:
    """Whether it ran, or was about to; not if its result was known."""
    return (
        bool(record.stretches)
        or record.status not in {None, "cached"}
        or (record.status is None and record.ready_at is not None)
    )


def _give_out_lanes(works: Sequence[_Work]) -> list[list[Stretch]]:
    """The stretches of each node, in lanes where none of them overlap."""
    lanes = [list(work.places) for work in works]
    for place in _SEVERAL_AT_ONCE:
        where = [
            (number, index)
            for number, work in enumerate(works)
            for index, each in enumerate(work.places)
            if each == place
        ]
        numbers = spread([works[number].spans[index] for number, index in where])
        for (number, index), lane in zip(where, numbers, strict=True):
            lanes[number][index] = name_lane(place, lane)
    return [
        [Stretch(*span, lane) for span, lane in zip(work.spans, names, strict=True)]
        for work, names in zip(works, lanes, strict=True)
    ]
