"""The server as a whole: start, durable submissions, jobs from end to end."""

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.load import send
from tests.processes import Comfyrail, server, wait_until

SUBMISSIONS = 6000
CONNECTIONS = 32
JOBS = 600


def nine_nodes(text: str) -> dict[str, Any]:
    """A workflow of about 2.6 KB with its parameters."""
    nodes: dict[str, Any] = {
        "1": {
            "class_type": "EmptyImage",
            "inputs": {"width": 64, "height": 64, "batch_size": 1, "color": 7},
        }
    }
    for number in range(2, 8):
        nodes[str(number)] = {
            "class_type": "ImageInvert",
            "inputs": {"image": [str(number - 1), 0]},
            "_meta": {"title": f"Invert it for the {number}th time"},
        }
    nodes["8"] = {
        "class_type": "TextOnImage",
        "inputs": {
            "image": ["7", 0],
            "text": text,
            "size": 12,
            "color": "#ffffff",
            "position": "center",
        },
    }
    nodes["9"] = {"class_type": "PreviewImage", "inputs": {"images": ["8", 0]}}
    return nodes


def trivial(color: int) -> dict[str, Any]:
    size = {"width": 64, "height": 64, "batch_size": 1, "color": color}
    return {
        "1": {"class_type": "EmptyImage", "inputs": size},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    }


async def start() -> None:
    """From the command to readiness, and the memory at rest."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        with server(Path(folder) / "data", workers=1) as process:
            listening = time.perf_counter() - began
            process.wait_ready()
            ready = time.perf_counter() - began
            print(f"  listening after {listening:.2f} s, ready after {ready:.2f} s")
            print(f"  server's memory at rest {resident_mib(process):.0f} MiB")


async def submit() -> None:
    """Accepted and fsynced submissions beside an app that does nothing with them."""
    body = json.dumps({"workflow": nine_nodes("x" * 1700)}).encode()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        with server(data, workers=1) as process:
            process.wait_ready()
        # The catalog is known now; without workers nothing but submissions is measured.
        with server(data, workers=0) as process:
            path = process.url + "/v1/workflows/execute"
            own = await send(path, body, connections=CONNECTIONS, count=SUBMISSIONS)
        command = [sys.executable, "-m", "uvicorn", "bench.bare_app:app", "--port", "18977"]
        with subprocess.Popen([*command, "--log-level", "critical"]) as peer:  # noqa: ASYNC220
            await asyncio.to_thread(wait_until, lambda: is_listening(18977))
            bare = await send(
                "http://127.0.0.1:18977/", body, connections=CONNECTIONS, count=SUBMISSIONS
            )
            peer.terminate()
    print(f"  {len(body)} bytes, {CONNECTIONS} connections")
    print(f"  comfyrail, fsync FULL   {own}")
    print(f"  bare uvicorn app        {bare}")
    print(f"  ratio {own.per_second / bare.per_second:.2f}")


async def jobs() -> None:
    """Trivial jobs from submission to stored output: one by one, and a burst."""
    with (
        tempfile.TemporaryDirectory() as folder,
        server(Path(folder) / "data", workers=2) as process,
    ):
        process.wait_ready()
        times = sorted(one_job(process, color) for color in range(60))
        print(f"  one by one: p50 {times[30]:.1f} ms, p99 {times[58]:.1f} ms")
        began = time.perf_counter()
        ids = [process.submit(trivial(1000 + number)) for number in range(JOBS)]
        for job_id in ids:
            process.wait_for(job_id, "completed", limit=120)
        seconds = time.perf_counter() - began
        print(f"  burst of {JOBS} on 2 workers: {JOBS / seconds:.0f} jobs/s")


def one_job(process: Comfyrail, color: int) -> float:
    began = time.perf_counter()
    events = process.events(process.submit(trivial(color)))
    assert events[-1]["type"] == "execution.completed"
    return (time.perf_counter() - began) * 1000


def resident_mib(process: Comfyrail) -> float:
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
