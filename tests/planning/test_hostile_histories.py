"""Whatever is recorded, learning does a bounded amount of work and predictions are numbers."""

import random
from collections.abc import Callable, Mapping, Sequence
from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comfyrail.clock import Instant
from comfyrail.planning.analysis import analyse
from comfyrail.planning.duration import HISTORY_LIMIT, MOST_NODES, DurationModel, newest
from comfyrail.planning.measured_runs import (
    MOST_FITS,
    MOST_POINTS,
    MOST_POINTS_OF_ONE,
    MeasuredRuns,
    collect_runs,
)
from comfyrail.planning.node_kinds import NodeKind
from comfyrail.planning.node_work import MOST_CALLS
from comfyrail.planning.records import (
    LONGEST_EXECUTION,
    MOST_COMPLEXITY,
    ExecutionRecord,
    NodeRun,
)
from comfyrail.planning.similarity import SimilarExecutions, indices_of
from comfyrail.planning.work import MOST_UNITS
from comfyrail.workflow.graph import parse_workflow
from tests.planning.recorded_history import recorded_history
from tests.planning.simulated_history import CATALOG, simulated_history, text_to_image

ANALYSIS = analyse(parse_workflow(text_to_image()), CATALOG)


def run(class_type: str, settings: str | None = None, units: float = 1.0) -> NodeRun:
    return NodeRun(class_type, NodeKind.IMAGE, units, 0.0, None, 0.1, False, settings)


def execution(number: int, nodes: Sequence[NodeRun], signature: str = "s") -> ExecutionRecord:
    return ExecutionRecord(
        job_id=str(number),
        signature=signature,
        complexity=1.0,
        device="cpu",
        seconds=1.0,
        finished_at=Instant(number),
        nodes=tuple(nodes),
    )


def random_settings(number: int) -> ExecutionRecord:
    source = random.Random(number)
    return execution(
        number,
        [
            run(f"T{source.randrange(300)}", f"s{source.randrange(100_000)}", source.random())
            for _ in range(100)
        ],
        signature=str(number),
    )


def new_types(number: int) -> ExecutionRecord:
    return execution(number, [run(f"T{number}-{each}", "s") for each in range(100)], str(number))


def one_type(number: int) -> ExecutionRecord:
    return execution(number, [run("T", "s", number + each / 100) for each in range(100)])


def fits_and_points(measured: MeasuredRuns) -> tuple[int, int]:
    groups = [*measured.types.values(), *measured.variants.values(), measured.overhead]
    return len(groups), sum(map(len, groups))


@pytest.mark.parametrize("made", [random_settings, new_types, one_type])
def test_fits_of_a_hostile_history_are_few(made: Callable[[int], ExecutionRecord]) -> None:
    records = newest(made(number) for number in range(HISTORY_LIMIT))
    assert sum(len(record.nodes) for record in records) <= MOST_NODES
    fits, points = fits_and_points(collect_runs(records))
    assert fits <= 2 * MOST_FITS + 1
    assert points <= 2 * MOST_POINTS + MOST_POINTS_OF_ONE


HISTORIES: Mapping[str, Callable[[], Sequence[ExecutionRecord]]] = {
    "simulated": simulated_history,
    "engine": lambda: recorded_history("engine"),
    "comfyui": lambda: recorded_history("comfyui"),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_nothing_is_left_out_of_a_usual_history(name: str) -> None:
    records = HISTORIES[name]()
    assert len(newest(records)) == len(records)
    measured = collect_runs(records)
    ran = [node for record in records for node in record.nodes if node.seconds is not None]
    assert set(measured.types) == {node.class_type for node in ran}
    assert set(measured.variants) == {
        (node.class_type, node.model or node.settings)
        for node in ran
        if node.model or node.settings
    }
    for class_type, samples in measured.types.items():
        works = {
            (node.steps, node.units, node.model is not None and record.is_cold)
            for record in records
            for node in record.nodes
            if node.class_type == class_type and node.seconds is not None
        }
        assert len(samples) == min(len(works), MOST_POINTS_OF_ONE)


def test_latest_executions_are_learned_from_and_one_that_is_too_large_is_passed_over() -> None:
    small = [execution(number, [run("T")] * 50) for number in range(HISTORY_LIMIT)]
    huge = execution(HISTORY_LIMIT, [run("T")] * (MOST_NODES + 1))
    assert newest([huge, *small]) == small[-MOST_NODES // 50 :]
    assert newest([huge]) == []
    assert DurationModel.fit([huge]).executions == 0


def test_types_that_ran_most_often_have_their_own_costs() -> None:
    once = [execution(0, [run(f"T{each}") for each in range(2 * MOST_FITS)])]
    often = [execution(1, [run("often", "s")] * 3)]
    measured = collect_runs([*often, *once])
    assert len(measured.types) == MOST_FITS
    assert "often" in measured.types
    assert f"T{2 * MOST_FITS - 1}" in measured.types
    assert "T0" not in measured.types


types = st.sets(st.sampled_from("abcdefghijkl"))


@given(st.lists(types, max_size=30), types)
def test_types_are_near_above_a_jaccard_similarity_of_seven_tenths(
    histories: list[set[str]], asked: set[str]
) -> None:
    records = [
        execution(number, [run(name) for name in names]) for number, names in enumerate(histories)
    ]
    found = indices_of(SimilarExecutions(records).with_types(asked))
    assert found == [
        number
        for number, names in enumerate(histories)
        if 10 * len(names & asked) > 7 * len(names | asked)
    ]


@given(st.lists(st.floats(0, 10), max_size=30), st.floats(0, 10))
def test_complexity_within_a_fifth_is_similar(complexities: list[float], asked: float) -> None:
    records = [
        ExecutionRecord("j", "s", each, "cpu", 1.0, Instant(0), (run("T"),))
        for each in complexities
    ]
    found = indices_of(SimilarExecutions(records).in_any_way("other", {"other"}, asked))
    assert found == [
        number for number, each in enumerate(complexities) if 0.8 * asked <= each <= 1.2 * asked
    ]


seconds = st.floats(0, LONGEST_EXECUTION) | st.sampled_from([0.0, 1e-300, LONGEST_EXECUTION])
node_runs = st.builds(
    NodeRun,
    class_type=st.sampled_from(sorted(ANALYSIS.node_types)),
    kind=st.sampled_from(NodeKind),
    units=st.floats(0, MOST_UNITS) | st.sampled_from([0.0, 5e-324, MOST_UNITS]),
    steps=st.floats(0, MOST_CALLS) | st.sampled_from([0.0, 5e-324, MOST_CALLS]),
    model=st.none() | st.sampled_from(["", "v1-5-pruned.safetensors"]),
    seconds=st.none() | seconds,
    is_cached=st.booleans(),
    settings=st.none() | st.text(max_size=2),
)
execution_records = st.builds(
    ExecutionRecord,
    job_id=st.just("j"),
    signature=st.sampled_from([ANALYSIS.signature, "other"]),
    complexity=st.floats(0, MOST_COMPLEXITY) | st.just(ANALYSIS.complexity),
    device=st.sampled_from(["", "cpu", "cuda:0"]),
    seconds=seconds,
    finished_at=st.integers(-(2**63), 2**63 - 1).map(Instant),
    nodes=st.lists(node_runs, max_size=6).map(tuple),
    is_cold=st.booleans(),
)


@given(st.lists(execution_records, min_size=1, max_size=12), st.sampled_from([1, 5, 20]))
@settings(deadline=None)
def test_predictions_are_finite_and_positive_whatever_was_recorded(
    made: list[ExecutionRecord], times: int
) -> None:
    decoded = [ExecutionRecord.decode(record.encode()) for record in made]
    records = [record for record in decoded if record is not None]
    assert records == made
    model = DurationModel.fit(records * times)
    found = [
        model.predict(ANALYSIS),
        model.predict(ANALYSIS, "cpu"),
        model.predict(ANALYSIS, "new", warm_models=()),
        *(model.predict_again(record, placed=True) for record in records),
    ]
    for each in found:
        assert 0 < each.low <= each.seconds <= each.high < float("inf")
        assert each.median_error is None or isfinite(each.median_error)
    for device in (None, "cpu"):
        for each_node in model.node_seconds(ANALYSIS, device).values():
            assert 0 <= each_node <= LONGEST_EXECUTION
    assert isfinite(model.bytes_per_second)
