"""A pack of nodes that do not look up when they are interrupted."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from comfyrail.engine.definition import NodeDefinition, NodeResult, node


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


@node("Show", required={"value": ("INT", {})}, outputs=(), category="stuck", is_output=True)
def show(value: int) -> NodeResult:
    return NodeResult((), {"value": [value]})


NODES: list[Any] = [
    _stuck("LoopStuck", _loop),
    _stuck("SleepStuck", _sleep),
    _stuck("ComputeStuck", _compute),
    _stuck("SwallowStuck", _swallow),
    show,
]
