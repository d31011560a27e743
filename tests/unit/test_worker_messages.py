"""What workers send, read as hostile input."""

import json
from collections.abc import Mapping

import pytest

from comfyrail.clock import SystemClock
from comfyrail.fleet.comfyui.history import NodeFailure, parse_history
from comfyrail.fleet.comfyui.messages import (
    Message,
    NodeExecuted,
    NodeExecuting,
    NodesCached,
    PromptEnded,
    parse_message,
)
from comfyrail.fleet.comfyui.shown import WorkerFile
from comfyrail.fleet.faults import node_failed
from comfyrail.fleet.outputs import safe_name
from comfyrail.fleet.progress import ProgressTracker
from comfyrail.jobs.events import EventType


def message(text: str) -> Message:
    parsed = parse_message(text)
    assert parsed is not None
    return parsed


def test_end_mark_is_executing_without_a_node() -> None:
    ended = parse_message('{"type":"executing","data":{"node":null,"prompt_id":"p"}}')
    assert ended == PromptEnded("p")
    begun = parse_message(
        '{"type":"executing","data":{"node":"5.0.1","display_node":"5","prompt_id":"p"}}'
    )
    assert begun == NodeExecuting("p", "5")


def test_node_that_shows_others_is_not_done_with_the_first_of_them() -> None:
    inner = '{"type":"executed","data":{"node":"5.0.1","display_node":"5","prompt_id":"p"}}'
    assert parse_message(inner) == NodeExecuting("p", "5")
    itself = '{"type":"executed","data":{"node":"5","display_node":"5","prompt_id":"p"}}'
    assert parse_message(itself) == NodeExecuted("p", "5")


def test_garbage_is_passed_over() -> None:
    deep = "[" * 100_000
    for text in ("", "nope", "[]", '{"type":1}', '{"type":"executing","data":{}}', deep):
        assert parse_message(text) is None
    odd = '{"type":"progress_state","data":{"prompt_id":"p","nodes":[1,2]}}'
    assert parse_message(odd) is not None
    assert parse_message('{"type":"execution_cached","data":{"prompt_id":"p"}}') == NodesCached(
        "p", ()
    )


def tracker() -> ProgressTracker:
    prompt = {str(number): {"class_type": f"Type{number}"} for number in range(1, 5)}
    return ProgressTracker(prompt, SystemClock())


def running(node: str, value: float, maximum: float, state: str = "running") -> Message:
    node_state = {"node_id": node, "value": value, "max": maximum, "state": state}
    data = {"prompt_id": "p", "nodes": {"n": node_state}}
    return message(json.dumps({"type": "progress_state", "data": data}))


def test_progress_counts_cached_finished_and_running_nodes() -> None:
    follow = tracker()
    follow.observe(message('{"type":"execution_cached","data":{"prompt_id":"p","nodes":["1"]}}'))
    follow.observe(running("2", 5, 10))
    progress = follow.progress()
    assert progress.fraction == (1 + 0.5) / 4
    assert (progress.current_node, progress.completed_nodes, progress.total_nodes) == ("2", 1, 4)


def test_progress_never_falls_and_stays_below_one() -> None:
    follow = tracker()
    follow.observe(running("1", 9, 10))
    high = follow.progress().fraction
    follow.observe(running("1", 1, 10))
    assert follow.progress().fraction == high
    for node in "1234":
        follow.observe(running(node, 1, 1, "finished"))
    assert follow.progress().fraction == 0.99


def test_many_changes_become_one_progress_event_and_all_node_events() -> None:
    follow = tracker()
    for step in range(100):
        follow.observe(running("1", step, 100))
    follow.observe(running("1", 1, 1, "finished"))
    follow.observe(running("2", 0, 1))
    events, progress = follow.take()
    assert [event.type for event in events] == [
        EventType.NODE_STARTED,
        EventType.NODE_COMPLETED,
        EventType.NODE_STARTED,
        EventType.PROGRESS,
    ]
    assert progress is not None
    assert follow.take() == ([], None)


def test_events_that_could_not_be_stored_come_again() -> None:
    follow = tracker()
    follow.observe(running("1", 1, 1, "finished"))
    events, _ = follow.take()
    follow.put_back(events)
    follow.observe(running("2", 0, 1))
    again, progress = follow.take()
    assert [event.type for event in again] == [
        EventType.NODE_COMPLETED,
        EventType.NODE_STARTED,
        EventType.PROGRESS,
    ]
    assert progress is not None


def test_nodes_that_are_not_in_the_prompt_change_nothing() -> None:
    follow = tracker()
    follow.observe(running("made up", 1, 1, "finished"))
    assert follow.take() == ([], None)


def entry(status: str, *messages: tuple[str, Mapping[str, object]]) -> dict[str, object]:
    return {
        "p": {
            "outputs": {"3": {"images": [{"filename": "a.png", "subfolder": "s", "type": "temp"}]}},
            "status": {"status_str": status, "messages": [list(each) for each in messages]},
        }
    }


def test_history_gives_files_and_success() -> None:
    found = parse_history(entry("success", ("execution_success", {})), "p")
    assert found is not None
    assert found.status == "success"
    assert found.shown == (WorkerFile("3", "images", "a.png", "s", "temp"),)


def test_history_that_calls_an_error_a_success_is_not_believed() -> None:
    error = ("execution_error", {"node_id": "1", "exception_message": "cycle"})
    found = parse_history(entry("success", error), "p")
    assert found is not None
    assert found.status == "error"


def test_blocked_branch_before_a_success_stays_a_success_with_a_failure_noted() -> None:
    error = ("execution_error", {"node_id": "1", "exception_message": "blocked"})
    found = parse_history(entry("success", error, ("execution_success", {})), "p")
    assert found is not None
    assert (found.status, len(found.failures)) == ("success", 1)


def test_interrupted_is_neither_success_nor_error() -> None:
    found = parse_history(entry("error", ("execution_interrupted", {})), "p")
    assert found is not None
    assert found.status == "interrupted"


def test_history_without_the_prompt_is_none_and_odd_ones_do_no_harm() -> None:
    assert parse_history({}, "p") is None
    assert parse_history([], "p") is None
    odd = parse_history({"p": {"outputs": [], "status": 5}}, "p")
    assert odd is not None
    assert odd.shown == ()


def test_file_names_from_workers_lose_their_folders_and_control_characters() -> None:
    assert safe_name("../../etc/passwd") == "passwd"
    assert safe_name("..\\..\\x\n.png") == "x.png"
    assert safe_name("/") == "output"
    assert len(safe_name("a" * 5000 + ".png")) == 200


def test_time_that_a_prompt_took_is_read_off_its_history() -> None:
    stamps = ("execution_start", {"timestamp": 1000}), ("execution_success", {"timestamp": 4000})
    found = parse_history(entry("success", *stamps), "p")
    assert found is not None
    assert found.seconds == 3.0
    odd = ("execution_start", {"timestamp": "x"}), ("execution_success", {"timestamp": -1e300})
    hostile = parse_history(entry("success", *odd), "p")
    assert hostile is not None
    assert hostile.seconds is None


@pytest.mark.parametrize(
    ("kind", "message", "code"),
    [
        ("torch.OutOfMemoryError", "Allocation on device", "OUT_OF_MEMORY"),
        ("torch.cuda.OutOfMemoryError", "CUDA out of memory.", "OUT_OF_MEMORY"),
        ("MemoryError", "", "OUT_OF_MEMORY"),
        ("numpy._core._exceptions._ArrayMemoryError", "Unable to allocate", "OUT_OF_MEMORY"),
        ("RuntimeError", "DefaultCPUAllocator: can't allocate memory", "OUT_OF_MEMORY"),
        ("RuntimeError", "HIP out of memory. Tried to allocate 2 GiB", "OUT_OF_MEMORY"),
        ("OSError", "[Errno 28] No space left on device: 'x.png'", "WORKER_DISK_FULL"),
        ("OSError", "[Errno 122] Disk quota exceeded", "WORKER_DISK_FULL"),
        ("ValueError", "the text says out of memory", "NODE_FAILED"),
        ("OSError", "[Errno 2] No such file", "NODE_FAILED"),
    ],
)
def test_what_a_node_lacked_is_told_from_what_it_did_wrong(
    kind: str, message: str, code: str
) -> None:
    fault = node_failed(NodeFailure("7", "Sampler", kind, message))
    assert fault.code == code
    assert fault.category == ("execution" if code == "NODE_FAILED" else "resource")
    assert (fault.details["node_id"], fault.details["exception_message"]) == ("7", message)
