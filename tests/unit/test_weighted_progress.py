"""Progress counts what nodes cost, not how many there are [6.5]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.clock import SystemClock
from comfyrail.fleet.comfyui.messages import (
    NodeExecuted,
    NodeExecuting,
    NodeProgress,
    NodesCached,
    ProgressChanged,
)
from comfyrail.fleet.progress import ProgressTracker

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
