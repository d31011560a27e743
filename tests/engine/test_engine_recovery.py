"""Policies after errors, timeouts, checkpoints and resuming [12.3, 12.7]."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from comfyrail.engine.assembly import build_executor
from comfyrail.engine.checkpoint import Checkpoint
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import NodeDefinition, NodeResult, define_node, node
from comfyrail.engine.events import (
    Event,
    ExecutionFailed,
    ExecutionSucceeded,
    NodeExecuted,
    NodeRecovered,
)
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.policies import ErrorPolicy, read_policy
from comfyrail.engine.registry import NodeRegistry
from comfyrail.errors import ConfigurationError
from tests.engine.engine_parts import Engine, nodes_run
from tests.processes import wait_until


@node("Add", required={"a": ("INT",), "b": ("INT",)}, outputs=("INT",))
def add(a: int, b: int) -> int:
    return a + b


@node("Show", required={"value": ("*",)}, is_output=True)
def show(value: Any) -> NodeResult:
    return NodeResult(ui={"value": [value]})


def failing(times: int, **about: Any) -> tuple[NodeDefinition, list[float]]:
    """A node that fails so many times, and when it was called."""
    calls: list[float] = []

    def shaky(value: int) -> int:
        calls.append(time.monotonic())
        if len(calls) <= times:
            raise OSError(f"attempt {len(calls)}")
        return value

    definition = define_node(
        "Shaky", shaky, required={"value": ("INT",)}, outputs=("INT",), **about
    )
    return definition, calls


def made(kind: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": kind, "inputs": inputs}


PROMPT = {
    "1": made("Shaky", value=1),
    "2": made("Add", a=["1", 0], b=10),
    "out": made("Show", value=["2", 0]),
    "other": made("Show", value="free"),
}


def shown(events: list[Event]) -> dict[str, Any]:
    return {
        event.node_id: event.ui["value"][0] for event in events if isinstance(event, NodeExecuted)
    }


def recovered(events: list[Event]) -> list[tuple[str, int]]:
    return [(event.action, event.attempt) for event in events if isinstance(event, NodeRecovered)]


def run(engine: Engine, policy: Any = None, **options: Any) -> list[Event]:
    if policy is not None:
        options["on_error"] = {"1": policy}
    return engine.run(PROMPT, ["out", "other"], comfyrail=options)


def test_without_a_policy_the_first_error_ends_it(folders: Folders) -> None:
    shaky, _ = failing(1)
    end = run(Engine(folders, registry=NodeRegistry([shaky, add, show])))[-1]
    assert isinstance(end, ExecutionFailed)
    assert (end.node_id, end.message, end.kind, end.recoverable) == (
        "1",
        "attempt 1",
        "runtime",
        True,
    )
    assert "in shaky" in "".join(end.traceback)


def test_a_node_is_tried_again_after_growing_pauses(folders: Folders) -> None:
    shaky, calls = failing(3)
    engine = Engine(folders, registry=NodeRegistry([shaky, add, show]))
    events = run(engine, {"policy": "retry", "attempts": 4, "pause": 0.05, "factor": 2})
    assert shown(events) == {"out": 11, "other": "free"}
    assert recovered(events) == [("retry", 1), ("retry", 2), ("retry", 3)]
    pauses = [later - sooner for sooner, later in itertools.pairwise(calls)]
    assert [pause >= wanted for pause, wanted in zip(pauses, (0.05, 0.1, 0.2), strict=True)] == [
        True
    ] * 3


def test_after_the_last_attempt_the_next_policy_counts(folders: Folders) -> None:
    shaky, calls = failing(9)
    engine = Engine(folders, registry=NodeRegistry([shaky, add, show]))
    then = {"policy": "fallback", "value": 5}
    events = run(engine, {"policy": "retry", "attempts": 2, "pause": 0, "then": then})
    assert (len(calls), shown(events)["out"]) == (2, 15)


def test_other_branches_go_on_while_a_node_waits_to_be_tried_again(folders: Folders) -> None:
    shaky, _ = failing(1)
    engine = Engine(folders, registry=NodeRegistry([shaky, add, show]))
    events = run(engine, {"policy": "retry", "pause": 0.3})
    order = [event.node_id for event in events if isinstance(event, NodeExecuted)]
    assert order == ["other", "out"]


def test_a_value_stands_in_and_is_not_kept_for_other_runs(folders: Folders) -> None:
    shaky, _ = failing(1)
    engine = Engine(folders, registry=NodeRegistry([shaky, add, show]))
    assert shown(run(engine, {"policy": "fallback", "value": 100}))["out"] == 110
    events = run(engine)
    assert shown(events)["out"] == 11
    assert nodes_run(events) == ["1", "2", "out"]


def test_another_node_type_stands_in(folders: Folders) -> None:
    shaky, _ = failing(1)
    spare = define_node(
        "Spare", lambda value: value + 1000, required={"value": ("INT",)}, outputs=("INT",)
    )
    engine = Engine(folders, registry=NodeRegistry([shaky, spare, add, show]))
    assert shown(run(engine, {"policy": "fallback", "node_type": "Spare"}))["out"] == 1011
    assert shown(run(engine))["out"] == 11


@pytest.mark.parametrize("node_type", ["Nonsense", "Show"])
def test_a_fallback_that_cannot_stand_in_is_a_failure(folders: Folders, node_type: str) -> None:
    shaky, _ = failing(1)
    engine = Engine(folders, registry=NodeRegistry([shaky, add, show]))
    end = run(engine, {"policy": "fallback", "node_type": node_type})[-1]
    assert isinstance(end, ExecutionFailed)
    assert node_type in end.message


def test_what_depends_on_a_skipped_node_does_not_run(folders: Folders) -> None:
    shaky, _ = failing(1)
    engine = Engine(folders, registry=NodeRegistry([shaky, add, show]))
    events = run(engine, "skip")
    assert isinstance(events[-1], ExecutionSucceeded)
    assert shown(events) == {"other": "free"}
    assert shown(run(engine))["out"] == 11


def test_a_policy_can_come_from_the_definition_and_from_the_engine(folders: Folders) -> None:
    shaky, _ = failing(1, on_error=ErrorPolicy("fallback", value=1))
    engine = Engine(folders, registry=NodeRegistry([shaky, add, show]))
    assert shown(run(engine))["out"] == 11
    plain, _ = failing(1)
    engine = Engine(folders, registry=NodeRegistry([plain, add, show]))
    assert shown(run(engine, default_on_error="skip")) == {"other": "free"}


def test_halt_writes_down_what_is_done_and_a_later_run_goes_on(folders: Folders) -> None:
    calls: list[int] = []
    shaky, _ = failing(1)

    @node("First", outputs=("INT",), cacheable=False)
    def first() -> int:
        calls.append(1)
        return 4

    prompt = {
        "0": made("First"),
        "1": made("Shaky", value=["0", 0]),
        "out": made("Show", value=["1", 0]),
    }
    registry = NodeRegistry([first, shaky, show])
    options = {"on_error": {"Shaky": "halt"}, "checkpoint": "mine"}
    end = Engine(folders, registry=registry).run(prompt, ["out"], comfyrail=options)[-1]
    assert isinstance(end, ExecutionFailed)
    assert (end.checkpoint, end.recoverable) == ("mine", True)
    events = Engine(folders, registry=registry).run(prompt, ["out"], comfyrail=options)
    assert (shown(events), nodes_run(events), len(calls)) == ({"out": 4}, ["1", "out"], 1)
    # It ended well: the next one begins anew.
    Engine(folders, registry=registry).run(prompt, ["out"], comfyrail=options)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("hope", "no policy 'hope'"),
        (5, "policy's name"),
        ({"policy": "retry", "attempts": 0}, "1 to 100"),
        ({"policy": "retry", "pause": -1}, "pause"),
        ({"policy": "retry", "what": 1}, "what"),
        ({"policy": "retry", "then": {"policy": "x"}}, "then"),
        ({"policy": "fallback", "node_type": 3}, "node_type"),
        ({"policy": "fallback"}, "lacks 'value' or 'node_type'"),
        ({"retry": 3}, "lacks the field 'policy'"),
        ({"policy": "retry", "then": "retry"}, "then"),
    ],
)
def test_a_policy_that_is_none_is_refused(raw: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_policy(raw, "here")


def test_a_node_that_hangs_is_left_behind_after_its_timeout(folders: Folders) -> None:
    let_go = threading.Event()
    hang = define_node(
        "Shaky",
        lambda value: let_go.wait(30) and value,
        required={"value": ("INT",)},
        outputs=("INT",),
        timeout=0.2,
    )
    engine = Engine(folders, registry=NodeRegistry([hang, add, show]))
    began = time.monotonic()
    end = run(engine)[-1]
    let_go.set()
    assert time.monotonic() - began < 5
    assert isinstance(end, ExecutionFailed)
    assert (end.kind, end.node_id) == ("timeout", "1")
    assert "0.2 s" in end.message


@pytest.mark.parametrize(
    ("returned", "kind", "said"),
    [
        ((1, 2), "runtime", "returned 2 outputs, its definition has 1"),
        ((), "runtime", "returned 0 outputs"),
    ],
)
def test_the_wrong_number_of_values_is_said(
    folders: Folders, returned: Any, kind: str, said: str
) -> None:
    odd = define_node(
        "Shaky",
        lambda **_: returned,
        required={"value": ("INT",)},
        outputs=("INT",),
    )
    end = run(Engine(folders, registry=NodeRegistry([odd, add, show])))[-1]
    assert isinstance(end, ExecutionFailed)
    assert end.kind == kind
    assert said in end.message


def test_too_little_memory_is_a_resource_error(folders: Folders) -> None:
    def greedy(**_: int) -> int:
        raise MemoryError

    definition = define_node("Shaky", greedy, required={"value": ("INT",)}, outputs=("INT",))
    end = run(Engine(folders, registry=NodeRegistry([definition, add, show])))[-1]
    assert isinstance(end, ExecutionFailed)
    assert (end.kind, end.recoverable) == ("resource", True)
    assert "not enough memory" in end.message


@pytest.mark.parametrize("strategy", ["sequential", "parallel"])
def test_a_node_that_exits_has_failed_and_the_engine_goes_on(
    folders: Folders, strategy: str
) -> None:
    def leave(value: int) -> int:
        sys.exit(value)

    definition = define_node("Shaky", leave, required={"value": ("INT",)}, outputs=("INT",))
    executor = build_executor(NodeRegistry([definition, add, show]), folders)
    try:
        for _ in range(2):
            events: list[Event] = []
            request = ExecutionRequest(PROMPT, ["out"], {"comfyrail": {"strategy": strategy}})
            executor.run(request, events.append, Interrupt())
            end = events[-1]
            assert isinstance(end, ExecutionFailed)
            assert (end.node_id, end.message) == ("1", "The node tried to end the worker (1).")
    finally:
        executor.close()


def test_a_node_can_write_down_where_it_is(folders: Folders) -> None:
    began_at = []

    @node("Long", outputs=("INT",), cacheable=False)
    def long(context: NodeContext) -> int:
        start = context.saved_state or 0
        began_at.append(start)
        for step in range(start, 10):
            context.save_state(step)
            if step == 6 and start == 0:
                raise RuntimeError("cut short")
        return 10

    registry = NodeRegistry([long, show])
    prompt = {"1": made("Long"), "out": made("Show", value=["1", 0])}
    for _ in range(2):
        events = Engine(folders, registry=registry).run(
            prompt, ["out"], comfyrail={"checkpoint": "steps"}
        )
    assert shown(events) == {"out": 10}
    assert began_at == [0, 6]


def test_damaged_and_cut_files_of_a_checkpoint_are_as_if_they_were_not_there(
    folders: Folders,
) -> None:
    shaky, _ = failing(1)
    registry = NodeRegistry([shaky, add, show])
    prompt = {
        **{name: made("Add", a=1, b=number) for number, name in enumerate("abc")},
        "x": made("Add", a=["a", 0], b=["b", 0]),
        "y": made("Add", a=["x", 0], b=["c", 0]),
        "1": made("Shaky", value=["y", 0]),
        "out": made("Show", value=["1", 0]),
    }
    options = {"checkpoint": "torn"}
    Engine(folders, registry=registry).run(prompt, ["out"], comfyrail=options)
    (folder,) = (folders.output.parent / "checkpoints").iterdir()
    journal = folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines()
    journal.write_bytes(b"\n".join([*lines[:-1], b'{"key": 5}', b"nonsense", lines[-1][:10]]))
    victim = folder / json.loads(lines[1])["key"]
    victim.write_bytes(victim.read_bytes()[:-5])
    events = Engine(folders, registry=registry).run(prompt, ["out"], comfyrail=options)
    assert shown(events) == {"out": 6}


def test_one_checkpoint_is_written_by_one_execution_at_a_time(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path, "same")
    with pytest.raises(ConfigurationError, match="Another execution"):
        Checkpoint(tmp_path, "same")
    first.close()
    Checkpoint(tmp_path, "same").close()


KILLED = """
import sys, time
from pathlib import Path
from comfyrail.engine.assembly import build_executor
from comfyrail.engine.definition import NodeResult, define_node
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.registry import NodeRegistry

root = Path(sys.argv[1])
folders = Folders.under(root)
for folder in (folders.input, folders.output, folders.temp):
    folder.mkdir(parents=True, exist_ok=True)

def step(value):
    with (root / "calls").open("a") as calls:
        calls.write(f"{value}\\n")
    time.sleep(0.05)
    return value + 1

nodes = [
    define_node("Step", step, required={"value": ("INT",)}, outputs=("INT",), cacheable=False),
    define_node("Show", lambda value: NodeResult(ui={"value": [value]}),
                required={"value": ("INT",)}, is_output=True),
]
prompt = {"0": {"class_type": "Step", "inputs": {"value": 0}}}
for number in range(1, 40):
    prompt[str(number)] = {"class_type": "Step", "inputs": {"value": [str(number - 1), 0]}}
prompt["out"] = {"class_type": "Show", "inputs": {"value": ["39", 0]}}
executor = build_executor(NodeRegistry(nodes), folders)
request = ExecutionRequest(prompt, ["out"], {"comfyrail": {"checkpoint": "killed"}})
executor.run(request, lambda event: print(event, flush=True), Interrupt())
executor.close()
"""


def test_an_execution_goes_on_after_kill_9(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    command = [sys.executable, str(script), str(tmp_path / "data")]
    calls = tmp_path / "data" / "calls"

    def count() -> int:
        return len(calls.read_text().split()) if calls.exists() else 0

    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: count() >= 12)
        os.kill(process.pid, signal.SIGKILL)
    done = count()
    again = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "value': [40]" in again.stdout
    # The node that was cut short runs again; all before it do not.
    assert [int(line) for line in calls.read_text().split()] == [
        *range(done),
        *range(done - 1, 40),
    ]
