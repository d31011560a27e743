"""A pack of nodes that do not look up when they are interrupted."""

import contextlib
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from comfyrail.engine.definition import NodeDefinition, NodeResult, node

_LEFT: list[Any] = []
"""Programs that are meant to go on."""


def _stuck(name: str, work: Callable[[], None]) -> NodeDefinition:
    @node(
        name,
        required={"mark": ("STRING", {}), "seconds": ("FLOAT", {"default": 60.0})},
        outputs=("INT",),
        category="stuck",
        cacheable=False,
    )
    def run(mark: str, seconds: float) -> int:
        # The test waits until the node is really in there.
        Path(mark).write_text("here")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            work()
        Path(mark).write_text("done")
        return 1

    made: NodeDefinition = run
    return made


def _swallow() -> None:
    with contextlib.suppress(BaseException):
        time.sleep(0.001)


def _loop() -> None:
    sum(range(1000))


def _sleep() -> None:
    time.sleep(60)


def _compute() -> None:
    np.linalg.eigvals(np.random.default_rng(0).random((2500, 2500)))


def _busy_with_processes(name: str, wait: Callable[["subprocess.Popen[bytes]"], Any]) -> Any:
    """A node that has a program at work, which has another one at work: `<mark>` has both numbers.
    The programs hold the worker's standard output.
    """

    @node(
        name,
        required={"mark": ("STRING", {}), "seconds": ("FLOAT", {"default": 60.0})},
        outputs=("INT",),
        category="stuck",
        cacheable=False,
    )
    def run(mark: str, seconds: float) -> int:
        script = 'sleep "$2" & echo $$ $! >"$1.new"; mv "$1.new" "$1"; wait'
        command = ["/bin/sh", "-c", script, "sh", mark, str(seconds)]
        program = subprocess.Popen(command, start_new_session=name == "OwnSession")
        wait(program)
        return program.pid

    return run


def _loop_for_ever(_: "subprocess.Popen[bytes]") -> None:
    while True:
        _loop()


@node("Show", required={"value": ("INT", {})}, outputs=(), category="stuck", is_output=True)
def show(value: int) -> NodeResult:
    return NodeResult((), {"value": [value]})


NODES: list[Any] = [
    _stuck("LoopStuck", _loop),
    _stuck("SleepStuck", _sleep),
    _stuck("ComputeStuck", _compute),
    _stuck("SwallowStuck", _swallow),
    _busy_with_processes("WaitForProgram", lambda program: program.wait()),
    _busy_with_processes("OwnSession", lambda program: program.wait()),
    _busy_with_processes("LoopBesideProgram", _loop_for_ever),
    _busy_with_processes("SleepBesideProgram", lambda _: time.sleep(60)),
    _busy_with_processes("LeaveProgram", _LEFT.append),
    show,
]
