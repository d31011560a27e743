"""Nodes that take known times, and an engine whose executions are measured."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from comfyrail.engine.assembly import build_executor
from comfyrail.engine.caching.build import CacheConfig
from comfyrail.engine.configuration import (
    EngineConfiguration,
    ExecutionSection,
    ResourceSection,
)
from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import NodeResult, define_node, node
from comfyrail.engine.events import Event
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.profiling import NodeProfile, ProfileReport, Recorder, profile_execution
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.server.run import prepare_folders
from comfyrail.workflow.catalog import OutputPort
from tests.engine import process_nodes

ANY = ("*",)
IMAGE = ("IMAGE",)
Graph = dict[str, Any]
MEGABYTE = 1 << 20
ROOM = ResourceSection(cpu_cores=8, memory_mb=16384, disk_space_mb=100_000)
"""More than there is: sleeping needs none of it."""


@node("Number", required={"value": ("INT",)}, outputs=("INT",))
def number(value: int) -> int:
    return value


@node("Numbers", required={"count": ("INT",)}, outputs=(OutputPort("INT", "INT", is_list=True),))
def numbers(count: int) -> tuple[list[int]]:
    return (list(range(count)),)


@node("Nap", required={"value": ANY, "seconds": ("FLOAT",)}, outputs=("*",))
def nap(value: Any, seconds: float) -> Any:
    time.sleep(seconds)
    return value


@node("Join", required={"a": ANY, "b": ANY}, outputs=("*",))
def join(a: Any, b: Any) -> Any:
    return [a, b]


@node("Busy", required={"value": ANY, "seconds": ("FLOAT",)}, outputs=("*",))
def busy(value: Any, seconds: float) -> Any:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return value


@node("Doze", required={"value": ANY, "seconds": ("FLOAT",)}, outputs=("*",))
async def doze(value: Any, seconds: float) -> Any:
    await asyncio.sleep(seconds)
    return value


@node("Wait", required={"value": ANY, "seconds": ("FLOAT",)}, outputs=("*",), cacheable=False)
def wait(value: Any, seconds: float, context: NodeContext) -> Any:
    context.sleep(seconds)
    return value


@node("Big", required={"megabytes": ("INT",), "spare": ("INT",)}, outputs=("IMAGE",))
def big(megabytes: int, spare: int) -> Any:
    """Gives so much, and needs `spare` more in between."""
    spared = np.ones(spare * MEGABYTE, np.uint8)
    del spared
    return np.ones((1, megabytes, MEGABYTE // 4, 1), np.float32)


@node("Copy", required={"size": ("INT",)}, outputs=("STRING",))
def copy(size: int, context: NodeContext) -> str:
    path = context.folders.temp / "copied"
    path.write_bytes(b"x" * size)
    return path.read_bytes()[:3].decode()


@node("Fail", required={"value": ANY}, outputs=("INT",))
def fail(value: Any) -> int:
    raise RuntimeError(f"no {value}")


@node("Show", required={"value": ANY}, is_output=True)
def show(value: Any) -> NodeResult:
    return NodeResult(ui={"value": [str(value)[:20]]})


@node("Grow", required={"value": ANY, "seconds": ("FLOAT",)}, outputs=("*",), expands=True)
def grow(value: Any, seconds: float) -> NodeResult:
    """Becomes two naps in a row."""
    del value
    first = {"class_type": "Nap", "inputs": {"value": 1, "seconds": seconds}}
    second = {"class_type": "Nap", "inputs": {"value": ["inner1", 0], "seconds": 2 * seconds}}
    return NodeResult((["inner2", 0],), expand={"inner1": first, "inner2": second})


def _choose(choice: bool, yes: Any = None, no: Any = None) -> Any:
    return yes if choice else no


def _needed(choice: bool, yes: Any = None, no: Any = None) -> list[str]:
    return ["yes"] if choice and yes is None else ["no"] if not choice and no is None else []


choose = define_node(
    "Choose",
    _choose,
    required={"choice": ("BOOLEAN",), "yes": ("*", {"lazy": True}), "no": ("*", {"lazy": True})},
    outputs=("*",),
    check_lazy=_needed,
)


@node("Pictures", required={"seed": ("INT",)}, outputs=IMAGE * 4)
def pictures(seed: int) -> tuple[Any, ...]:
    return tuple(np.full((1, 4, 4, 3), seed + each, np.float32) for each in range(4))


@node("Slow", required={"image": IMAGE}, outputs=IMAGE, batches="image")
def slow(image: Any) -> Any:
    time.sleep(0.12)
    return image * 2


@node("Cheap", required={"value": ANY, "seconds": ("FLOAT",)}, outputs=("*",), is_cheap=True)
def cheap(value: Any, seconds: float) -> Any:
    time.sleep(seconds)
    return value


NODES = [number, numbers, nap, join, busy, doze, wait, big, copy, fail, show, grow, choose]
NODES += [pictures, slow, cheap, process_nodes.process_id]


def at(node_type: str, title: str | None = None, **inputs: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"class_type": node_type, "inputs": inputs}
    return entry if title is None else {**entry, "_meta": {"title": title}}


class Profiled:
    """An engine that is measured."""

    def __init__(self, folder: Path, strategy: str = "sequential", **options: Any) -> None:
        threads = options.pop("threads", 4)
        section = ExecutionSection(strategy=strategy, max_threads=threads)  # type: ignore[arg-type]
        self.recorder = Recorder(options.pop("surroundings", None))
        self.executor = build_executor(
            NodeRegistry([*NODES, *options.pop("nodes", ())]),
            prepare_folders(folder),
            EngineConfiguration(execution=section, resource_management=ROOM),
            cache=CacheConfig(**options) if options else None,
            surroundings=self.recorder.surroundings,
            hooks=[self.recorder],
        )

    def run(
        self,
        prompt: Graph,
        *outputs: str,
        interrupt: Interrupt | None = None,
        emit: Callable[[Event], None] = lambda _: None,
        **asked: Any,
    ) -> ProfileReport:
        extra = {"comfyrail": asked} if asked else {}
        wanted = outputs or tuple(each for each in prompt if prompt[each]["class_type"] == "Show")
        request = ExecutionRequest(prompt, wanted, extra, "run-1")
        return profile_execution(self.executor, self.recorder, request, interrupt, emit)

    def close(self) -> None:
        self.executor.close()
        self.recorder.close()


@contextmanager
def profiled(folder: Path, strategy: str = "sequential", **options: Any) -> Iterator[Profiled]:
    engine = Profiled(folder, strategy, **options)
    try:
        yield engine
    finally:
        engine.close()


def by_id(report: ProfileReport) -> dict[str, NodeProfile]:
    return {node.node_id: node for node in report.nodes}


def two_branches(short: float, long: float) -> Graph:
    """Two naps side by side, and one that needs both."""
    return {
        "n": at("Number", value=1),
        "short": at("Nap", value=["n", 0], seconds=short),
        "long": at("Nap", value=["n", 0], seconds=long),
        "both": at("Join", a=["short", 0], b=["long", 0]),
        "after": at("Nap", value=["both", 0], seconds=short),
        "show": at("Show", value=["after", 0]),
    }
