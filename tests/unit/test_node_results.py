"""What became of each node, read off the job's events [6.4]."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from comfyrail.clock import Instant
from comfyrail.ids import JobId
from comfyrail.jobs.events import Event, EventType
from comfyrail.jobs.node_results import NodeStatus, fold_events

NODES = {"load": "Loader", "sample": "Sampler", "save": "Saver"}


def log(*events: tuple[EventType, dict[str, Any]]) -> list[Event]:
    """One event a second."""
    return [
        Event(JobId("j"), number, kind, Instant(number * 1000), data)
        for number, (kind, data) in enumerate(events, 1)
    ]


def started(attempt: int = 1) -> tuple[EventType, dict[str, Any]]:
    return EventType.STARTED, {"attempt": attempt}


def begun(node: str) -> tuple[EventType, dict[str, Any]]:
    return EventType.NODE_STARTED, {"node_id": node, "node_type": NODES.get(node)}


def done(node: str, *, cached: bool = False, duration: float | None = 0.5) -> Any:
    return EventType.NODE_COMPLETED, {"node_id": node, "cached": cached, "duration": duration}


def failed(node: str) -> tuple[EventType, dict[str, Any]]:
    details = {"node_id": node, "exception_type": "ValueError", "exception_message": "no paint"}
    return EventType.FAILED, {"error": {"code": "NODE_FAILED", "details": details}}


def statuses(*events: tuple[EventType, dict[str, Any]]) -> list[str]:
    return [str(result.status) for result in fold_events(log(*events), NODES)]


def test_running_job_has_done_running_and_pending_nodes() -> None:
    loaded, sampled, saved = fold_events(
        log((EventType.QUEUED, {}), started(), begun("load"), done("load"), begun("sample")), NODES
    )
    assert (loaded.status, loaded.class_type) == (NodeStatus.COMPLETED, "Loader")
    assert (loaded.started_at, loaded.duration_seconds, loaded.is_cached) == (3000, 0.5, False)
    assert (sampled.status, sampled.duration_seconds) == (NodeStatus.RUNNING, None)
    assert (saved.status, saved.started_at) == (NodeStatus.PENDING, None)


def test_cached_node_took_no_time() -> None:
    (loaded, *_) = fold_events(log(started(), done("load", cached=True, duration=None)), NODES)
    assert loaded.status is NodeStatus.CACHED
    assert (loaded.is_cached, loaded.duration_seconds, loaded.started_at) == (True, 0.0, None)


def test_failed_node_says_why_and_the_others_what_became_of_them() -> None:
    events = (started(), begun("load"), begun("sample"), failed("sample"))
    loaded, sampled, saved = fold_events(log(*events), NODES)
    assert (sampled.status, sampled.error_type) == (NodeStatus.FAILED, "ValueError")
    assert (sampled.error_message, sampled.duration_seconds) == ("no paint", 1.0)
    assert loaded.status is NodeStatus.INTERRUPTED
    assert saved.status is NodeStatus.SKIPPED


def test_nodes_of_a_job_that_has_ended_are_neither_pending_nor_running() -> None:
    events = (started(), begun("load"), done("load"), begun("sample"))
    assert statuses(*events, (EventType.CANCELLED, {})) == ["completed", "interrupted", "skipped"]
    timed_out = (EventType.FAILED, {"error": {"code": "EXECUTION_TIMEOUT", "details": {}}})
    assert statuses(*events, timed_out) == ["completed", "interrupted", "skipped"]
    rest: tuple[Any, ...] = (done("sample"), (EventType.COMPLETED, {}))
    assert statuses(*events, *rest) == ["completed", "completed", "skipped"]


def test_only_the_last_attempt_counts() -> None:
    lost = (EventType.QUEUED, {"reason": "retrying", "attempt": 1})
    before = (started(), begun("load"), done("load"), begun("sample"), lost)
    assert statuses(*before) == ["pending", "pending", "pending"]
    assert statuses(*before, started(2), begun("load")) == ["running", "pending", "pending"]


def test_warning_about_a_node_is_told_with_it() -> None:
    blocked = {"node_id": "save", "exception_type": "ExecutionBlocked", "message": "blocked"}
    warning = (EventType.WARNING, blocked)
    *_, saved = fold_events(log(started(), warning, (EventType.COMPLETED, {})), NODES)
    assert (saved.status, saved.error_type) == (NodeStatus.SKIPPED, "ExecutionBlocked")
    assert saved.error_message == "blocked"


def test_without_a_list_of_nodes_those_that_were_heard_of_are_known() -> None:
    (result,) = fold_events(log(started(), begun("load")))
    assert (result.node_id, result.class_type) == ("load", "Loader")


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.sampled_from(list(NODES)),
    lambda inner: st.dictionaries(
        st.sampled_from(["node_id", "cached", "duration", "error", "details", "reason"]), inner
    ),
    max_leaves=6,
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(EventType)),
            st.dictionaries(
                st.sampled_from(["node_id", "cached", "duration", "error", "reason"]), ANYTHING
            ),
        ),
        max_size=12,
    )
)
def test_any_log_gives_every_node_once(events: list[tuple[EventType, dict[str, Any]]]) -> None:
    results = fold_events(log(*events), NODES)
    names = [result.node_id for result in results]
    assert names[:3] == list(NODES)
    assert len(set(names)) == len(names)
