"""Figures of the executor: its pool, its memory, its cache."""

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from comfyrail.engine.assembly import build_executor
from comfyrail.engine.caching.build import CacheConfig
from comfyrail.engine.configuration import EngineConfiguration, ResourceSection
from comfyrail.engine.definition import node
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.executor import Executor
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.monitoring import process_usage
from comfyrail.engine.monitoring.engine_metrics import EngineMetrics
from comfyrail.engine.monitoring.node_metrics import NodeMetrics
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.resources.needs import ResourceNeeds
from comfyrail.engine.server.run import prepare_folders
from tests.engine.monitoring.metric_parts import (
    NODES,
    Samples,
    exposed,
    read_samples,
    value_of,
)

holding = threading.Event()
may_end = threading.Event()


@node("Hold", required={"value": ("INT",)}, outputs=("INT",), needs=ResourceNeeds(cpu_cores=1))
def hold(value: int) -> int:
    holding.set()
    may_end.wait(20)
    return value


@node("Big", required={"value": ("INT",)}, outputs=("IMAGE",))
def big(value: int) -> Any:
    return np.full((1, 512, 512, 3), value, np.float32)


class Watched:
    def __init__(self, folder: Path, configuration: EngineConfiguration, **cache: Any) -> None:
        registry = NodeRegistry([*NODES, hold, big])
        self.nodes = NodeMetrics(registry)
        self.executor: Executor = build_executor(
            registry,
            prepare_folders(folder),
            configuration,
            cache=CacheConfig(**cache) if cache else None,
            hooks=[self.nodes],
        )
        self.metrics = EngineMetrics(self.executor, self.nodes)

    def run(self, prompt: dict[str, Any], strategy: str = "sequential") -> None:
        outputs = [each for each in prompt if prompt[each]["class_type"] == "Show"]
        asked = {"comfyrail": {"strategy": strategy}}
        request = ExecutionRequest(prompt, outputs, asked)
        self.executor.run(request, lambda _: None, Interrupt())

    def samples(self) -> Samples:
        return read_samples(exposed(self.metrics))


def through(node_type: str, value: int = 1) -> dict[str, Any]:
    return {
        "1": {"class_type": "Number", "inputs": {"value": value}},
        "2": {"class_type": node_type, "inputs": {"value": ["1", 0]}},
        "3": {"class_type": "Show", "inputs": {"value": ["2", 0]}},
    }


def test_resources_are_those_of_the_pool_where_there_is_one(tmp_path: Path) -> None:
    section = ResourceSection(cpu_cores=4, memory_mb=2048)
    watched = Watched(tmp_path, EngineConfiguration(resource_management=section))
    holding.clear()
    may_end.clear()
    thread = threading.Thread(target=watched.run, args=(through("Hold"), "parallel"))
    thread.start()
    assert holding.wait(10)
    held = watched.samples()
    may_end.set()
    thread.join()
    percent = "resource_usage_percent"
    assert value_of(held, percent, resource_type="cpu_cores") == 25
    assert value_of(held, percent, resource_type="memory_mb") == 25
    assert value_of(held, percent, resource_type="gpu_count") == 0
    assert value_of(watched.samples(), percent, resource_type="cpu_cores") == 0
    watched.executor.close()


def test_resources_are_those_of_the_process_where_no_pool_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_usage, "SHORTEST_SPAN_SECONDS", 0.05)
    watched = Watched(tmp_path, EngineConfiguration())
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        pass
    samples = watched.samples()
    percent = "resource_usage_percent"
    busy = value_of(samples, percent, resource_type="cpu_cores")
    memory = value_of(samples, percent, resource_type="memory_mb")
    disk = value_of(samples, percent, resource_type="disk_space_mb")
    assert busy is not None
    assert memory is not None
    assert disk is not None
    assert 5 < busy <= 110
    assert 0 < memory < 100
    assert 0 < disk <= 100
    assert value_of(samples, "memory_pressure_ratio") == pytest.approx(memory / 100, rel=0.2)
    watched.executor.close()


def test_memory_pressure_is_that_of_the_limit_where_one_is_set(tmp_path: Path) -> None:
    section = ResourceSection(memory_limit_mb=12)
    watched = Watched(tmp_path, EngineConfiguration(resource_management=section))
    assert value_of(watched.samples(), "memory_pressure_ratio") == 0
    watched.run(through("Big"))
    # 3 MiB in the cache.
    assert value_of(watched.samples(), "memory_pressure_ratio") == pytest.approx(0.25, rel=0.05)
    watched.executor.close()


def test_hits_and_misses_of_every_level_are_counted(tmp_path: Path) -> None:
    places = {"disk_path": tmp_path / "cache"}
    first = Watched(tmp_path / "first", EngineConfiguration(), **places)
    first.run(through("Big"))
    samples = first.samples()
    for level in ("memory", "disk"):
        assert value_of(samples, "cache_misses_total", cache_level=level) == 3
        assert value_of(samples, "cache_hits_total", cache_level=level) == 0
    first.executor.close()

    second = Watched(tmp_path / "second", EngineConfiguration(), **places)
    second.run(through("Big"))
    samples = second.samples()
    assert value_of(samples, "cache_hits_total", cache_level="disk") == 1
    assert value_of(samples, "cache_misses_total", cache_level="memory") == 1
    second.run(through("Big"))
    samples = second.samples()
    assert value_of(samples, "cache_hits_total", cache_level="memory") == 1
    assert value_of(samples, "cache_hits_total", cache_level="disk") == 1
    second.executor.close()


def test_counts_go_on_when_the_cache_is_emptied(tmp_path: Path) -> None:
    watched = Watched(tmp_path, EngineConfiguration())
    seen = []
    for _ in range(3):
        watched.run(through("Big"))
        watched.run(through("Big"))
        samples = watched.samples()
        seen.append(
            (
                value_of(samples, "cache_hits_total", cache_level="memory"),
                value_of(samples, "cache_misses_total", cache_level="memory"),
            )
        )
        watched.executor.free(unload_models=False, free_memory=True)
        entries = value_of(watched.samples(), "cache_entries", cache_level="memory")
        assert entries == 0
    assert seen == [(1, 3), (2, 6), (3, 9)]
    watched.executor.close()
