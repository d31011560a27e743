"""How long a remote node takes that does nothing: `python -m tests.engine.distributed.measure`.

By hand, on a quiet machine; starts a broker and workers of its own.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

from tests.engine.distributed.parts import (
    Graph,
    Setup,
    coordinator,
    node,
    outputs_of,
    run,
    shown,
    workers,
)
from tests.services.valkey import valkey

COUNT = 500


def chain(count: int, seed: int) -> Graph:
    """Each node waits for the one before it: how long the way there and back is."""
    graph: Graph = {"0": node("Number", value=seed)}
    for index in range(1, count):
        graph[str(index)] = node("Add", a=[str(index - 1), 0], b=index)
    graph["out"] = node("Show", value=[str(count - 1), 0])
    return graph


def fan(count: int, seed: int) -> Graph:
    """All nodes may run at once: how many pass in a time."""
    graph: Graph = {str(index): node("Number", value=seed * 1000 + index) for index in range(count)}
    for index in range(0, count, count // 4):
        graph[f"out{index}"] = node("Show", value=[str(index), 0])
    return graph


def measure(caching: dict[str, Any], broker: str, folder: Path, count_of_workers: int) -> None:
    setup = Setup(
        folder,
        execution={"optimizer": {"dead_nodes": False}},
        distributed={"broker_url": broker, "queue": f"measure-{folder.name}"},
        caching=caching,
    )
    with workers(setup, count_of_workers), coordinator(setup) as executor:
        for name, make in (("one after the other", chain), ("side by side", fan)):
            shown(run(executor, make(8 * count_of_workers, 1)))
            figures = []
            for seed in (2, 3, 4):
                graph = make(COUNT, seed)
                began = time.perf_counter()
                assert len(shown(run(executor, graph))) == len(outputs_of(graph))
                figures.append((time.perf_counter() - began) * 1000 / COUNT)
            print(f"  {name:20} {min(figures):.2f} ms a node (best of {len(figures)})")


def main() -> None:
    for shared in ("redis", "disk"):
        for count_of_workers in (1, 2):
            with tempfile.TemporaryDirectory() as folder, valkey(Path(folder)) as server:
                cache = {"redis_url": server.url}
                if shared == "disk":
                    cache = {"disk_path": str(Path(folder) / "cache")}
                print(f"{count_of_workers} worker(s), cache in {shared}:")
                measure(cache, server.url, Path(folder), count_of_workers)


if __name__ == "__main__":
    main()
