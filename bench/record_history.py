"""Record histories by really running workflows: `python -m bench.record_history engine|comfyui`.

They are kept in tests/planning/data: one encoded ExecutionRecord a line, compressed. The engine's
seconds are those of the processor, so that what else a shared machine does is not in them.
"""

import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from bench.recorded_graphs import Graph, diffusion_graph, picture_graph, workload
from comfyrail.clock import SystemClock
from comfyrail.engine.assembly import build_executor
from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.events import (
    Event,
    ExecutionSucceeded,
    NodeFinished,
    NodesCached,
    NodeStarted,
)
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.planning.analysis import analyse
from comfyrail.planning.records import ExecutionRecord, record_of
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.graph import parse_workflow

DATA = Path(__file__).resolve().parents[1] / "tests" / "planning" / "data"
MODELS = {"random_a.safetensors": 4, "random_b.safetensors": 8}


@dataclass
class Stopwatch:
    """When each node began and how long it took."""

    timer: Callable[[], float]
    began: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float | None] = field(default_factory=dict)
    cached: set[str] = field(default_factory=set)
    succeeded: bool = False

    def start(self, node: str) -> None:
        self.began.setdefault(node, self.timer())

    def stop(self, node: str) -> None:
        if node in self.began:
            self.seconds[node] = self.timer() - self.began[node]

    def observe(self, event: Event) -> None:
        match event:
            case NodesCached(node_ids):
                self.cached.update(node_ids)
            case NodeStarted(node_id):
                self.start(node_id)
            case NodeFinished(node_id):
                self.stop(node_id)
            case ExecutionSucceeded():
                self.succeeded = True
            case _:
                return


def record(
    number: int, graph: Graph, catalog: NodeCatalog, watch: Stopwatch, seconds: float
) -> ExecutionRecord:
    workflow = parse_workflow(graph)
    analysis = analyse(workflow, catalog, {})
    return record_of(
        analysis,
        job_id=str(number),
        device="cpu",
        seconds=seconds,
        finished_at=SystemClock().now(),
        node_seconds=watch.seconds,
        cached=watch.cached,
    )


def engine_history(jobs: int) -> Iterator[ExecutionRecord]:
    """Picture workflows through Comfyrail's engine, in this process."""
    registry = builtin_registry()
    with tempfile.TemporaryDirectory() as folder:
        folders = Folders.under(Path(folder))
        for each in (folders.input, folders.output, folders.temp):
            each.mkdir(parents=True, exist_ok=True)
        catalog = parse_object_info(registry.object_info(folders))
        executor = build_executor(registry, folders)
        for number, graph in enumerate(workload(picture_graph, seed=7, kinds=90, jobs=jobs)):
            watch = Stopwatch(time.process_time)
            began = time.process_time()
            request = ExecutionRequest(graph, ["end"], {})
            executor.run(request, watch.observe, Interrupt())
            if watch.succeeded:  # some random graphs blend batches that do not fit
                yield record(number, graph, catalog, watch, time.process_time() - began)
        executor.close()


@contextmanager
def comfyui() -> Iterator[str]:
    """A real ComfyUI with two small models of random weights."""
    from tests.comfyui_peer import random_checkpoint
    from tests.comfyui_peer.install import installed_peer
    from tests.comfyui_peer.server import ComfyUIServer

    peer = installed_peer()
    if peer is None:
        sys.exit("There is no ComfyUI: run `make test-comfyui` first.")
    server = ComfyUIServer(peer)
    folder = server.base_directory / "models" / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        command = [str(peer.python), random_checkpoint.__file__, str(folder / name)]
        subprocess.run(command, cwd=peer.checkout, env=peer.environment(), check=True)
    with server:
        yield server.url


def comfyui_history(jobs: int) -> Iterator[ExecutionRecord]:
    """Text to picture through a real ComfyUI on the CPU."""
    from websocket import create_connection

    with comfyui() as url, urlopen(url + "/object_info") as reply:
        catalog = parse_object_info(json.load(reply))
        socket = create_connection(url.replace("http", "ws") + "/ws?clientId=recorder")
        make = partial(diffusion_graph, models=list(MODELS))
        for number, graph in enumerate(workload(make, seed=11, kinds=40, jobs=jobs)):
            began = time.perf_counter()
            body = json.dumps({"prompt": graph, "client_id": "recorder"}).encode()
            with urlopen(Request(url + "/prompt", body)) as accepted:
                prompt_id = json.load(accepted)["prompt_id"]
            watch = follow(socket, prompt_id)
            yield record(number, graph, catalog, watch, time.perf_counter() - began)
        socket.close()


def follow(socket: Any, prompt_id: str) -> Stopwatch:
    """Read messages to the end of a prompt. A node ends where the next one begins."""
    watch = Stopwatch(time.perf_counter)
    current: str | None = None
    while True:
        message = socket.recv()
        if not isinstance(message, str):
            continue
        parsed = json.loads(message)
        data = parsed["data"]
        if data.get("prompt_id") != prompt_id:
            continue
        if parsed["type"] == "execution_cached":
            watch.cached.update(data["nodes"])
        elif parsed["type"] == "execution_error":
            raise RuntimeError(message)
        elif parsed["type"] == "executing":
            if current is not None:
                watch.stop(current)
            current = data["node"]
            if current is None:
                return watch
            watch.start(current)


def main(kind: str) -> None:
    histories = {"engine": (engine_history, 600), "comfyui": (comfyui_history, 250)}
    make, jobs = histories[kind]
    target = DATA / f"{kind}.jsonl.gz"
    records = []
    for each in make(jobs):
        records.append(each)
        if len(records) % 50 == 0:
            print(f"{len(records)} of {jobs}", flush=True)
    lines = b"\n".join(each.encode() for each in records)
    target.write_bytes(gzip.compress(lines, mtime=0))
    print(f"{target}: {len(records)} executions, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
