import time
import weakref
from typing import Any

import numpy as np
import pytest

from comfyrail.engine.caching.build import CacheConfig, build_cache
from comfyrail.engine.definition import NodeResult, node
from comfyrail.engine.events import (
    Event,
    ExecutionFailed,
    ExecutionInterrupted,
    ExecutionStarted,
    ExecutionSucceeded,
    NodeExecuted,
    NodeFinished,
    NodeProgress,
    NodesCached,
    NodeStarted,
)
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.workflow.catalog import OutputPort
from tests.engine.engine_parts import Engine, nodes_run
from tests.engine.worker_client import delay, empty_image, invert, preview, save, slow_graph


def chain(length: int) -> dict[str, Any]:
    prompt = {"0": empty_image(side=2)}
    for index in range(1, length - 1):
        prompt[str(index)] = invert(str(index - 1))
    prompt["end"] = preview(str(length - 2))
    return prompt


def shown(events: list[Event]) -> dict[str, Any]:
    return {event.node_id: event.ui for event in events if isinstance(event, NodeExecuted)}


def test_events_come_in_comfyuis_order(engine: Engine) -> None:
    events = engine.run({"1": empty_image(), "2": preview("1")}, ["2"])
    assert [type(event) for event in events] == [
        ExecutionStarted,
        NodesCached,
        NodeStarted,
        NodeFinished,
        NodeStarted,
        NodeExecuted,
        NodeFinished,
        ExecutionSucceeded,
    ]


def test_nodes_that_no_output_needs_do_not_run(engine: Engine) -> None:
    prompt = {"1": empty_image(), "2": preview("1"), "3": empty_image(5), "4": invert("3")}
    assert nodes_run(engine.run(prompt, ["2"])) == ["1", "2"]


def test_a_b_a_computes_nothing_the_third_time(engine: Engine) -> None:
    first = {"1": empty_image(1), "2": invert("1"), "3": preview("2")}
    second = {"1": empty_image(2), "2": invert("1"), "3": preview("2")}
    before = engine.run(first, ["3"])
    engine.run(second, ["3"])
    again = engine.run(first, ["3"])
    assert nodes_run(again) == []
    assert next(e for e in again if isinstance(e, NodesCached)).node_ids == ["1", "2", "3"]
    assert shown(again) == shown(before)


def test_a_cached_output_counts_only_while_its_file_exists(
    engine: Engine, folders: Folders
) -> None:
    prompt = {"1": empty_image(), "2": save("1")}
    first = shown(engine.run(prompt, ["2"]))["2"]["images"][0]["filename"]
    (folders.output / first).unlink()
    events = engine.run(prompt, ["2"])
    assert nodes_run(events) == ["2"]
    assert shown(events)["2"]["images"][0]["filename"] != first


def test_results_that_were_evicted_are_computed_again(folders: Folders) -> None:
    engine = Engine(folders)
    engine.run({"1": empty_image(), "2": invert("1"), "3": preview("2")}, ["3"])
    engine.cache.clear()
    events = engine.run({"1": empty_image(), "2": invert("1"), "3": preview("2")}, ["3"])
    assert nodes_run(events) == ["1", "2", "3"]


def test_a_chain_of_ten_thousand_nodes_runs(engine: Engine) -> None:
    prompt = chain(10_000)
    start = time.perf_counter()
    events = engine.run(prompt, ["end"])
    assert isinstance(events[-1], ExecutionSucceeded)
    assert len(nodes_run(events)) == 10_000
    assert time.perf_counter() - start < 5


def test_a_node_that_is_not_cacheable_runs_again_and_so_does_what_it_feeds(
    engine: Engine,
) -> None:
    prompt = {"1": empty_image(), "2": delay("1", 0), "3": preview("2")}
    engine.run(prompt, ["3"])
    assert nodes_run(engine.run(prompt, ["3"])) == ["2", "3"]


def test_an_error_names_its_node_and_what_ran_before_it_is_kept(engine: Engine) -> None:
    @node("Break", required={"image": ("IMAGE",)}, outputs=("IMAGE",))
    def break_down(image: object) -> object:
        raise LookupError(f"nothing here for {type(image).__name__}")

    engine.registry.add(break_down)
    prompt = {
        "1": empty_image(),
        "2": {"class_type": "Break", "inputs": {"image": ["1", 0]}},
        "3": preview("2"),
    }
    failed = engine.run(prompt, ["3"])[-1]
    assert isinstance(failed, ExecutionFailed)
    assert (failed.node_id, failed.node_type) == ("2", "Break")
    assert failed.exception_type == "LookupError"
    assert failed.message == "nothing here for ndarray"
    assert failed.executed == ("1",)
    assert any("break_down" in line for line in failed.traceback)
    assert nodes_run(engine.run(prompt, ["3"])) == ["2"]


def test_an_interrupt_stops_a_node_within_50_ms(engine: Engine) -> None:
    interrupt = Interrupt()
    asked_at = 0.0

    def interrupt_once(event: Event) -> None:
        nonlocal asked_at
        if isinstance(event, NodeProgress) and not asked_at:
            asked_at = time.monotonic()
            interrupt.request()

    events = engine.run(slow_graph(), ["3"], interrupt=interrupt, watch=interrupt_once)
    assert time.monotonic() - asked_at < 0.05
    stopped = events[-1]
    assert isinstance(stopped, ExecutionInterrupted)
    assert (stopped.node_id, stopped.node_type) == ("2", "Delay")
    assert stopped.executed == ("1",)


def test_an_interrupt_is_seen_between_nodes(engine: Engine) -> None:
    interrupt = Interrupt()

    def interrupt_after_first(event: Event) -> None:
        if isinstance(event, NodeFinished):
            interrupt.request()

    events = engine.run(chain(5), ["end"], interrupt=interrupt, watch=interrupt_after_first)
    assert nodes_run(events) == ["0"]
    assert isinstance(events[-1], ExecutionInterrupted)


def test_a_node_that_catches_everything_cannot_swallow_an_interrupt(engine: Engine) -> None:
    @node("Stubborn", outputs=("IMAGE",), is_output=True)
    def stubborn(context: Any) -> object:
        try:
            context.progress(1, 2)
        except Exception:  # noqa: BLE001
            return "swallowed"
        return "not interrupted"

    engine.registry.add(stubborn)
    interrupt = Interrupt()

    def interrupt_at_start(event: Event) -> None:
        if isinstance(event, NodeStarted):
            interrupt.request()

    prompt = {"1": {"class_type": "Stubborn", "inputs": {}}}
    events = engine.run(prompt, ["1"], interrupt=interrupt, watch=interrupt_at_start)
    assert isinstance(events[-1], ExecutionInterrupted)


def test_delay_reports_about_twenty_times_a_second(engine: Engine) -> None:
    prompt = {"1": empty_image(), "2": delay("1", 0.25), "3": preview("2")}
    reports = [e for e in engine.run(prompt, ["3"]) if isinstance(e, NodeProgress)]
    assert [(report.value, report.maximum) for report in reports] == [(n, 5) for n in range(1, 6)]


def test_no_node_can_change_what_another_one_gets(engine: Engine) -> None:
    @node("Scribble", required={"image": ("IMAGE",)}, outputs=("IMAGE",), is_output=True)
    def scribble(image: np.ndarray) -> object:
        image[:] = 1
        return image

    engine.registry.add(scribble)
    prompt = {"1": empty_image(), "2": {"class_type": "Scribble", "inputs": {"image": ["1", 0]}}}
    failed = engine.run(prompt, ["2"])[-1]
    assert isinstance(failed, ExecutionFailed)
    assert "read-only" in failed.message


def test_a_list_output_runs_its_consumer_once_for_each_item(engine: Engine) -> None:
    taken: list[Any] = []

    @node("Many", outputs=(OutputPort("numbers", "INT", is_list=True),))
    def many() -> tuple[list[int]]:
        return ([1, 2, 3],)

    @node(
        "Take",
        required={"number": ("INT", {}), "factor": ("INT", {})},
        outputs=("INT",),
        is_output=True,
    )
    def take(number: int, factor: int) -> NodeResult:
        taken.append(number * factor)
        return NodeResult((number,), ui={"text": [str(number)]})

    engine.registry.add(many)
    engine.registry.add(take)
    prompt = {
        "1": {"class_type": "Many", "inputs": {}},
        "2": {"class_type": "Take", "inputs": {"number": ["1", 0], "factor": 10}},
    }
    events = engine.run(prompt, ["2"])
    assert taken == [10, 20, 30]
    assert shown(events)["2"] == {"text": ["1", "2", "3"]}


def test_a_wrong_number_of_outputs_is_the_nodes_failure(engine: Engine) -> None:
    @node("Two", outputs=("INT", "INT"), is_output=True)
    def two() -> tuple[int]:
        return (1,)

    engine.registry.add(two)
    failed = engine.run({"1": {"class_type": "Two", "inputs": {}}}, ["1"])[-1]
    assert isinstance(failed, ExecutionFailed)
    assert failed.message == "Two returned 1 outputs, its definition has 2."


@pytest.mark.parametrize("length", [10, 200])
def test_values_are_let_go_when_their_last_consumer_has_run(folders: Folders, length: int) -> None:
    engine = Engine(folders, cache=build_cache(CacheConfig(memory=False)))
    alive: list[int] = []

    @node("Watch", required={"image": ("IMAGE",)}, outputs=("IMAGE",))
    def watch(image: np.ndarray) -> np.ndarray:
        alive.append(sum(1 for reference in references if reference() is not None))
        made = image + 1
        references.append(weakref.ref(made))
        return made

    references: list[weakref.ref[np.ndarray]] = []
    engine.registry.add(watch)
    prompt: dict[str, Any] = {"0": empty_image()}
    for index in range(1, length):
        inputs = {"image": [str(index - 1), 0]}
        prompt[str(index)] = {"class_type": "Watch", "inputs": inputs}
    prompt["end"] = preview(str(length - 1))
    assert isinstance(engine.run(prompt, ["end"])[-1], ExecutionSucceeded)
    assert max(alive) <= 2
