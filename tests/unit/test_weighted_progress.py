"""Progress counts what nodes cost, not how many there are [6.5]."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.clock import SystemClock
from comfyrail.fleet.comfyui.messages import (
    Message,
    NodeExecuted,
    NodeExecuting,
    NodeProgress,
    NodesCached,
    ProgressChanged,
    parse_message,
)
from comfyrail.fleet.progress import ProgressTracker
from comfyrail.ids import JobId
from comfyrail.jobs.events import Event

PROMPT = {name: {"class_type": "T"} for name in ("load", "sample", "save")}
WEIGHTS = {"load": 1.0, "sample": 8.0, "save": 1.0}


def tracker(weights: dict[str, float] | None = None) -> ProgressTracker:
    return ProgressTracker(PROMPT, SystemClock(), WEIGHTS if weights is None else weights)


def test_expensive_node_is_most_of_the_progress() -> None:
    tracked = tracker()
    tracked.observe(NodesCached("p", ("load",)))
    assert tracked.progress().fraction == pytest.approx(0.1)
    tracked.observe(ProgressChanged("p", (NodeProgress("sample", "running", 0.5, 1),)))
    assert tracked.progress().fraction == pytest.approx(0.5)
    tracked.observe(NodeExecuted("p", "sample"))
    assert tracked.progress().fraction == pytest.approx(0.9)


def test_without_weights_all_nodes_count_the_same() -> None:
    tracked = tracker({})
    tracked.observe(NodeExecuted("p", "sample"))
    assert tracked.progress().fraction == pytest.approx(1 / 3)


def test_node_without_a_weight_counts_as_the_mean() -> None:
    tracked = tracker({"load": 1.0, "sample": 3.0})
    tracked.observe(NodeExecuted("p", "save"))
    assert tracked.progress().fraction == pytest.approx(2 / 6)


def test_attempt_that_is_taken_over_does_not_go_back() -> None:
    tracked = ProgressTracker(PROMPT, SystemClock(), WEIGHTS, 0.7)
    tracked.observe(NodeExecuting("p", "load"))
    assert tracked.progress().fraction == pytest.approx(0.7)


def test_what_nodes_took_and_what_was_cached_is_known_at_the_end() -> None:
    tracked = tracker()
    tracked.observe(NodesCached("p", ("load",)))
    tracked.observe(NodeExecuting("p", "sample"))
    tracked.observe(NodeExecuted("p", "sample"))
    assert tracked.cached == {"load"}
    assert set(tracked.node_seconds) == {"sample"}


def test_current_node_is_one_of_the_job() -> None:
    tracked = tracker()
    tracked.observe(NodeExecuting("p", "sample"))
    tracked.observe(NodeExecuting("p", "x" * 1_000_000))
    assert tracked.progress().current_node == "sample"


def test_nodes_made_by_expansion_do_not_finish_the_one_that_shows_them() -> None:
    tracked = tracker()
    for number in range(3):
        text = json.dumps(
            {
                "type": "progress_state",
                "data": {
                    "prompt_id": "p",
                    "nodes": {
                        "a": {"node_id": "sample", "value": 0.4, "max": 1, "state": "running"},
                        "b": {
                            "node_id": f"sample.0.0.{number}",
                            "display_node_id": "sample",
                            "value": 1,
                            "max": 1,
                            "state": "finished",
                        },
                    },
                },
            }
        )
        message = parse_message(text)
        assert message is not None
        tracked.observe(message)
        assert tracked.progress().fraction == pytest.approx(0.8 * 0.4)
    tracked.observe(NodeExecuted("p", "sample"))
    assert tracked.progress().fraction == pytest.approx(0.8)


def test_repeated_messages_tell_nothing_new() -> None:
    tracked = tracker()
    messages: list[Message] = [
        NodesCached("p", ("load",)),
        NodeExecuting("p", "sample"),
        ProgressChanged("p", (NodeProgress("sample", "running", 1, 2),)),
    ]
    for message in messages:
        tracked.observe(message)
    tracked.take()
    for message in reversed(messages):
        tracked.observe(message)
    assert tracked.take() == ([], None)


def test_attempt_that_is_taken_over_tells_nothing_twice() -> None:
    first = tracker()
    first.observe(NodesCached("p", ("load",)))
    first.observe(NodeExecuting("p", "sample"))
    events, _ = first.take()
    second = tracker()
    now = SystemClock().now()
    second.restore(
        Event(JobId("j"), number, event.type, now, event.data)
        for number, event in enumerate(events, 1)
    )
    assert second.progress() == first.progress()
    second.observe(NodesCached("p", ("load",)))
    second.observe(NodeExecuting("p", "sample"))
    assert second.take() == ([], None)
    second.observe(NodeExecuted("p", "sample"))
    assert (second.cached, set(second.node_seconds)) == ({"load"}, {"sample"})


@given(
    st.dictionaries(st.sampled_from(list(PROMPT)), st.floats(0, 1e9)),
    st.lists(st.tuples(st.sampled_from(list(PROMPT)), st.floats(0, 1), st.booleans())),
)
def test_progress_never_goes_back_and_is_not_whole_before_the_end(
    weights: dict[str, float], steps: list[tuple[str, float, bool]]
) -> None:
    tracked = tracker(weights)
    before = 0.0
    for node, part, is_done in steps:
        if is_done:
            tracked.observe(NodeExecuted("p", node))
        else:
            tracked.observe(ProgressChanged("p", (NodeProgress(node, "running", part, 1),)))
        now = tracked.progress().fraction
        assert before <= now <= 0.99
        before = now
