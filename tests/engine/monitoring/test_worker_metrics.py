"""Metrics of real worker processes, scraped as Prometheus would do it."""

import json
import socket
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.cli.ports import free_port
from tests.engine.monitoring.metric_parts import Samples, read_samples, value_of
from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail, server, wait_until

EXECUTIONS = "node_executions_total"


def worker(data: Path, *arguments: str) -> Comfyrail:
    return Comfyrail("worker", "--port", "0", *arguments, data=data)


def scrape(url: str) -> Samples:
    with urlopen(url, timeout=10) as reply:
        assert reply.status == 200
        return read_samples(reply.read().decode())


def served_at(log: str) -> list[str]:
    said = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return [line["url"] for line in said if line["event"] == "metrics_served"]


def run(process: Comfyrail, prompt: Any) -> None:
    status, reply = process.call("POST", "/prompt", {"prompt": prompt})
    assert status == 200, reply
    prompt_id = reply["prompt_id"]
    wait_until(lambda: process.call("GET", f"/history/{prompt_id}")[1])


def config_file(folder: Path, **monitoring: Any) -> str:
    path = folder / "engine.yaml"
    path.write_text(json.dumps({"execution_engine": {"monitoring": monitoring}}))
    return str(path)


def test_a_worker_tells_what_its_nodes_did(tmp_path: Path) -> None:
    port = free_port()
    config = config_file(tmp_path, metrics_port=int(port))
    with worker(tmp_path / "data", "--config", config) as process:
        url = f"http://127.0.0.1:{port}/metrics"
        assert not [name for name, _ in scrape(url) if name == EXECUTIONS]
        for _ in range(3):
            run(process, picture())
        broken = {
            "1": {"class_type": "EmptyImage", "inputs": picture()["1"]["inputs"]},
            "2": {
                "class_type": "ImageCrop",
                "inputs": {"image": ["1", 0], "x": 0, "y": 0, "width": 1, "height": 1},
            },
            "3": {"class_type": "SaveImage", "inputs": {"images": ["2", 0]}},
        }
        broken["3"]["inputs"]["filename_prefix"] = "../../outside"
        run(process, broken)
        samples = scrape(url)
    assert value_of(samples, EXECUTIONS, node_type="ImageInvert", status="completed") == 1
    assert value_of(samples, EXECUTIONS, node_type="SaveImage", status="completed") == 1
    assert value_of(samples, EXECUTIONS, node_type="SaveImage", status="cached") == 2
    assert value_of(samples, EXECUTIONS, node_type="SaveImage", status="failed") == 1
    counted = "node_execution_duration_seconds_count"
    assert value_of(samples, counted, node_type="ImageInvert", status="completed") == 1
    hits = value_of(samples, "cache_hits_total", cache_level="memory")
    assert hits is not None
    assert hits >= 2
    assert value_of(samples, "resource_usage_percent", resource_type="memory_mb")


def test_metrics_answer_while_a_node_runs_and_tell_of_its_end(tmp_path: Path) -> None:
    port = free_port()
    with worker(tmp_path / "data", "--metrics-port", port) as process:
        url = f"http://127.0.0.1:{port}/metrics"
        status, _ = process.call("POST", "/prompt", {"prompt": slow_picture(60)})
        assert status == 200
        wait_until(
            lambda: value_of(scrape(url), EXECUTIONS, node_type="ImageInvert", status="completed")
        )
        began = time.monotonic()
        scrape(url)
        assert time.monotonic() - began < 2
        process.fetch("POST", "/interrupt", {})
        ended = wait_until(
            lambda: value_of(scrape(url), EXECUTIONS, node_type="Delay", status="interrupted")
        )
        assert ended == 1


def test_a_taken_port_is_said_and_the_worker_works(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = config_file(tmp_path, metrics_port=port)
        with worker(tmp_path / "data", "--config", config) as process:
            run(process, picture())
            said = [json.loads(line) for line in process.log.splitlines() if line.startswith("{")]
    (line,) = [line for line in said if line["event"] == "metrics_off"]
    assert f"Port {port} on 127.0.0.1 is in use" in line["reason"]
    assert "monitoring.metrics_port" in line["advice"]


def test_metrics_can_be_switched_off(tmp_path: Path) -> None:
    config = config_file(tmp_path, metrics=False, metrics_port=int(free_port()))
    with worker(tmp_path / "data", "--config", config) as process:
        run(process, picture())
        assert "metrics" not in process.log


def test_workers_of_a_server_have_ports_of_their_own(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with server(data, workers=2) as process:
        process.wait_ready()

        def served() -> list[str]:
            logs = [log.read_text() for log in data.rglob("worker.log")]
            return [url for log in logs for url in served_at(log)]

        urls = wait_until(lambda: served() if len(served()) == 2 else None) or []
        assert len(set(urls)) == 2
        job = process.submit(picture())
        process.wait_for(job, "completed")
        found = [
            value_of(scrape(url), EXECUTIONS, node_type="SaveImage", status="completed")
            for url in urls
        ]
        assert sorted(count or 0 for count in found) == [0, 1]


@pytest.mark.parametrize("port", ["-1", "70000"])
def test_a_port_that_is_none_does_not_stop_a_worker(tmp_path: Path, port: str) -> None:
    with worker(tmp_path / "data", "--metrics-port", port) as process:
        assert "metrics_off" in process.log
