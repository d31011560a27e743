"""Tasks, replies, and carrying them out in one process."""

import math
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comfyrail.engine.caching import CacheConfig, CachedResult
from comfyrail.engine.definition import NodeDefinition, define_node
from comfyrail.engine.distributed.plain_data import is_plain
from comfyrail.engine.distributed.remote_nodes import RemoteNodes, is_sendable
from comfyrail.engine.distributed.shared_results import SharedResults, open_shared_results
from comfyrail.engine.distributed.task import (
    LARGEST_TASK,
    RemoteTask,
    UnreadableMessage,
    read_reply,
    read_task,
    read_task_object,
    write_reply,
    write_task,
)
from comfyrail.engine.distributed.worker_side import TaskWorker
from comfyrail.engine.live_graph import Link, bind_node
from comfyrail.engine.registry import NodeRegistry
from comfyrail.errors import ConfigurationError
from tests.processes import wait_until

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


def new_key() -> str:
    return secrets.token_hex(32)


def task_for(node_type: str, key: str | None = None, **inputs: Any) -> RemoteTask:
    """Inputs that are pairs of a key and a slot are sources."""
    sources = {name: value for name, value in inputs.items() if isinstance(value, tuple)}
    literals = {name: value for name, value in inputs.items() if name not in sources}
    task_id = secrets.token_hex(16)
    return RemoteTask(task_id, "x", node_type, "1", "7", key or new_key(), literals, sources)


@settings(max_examples=40)
@given(literals=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), plain))
def test_plain_data_is_the_same_after_the_way(literals: dict[str, Any]) -> None:
    assert is_plain(literals)
    task = RemoteTask("0" * 32, "x", "A", "1", "7", "a" * 64, literals, {"in": ("b" * 64, 2)}, 1.5)
    text = write_task(task)
    assert read_task(text) == task
    assert repr(read_task(text)) == repr(task)  # 1 and 1.0 and True are equal, but not the same


ring: list[Any] = []
ring.append(ring)


@pytest.mark.parametrize(
    "value",
    [(1,), {1: 2}, math.nan, math.inf, 2**64, b"x", "\ud800", {"\ud800": 1}, np.float64(1), ring],
)
def test_what_would_change_on_the_way_is_not_plain(value: Any) -> None:
    assert not is_plain(value)
    assert not is_plain([value])
    assert not is_plain({"x": value})


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"\xff", b'{"id": "../../x"}', b"[" * 10_000, b" " * (LARGEST_TASK + 1)],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    for read in (read_task, read_reply):
        with pytest.raises(UnreadableMessage):
            read(data)
    with pytest.raises(UnreadableMessage):
        read_task_object({"id": 1})


def test_a_key_that_is_no_hash_is_refused() -> None:
    good = write_task(task_for("A", key="a" * 64))
    assert read_task(good).key == "a" * 64
    for bad in (b"A" * 64, b"a" * 63, b"../" + b"a" * 61):
        with pytest.raises(UnreadableMessage):
            read_task(good.replace(b"a" * 64, bad))


# Carrying out

runs: list[Any] = []
may_go_on = threading.Event()


def count(value: Any) -> Any:
    runs.append(value)
    return value


def wait_for_leave(value: Any) -> Any:
    runs.append(value)
    may_go_on.wait(10)
    return value


def fail(value: Any) -> Any:
    raise KeyError(value)


ANY = ("*",)
NODES = [
    define_node("Count", count, required={"value": ANY}, outputs=ANY),
    define_node("Wait", wait_for_leave, required={"value": ANY}, outputs=ANY),
    define_node("Fail", fail, required={"value": ANY}, outputs=ANY),
]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    runs.clear()
    may_go_on.clear()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedResults]:
    results = open_shared_results(CacheConfig(disk_path=tmp_path))
    yield results
    results.close()


@pytest.fixture
def task_worker(tmp_path: Path) -> Iterator[TaskWorker]:
    worker = TaskWorker(NodeRegistry(NODES), open_shared_results(CacheConfig(disk_path=tmp_path)))
    yield worker
    worker.close()


def test_a_task_is_carried_out_once_and_its_result_is_there_for_all(
    task_worker: TaskWorker, shared: SharedResults
) -> None:
    source = new_key()
    shared.publish(source, CachedResult(((1,), (np.arange(3), "two"))))
    task = task_for("Count", value=(source, 1))
    reply = task_worker.carry_out(task)
    assert (reply.status, len(runs)) == ("done", 2)  # a slot of two items makes two calls
    found = shared.find(task.key)
    assert found is not None
    assert found.slots[0][1] == "two"
    assert task_worker.carry_out(task).status == "done"
    assert len(runs) == 2
    assert read_reply(write_reply(reply)) == reply


def test_copies_of_a_task_run_once(task_worker: TaskWorker, tmp_path: Path) -> None:
    task = task_for("Wait", value=5)
    replies: list[str] = []

    def carry_out_copy() -> None:
        other = TaskWorker(
            NodeRegistry(NODES), open_shared_results(CacheConfig(disk_path=tmp_path))
        )
        replies.append(other.carry_out(task).status)
        other.close()

    copies = [threading.Thread(target=carry_out_copy) for _ in range(3)]
    for copy in copies:
        copy.start()
    wait_until(lambda: runs)
    may_go_on.set()
    replies.append(task_worker.carry_out(task).status)
    for copy in copies:
        copy.join()
    assert replies == ["done"] * 4
    assert runs == [5]


def test_inputs_that_are_not_there_are_named(task_worker: TaskWorker) -> None:
    first, second = new_key(), new_key()
    task = task_for("Count", value=(first, 0), other=(second, 0), same=(first, 1))
    reply = task_worker.carry_out(task)
    assert (reply.status, set(reply.lost)) == ("lost", {first, second})
    assert runs == []


def test_a_failure_tells_all_that_is_known(task_worker: TaskWorker) -> None:
    reply = task_worker.carry_out(task_for("Fail", value="\ud800 missing"))
    assert (reply.status, reply.error_type, reply.kind) == ("failed", "KeyError", "runtime")
    assert "missing" in reply.message
    assert any("def fail" in line or "raise KeyError" in line for line in reply.trace)
    assert read_reply(write_reply(reply)) == reply


def test_a_type_or_version_that_is_not_here_is_unknown(task_worker: TaskWorker) -> None:
    assert task_worker.carry_out(task_for("Unheard", value=1)).status == "unknown"
    other = RemoteTask(**{**_fields(task_for("Count", value=1)), "version": "2"})
    assert task_worker.carry_out(other).status == "unknown"
    assert runs == []


def _fields(task: RemoteTask) -> dict[str, Any]:
    return {name: getattr(task, name) for name in task.__struct_fields__}


def test_a_result_that_no_level_takes_is_said_so(tmp_path: Path) -> None:
    config = CacheConfig(disk_path=tmp_path, disk_mb=1)
    worker = TaskWorker(NodeRegistry(NODES), open_shared_results(config))
    try:
        big = worker.carry_out(task_for("Count", value="x" * 3_000_000))
        assert big.status == "unstored"
        good = worker.carry_out(task_for("Count", value="x"))
        assert good.status == "done"
    finally:
        worker.close()


def test_without_a_shared_level_there_is_nothing_to_share() -> None:
    with pytest.raises(ConfigurationError, match="redis_url"):
        open_shared_results(CacheConfig())


# Which nodes go


def _with(**about: Any) -> NodeDefinition:
    definition = define_node("Invert", count, required={"value": ANY}, outputs=ANY, **about)
    object.__setattr__(definition, "python_module", "custom_nodes.pack")
    return definition


@pytest.mark.parametrize(
    "about",
    [
        {"is_output": True},
        {"is_cheap": True},
        {"cacheable": False},
        {"expands": True},
        {"hidden": {"prompt": "PROMPT"}},
        {"hidden": {"id": "UNIQUE_ID", "key": "API_KEY_COMFY_ORG"}},
        {"check_lazy": lambda **_: []},
        {"optional": {"x": ("INT", {"lazy": True})}},
        {"optional": {"x": ("INT", {"rawLink": True})}},
    ],
)
def test_some_types_stay_here(about: dict[str, Any]) -> None:
    assert is_sendable(_with(hidden={"id": "UNIQUE_ID"}))
    assert not is_sendable(_with(**about))


def test_a_function_that_others_cannot_load_stays_here() -> None:
    assert not is_sendable(define_node("Mine", lambda value: value, required={"value": ANY}))


def test_local_types_stay_here_unless_the_configuration_says_otherwise() -> None:
    definition = _with(is_local=True)
    node = bind_node("1", definition, {"value": 5})
    assert node not in RemoteNodes([])
    assert node in RemoteNodes(["Invert"])
    nodes = RemoteNodes(["Invert"])
    other = bind_node("2", definition, {"value": 6})
    nodes.keep_here(node)
    assert node not in nodes
    assert other in nodes
    nodes.keep_type_here(definition)
    assert other not in nodes


def test_values_that_are_not_plain_stay_here() -> None:
    definition = _with()
    assert bind_node("1", definition, {"value": ["2", 0]}).links == {"value": Link("2", 0)}
    assert bind_node("1", definition, {"value": ["2", 0]}) in RemoteNodes([])
    assert bind_node("1", definition, {"value": math.nan}) not in RemoteNodes([])
    # What the type does not take is not sent either.
    assert bind_node("1", definition, {"value": 1, "ignored": math.nan}) in RemoteNodes([])
