"""The engine by itself: long chains, fresh and known."""

import asyncio
import math
import tempfile
import time
from pathlib import Path
from typing import Any

from comfyrail.engine.assembly import build_executor
from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.definition import NodeResult, define_node
from comfyrail.engine.events import Event
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.registry import NodeRegistry


def chain(length: int) -> dict[str, Any]:
    size = {"width": 1, "height": 1, "batch_size": 1, "color": 7}
    nodes: dict[str, Any] = {"0": {"class_type": "EmptyImage", "inputs": size}}
    for number in range(1, length):
        nodes[str(number)] = {
            "class_type": "ImageInvert",
            "inputs": {"image": [str(number - 1), 0]},
        }
    nodes["end"] = {"class_type": "PreviewImage", "inputs": {"images": [str(length - 1), 0]}}
    return nodes


async def chains() -> None:
    """ComfyUI 0.7.0 took 740 ms for 200 known nodes and refused 1,200 (docs/architecture.md)."""
    for length in (200, 2000, 10_000):
        with tempfile.TemporaryDirectory() as folder:
            fresh, known = await asyncio.to_thread(run_twice, chain(length), Path(folder))
        a_node = fresh / length * 1000
        print(f"  {length:6} nodes: fresh {fresh:8.1f} ms, {a_node:.0f} µs a node", end="")
        print(f"; known {known:.1f} ms")


async def overhead() -> None:
    """What the engine adds to a node that does nothing, events on (bar: 30 µs a node)."""
    fresh, known = await asyncio.to_thread(least_overhead, 2000, 15)
    print(f"  no-op node: fresh {fresh:.1f} µs, known {known:.1f} µs (least of 15 chains of 2,000)")


def least_overhead(length: int, rounds: int) -> tuple[float, float]:
    nodes = [
        define_node("Noop", lambda value: value, required={"value": ("INT",)}, outputs=("INT",)),
        define_node(
            "Show",
            lambda value: NodeResult(ui={"value": [value]}),
            required={"value": ("INT",)},
            is_output=True,
        ),
    ]
    least = [math.inf, math.inf]
    with tempfile.TemporaryDirectory() as folder:
        executor = build_executor(NodeRegistry(nodes), Folders.under(Path(folder)))
        for seed in range(rounds):
            graph: dict[str, Any] = {"0": {"class_type": "Noop", "inputs": {"value": seed}}}
            for number in range(1, length):
                inputs = {"value": [str(number - 1), 0]}
                graph[str(number)] = {"class_type": "Noop", "inputs": inputs}
            graph["out"] = {"class_type": "Show", "inputs": {"value": [str(length - 1), 0]}}
            request = ExecutionRequest(graph, ["out"], {})
            for turn in range(2):
                events: list[Event] = []
                began = time.perf_counter()
                executor.run(request, events.append, Interrupt())
                taken = (time.perf_counter() - began) / length * 1e6
                least[turn] = min(least[turn], taken)
        executor.close()
    return least[0], least[1]


def run_twice(prompt: dict[str, Any], folder: Path) -> tuple[float, float]:
    folders = Folders.under(folder, None)
    for each in (folders.input, folders.output, folders.temp):
        each.mkdir(parents=True, exist_ok=True)
    executor = build_executor(builtin_registry(), folders)
    request = ExecutionRequest(prompt, ["end"], {})
    times = []
    for _ in range(2):
        events: list[Event] = []
        began = time.perf_counter()
        executor.run(request, events.append, Interrupt())
        times.append((time.perf_counter() - began) * 1000)
        assert events[-1].__class__.__name__ == "ExecutionSucceeded"
    executor.close()
    return times[0], times[1]
