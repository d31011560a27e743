"""The engine by itself: long chains, fresh and known."""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from comfyrail.clock import SystemClock
from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.caching.build import CacheConfig, build_cache
from comfyrail.engine.events import Event
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.executor import Executor
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt


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


def run_twice(prompt: dict[str, Any], folder: Path) -> tuple[float, float]:
    folders = Folders.under(folder, None)
    for each in (folders.input, folders.output, folders.temp):
        each.mkdir(parents=True, exist_ok=True)
    executor = Executor(builtin_registry(), folders, build_cache(CacheConfig()), SystemClock())
    request = ExecutionRequest(prompt, ["end"], {})
    times = []
    for _ in range(2):
        events: list[Event] = []
        began = time.perf_counter()
        executor.run(request, events.append, Interrupt())
        times.append((time.perf_counter() - began) * 1000)
        assert events[-1].__class__.__name__ == "ExecutionSucceeded"
    return times[0], times[1]
