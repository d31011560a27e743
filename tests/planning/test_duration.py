"""Predicted durations [3.2] and remaining seconds [6.5]."""

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.backtest import backtest
from comfyrail.clock import Instant
from comfyrail.planning.analysis import analyse
from comfyrail.planning.duration import (
    DurationModel,
    remaining_seconds,
)
from comfyrail.planning.progress_weights import progress_weights
from comfyrail.planning.records import ExecutionRecord, record_of
from comfyrail.workflow.graph import parse_workflow
from tests.planning.recorded_history import recorded_history
from tests.planning.simulated_history import (
    CATALOG,
    DEVICES,
    Graph,
    simulated_history,
    text_to_image,
)

FAST, SLOW = "cuda:0 fast", "cuda:0 slow"


def executions(
    graph: Graph, count: int, seconds: float, *, device: str = FAST, start: int = 0
) -> list[ExecutionRecord]:
    """A graph that always takes the same, most of it in its sampler."""
    analysis = analyse(parse_workflow(graph), CATALOG)
    shares = {"1": 0.1, "2": 0.02, "3": 0.02, "4": 0.01, "5": 0.7, "6": 0.1, "7": 0.05}
    return [
        record_of(
            analysis,
            job_id=str(number),
            device=device,
            seconds=seconds,
            finished_at=Instant(start + number),
            node_seconds={node: share * seconds for node, share in shares.items()},
        )
        for number in range(count)
    ]


def test_without_history_the_heuristic_holds() -> None:
    workflow = parse_workflow(text_to_image())
    found = DurationModel.fit(()).predict(analyse(workflow, CATALOG))
    assert (found.seconds, found.source, found.similar) == (35.0, "heuristic", 0)
    assert found.low < found.seconds < found.high
    one = parse_workflow({"1": {"class_type": "SaveImage", "inputs": {}}})
    assert DurationModel().predict(analyse(one, CATALOG)).seconds == 30.0


def test_five_similar_executions_are_history_and_four_are_not() -> None:
    analysis = analyse(parse_workflow(text_to_image()), CATALOG)
    few, enough = (
        DurationModel.fit(executions(text_to_image(), count, 8.0)).predict(analysis)
        for count in (4, 5)
    )
    assert (few.source, few.similar) == ("heuristic", 4)
    assert (enough.source, enough.similar) == ("history", 5)
    assert enough.seconds == pytest.approx(8, rel=0.1)


@pytest.mark.parametrize(
    ("graph", "similar"),
    [
        (text_to_image(seed=5), 6),
        (text_to_image(steps=40), 6),
        ({"1": {"class_type": "PreviewImage", "inputs": {"images": ["?", 0]}}}, 0),
    ],
)
def test_similar_is_by_signature_or_by_node_types(graph: Graph, similar: int) -> None:
    model = DurationModel.fit(executions(text_to_image(), 6, 8.0))
    assert model.predict(analyse(parse_workflow(graph), CATALOG)).similar == similar


def test_other_types_of_the_same_complexity_are_similar() -> None:
    stranger: Graph = {}
    complexity = analyse(parse_workflow(text_to_image()), CATALOG).complexity
    stranger["a"] = {"class_type": "ImageBlur", "inputs": {"width": 1000, "height": 1000}}
    stranger["a"]["inputs"]["batch_size"] = round(complexity / 0.02)
    analysis = analyse(parse_workflow(stranger), CATALOG)
    assert analysis.complexity == pytest.approx(complexity, rel=0.19)
    assert DurationModel.fit(executions(text_to_image(), 6, 8.0)).predict(analysis).similar == 6


def test_more_work_takes_longer_though_it_was_never_seen() -> None:
    history = [
        *executions(text_to_image(steps=10), 10, 4.0),
        *executions(text_to_image(steps=40), 10, 14.0, start=10),
    ]
    model = DurationModel.fit(history)
    seconds = [
        model.predict(analyse(parse_workflow(text_to_image(steps=steps)), CATALOG)).seconds
        for steps in (10, 20, 40)
    ]
    assert seconds == sorted(seconds)
    assert 5 < seconds[1] < 11


def test_slow_device_takes_longer() -> None:
    graph = text_to_image()
    history = [
        *executions(graph, 20, 5.0, device=FAST),
        *executions(graph, 20, 15.0, device=SLOW, start=20),
    ]
    model = DurationModel.fit(history)
    analysis = analyse(parse_workflow(graph), CATALOG)
    assert model.predict(analysis, FAST).seconds == pytest.approx(5, rel=0.25)
    assert model.predict(analysis, SLOW).seconds == pytest.approx(15, rel=0.25)


def test_warm_models_make_it_shorter() -> None:
    model = DurationModel.fit(simulated_history(400))
    graph = text_to_image("flux1-dev-fp8.safetensors", (1024, 1024), steps=4, cfg=1.0)
    analysis = analyse(parse_workflow(graph), CATALOG)
    device = next(iter(DEVICES))
    warm = model.predict(analysis, device, warm_models={"flux1-dev-fp8.safetensors"})
    cold = model.predict(analysis, device, warm_models=())
    assert cold.seconds > warm.seconds + 3


def test_few_outliers_do_not_move_a_prediction() -> None:
    graph = text_to_image()
    history = executions(graph, 30, 8.0)
    history[10:13] = executions(graph, 3, 200.0, start=10)
    found = DurationModel.fit(history).predict(analyse(parse_workflow(graph), CATALOG))
    assert found.seconds == pytest.approx(8, rel=0.1)


def test_what_changed_lately_counts_more() -> None:
    graph = text_to_image()
    history = [*executions(graph, 60, 8.0), *executions(graph, 15, 12.0, start=60)]
    found = DurationModel.fit(history).predict(analyse(parse_workflow(graph), CATALOG))
    assert found.seconds == pytest.approx(12, rel=0.15)


HISTORIES: Mapping[str, Callable[[], Sequence[ExecutionRecord]]] = {
    "simulated": lambda: simulated_history(600),
    "engine": lambda: recorded_history("engine"),
    "comfyui": lambda: recorded_history("comfyui"),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_model_beats_the_mean_of_similar_executions_on_what_it_has_not_seen(name: str) -> None:
    records = HISTORIES[name]()
    assert len(records) >= 200
    errors = backtest(records, refit_every=50)
    assert errors.model is not None
    assert errors.placed is not None
    assert errors.baseline is not None
    assert errors.heuristic is not None
    assert errors.model.median < 0.7 * errors.baseline.median
    assert errors.model.p90 < errors.baseline.p90
    assert errors.placed.median <= errors.model.median
    assert errors.baseline.median < errors.heuristic.median * 2
    assert errors.model.median < 0.5


def test_model_knows_its_error_and_range() -> None:
    records = simulated_history(500)
    model = DurationModel.fit(records)
    assert model.median_error is not None
    assert model.baseline_error is not None
    assert model.median_error < model.baseline_error
    said = [model.predict_again(record) for record in records]
    inside = sum(
        found.low <= record.seconds <= found.high
        for record, found in zip(records, said, strict=True)
    )
    assert inside > 0.6 * len(records)
    assert DurationModel.fit(records[:20]).median_error is None


def test_hostile_records_give_finite_predictions() -> None:
    sane = executions(text_to_image(), 30, 8.0)
    odd = [
        msgspec.structs.replace(
            record,
            seconds=0.0 if number % 2 else 1e7,
            complexity=0.0,
            device="\ud800" * number,
            nodes=tuple(
                msgspec.structs.replace(node, seconds=0.0, units=1e9, steps=3e4)
                for node in record.nodes
            ),
        )
        for number, record in enumerate(sane)
    ]
    analysis = analyse(parse_workflow(text_to_image()), CATALOG)
    for records in (odd, [*sane, *odd], [msgspec.structs.replace(sane[0], nodes=())] * 30):
        model = DurationModel.fit(records)
        found = model.predict(analysis)
        for number in (
            found.seconds,
            found.low,
            found.high,
            *model.node_seconds(analysis).values(),
        ):
            assert math.isfinite(number)
            assert number >= 0


def test_only_the_last_thousand_executions_count() -> None:
    old, new = executions(text_to_image(), 5, 99.0), executions(text_to_image(), 1000, 8.0, start=9)
    assert DurationModel.fit([*new, *old]).executions == 1000
    analysis = analyse(parse_workflow(text_to_image()), CATALOG)
    assert DurationModel.fit([*new, *old]).predict(analysis).similar == 1000


def test_without_history_samplers_outweigh_loaders_and_those_the_rest() -> None:
    seconds = DurationModel().node_seconds(
        analyse(parse_workflow(text_to_image(steps=40)), CATALOG)
    )
    assert seconds["5"] > seconds["1"] > seconds["6"] > seconds["4"] > 0


def test_history_says_which_node_takes_the_time() -> None:
    model = DurationModel.fit(executions(text_to_image(), 10, 10.0))
    weights = progress_weights(
        model.node_seconds(analyse(parse_workflow(text_to_image()), CATALOG))
    )
    assert weights["5"] == pytest.approx(0.7, abs=0.1)
    assert sum(weights.values()) == pytest.approx(1)


@given(st.dictionaries(st.text(max_size=3), st.floats()))
def test_weights_are_shares_more_than_nothing_each(seconds: dict[str, float]) -> None:
    weights = progress_weights(seconds)
    assert set(weights) == set(seconds)
    assert all(weight > 0 for weight in weights.values())
    assert not seconds or sum(weights.values()) == pytest.approx(1)


def test_remaining_goes_by_expectation_first_and_by_pace_later() -> None:
    assert remaining_seconds(0, 0.0, 100) == 100
    assert remaining_seconds(30, 0.0, 100) == 70
    assert remaining_seconds(60, 0.6, 1000) == pytest.approx(40)
    at_a_quarter = remaining_seconds(50, 0.25, 100)
    assert 50 < at_a_quarter < 150
    assert remaining_seconds(99, 0.999, 100) == 5


def test_load_makes_it_longer_until_the_pace_shows_it() -> None:
    assert remaining_seconds(0, 0.0, 100, load=1.0) == 200
    assert remaining_seconds(60, 0.6, 100, load=1.0) == remaining_seconds(60, 0.6, 100)


@given(st.floats(0, 1e9), st.floats(-1, 2), st.floats(0, 1e9), st.floats(0, 100))
def test_remaining_is_at_least_five_seconds(
    elapsed: float, progress: float, expected: float, load: float
) -> None:
    left = remaining_seconds(elapsed, progress, expected, load=load)
    assert 5 <= left < math.inf
