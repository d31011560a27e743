"""An agent in a network of its own, into which nobody can connect [5.7].

Two network namespaces joined by one cable. In the agent's, everything that somebody else begins is
dropped; the server's has no other way to it.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.graphs import slow_picture
from tests.processes import COMFYRAIL, wait_until

SERVER, AGENT, PORT = "10.213.77.1", "10.213.77.2", 8081
TOKEN = "a-token-that-nobody-guesses"
RULES = """
table inet filter {
    chain input {
        type filter hook input priority 0; policy drop;
        iif lo accept
        ct state established,related accept
    }
}
"""


@dataclass(frozen=True)
class Networks:
    server: str
    agent: str


@pytest.fixture
def networks() -> Iterator[Networks]:
    reason = why_not()
    if reason:
        pytest.skip(f"AGENT NOT TRIED ACROSS NETWORK NAMESPACES: {reason}")
    names = Networks(f"crs{os.getpid()}", f"cra{os.getpid()}")
    with ExitStack() as clean_up:
        for name in (names.server, names.agent):
            run("ip", "netns", "add", name)
            clean_up.callback(run, "ip", "netns", "del", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        cable = ("ip", "-n", names.server, "link", "add", "cable", "type", "veth", "peer", "cable")
        run(*cable, "netns", names.agent)
        for name, address in ((names.server, SERVER), (names.agent, AGENT)):
            run("ip", "-n", name, "address", "add", f"{address}/30", "dev", "cable")
            run("ip", "-n", name, "link", "set", "cable", "up")
        run("ip", "netns", "exec", names.agent, "nft", "-f", "-", given=RULES)
        yield names


def why_not() -> str | None:
    for tool in ("ip", "nft"):
        if shutil.which(tool) is None:
            return f"there is no program {tool} here"
    name = f"crp{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if tried.returncode:
        return f"no network namespace can be made: {tried.stderr.decode().strip()}"
    listed = ["ip", "netns", "exec", name, "nft", "list", "ruleset"]
    filtered = subprocess.run(listed, capture_output=True, check=False)
    run("ip", "netns", "del", name)
    return filtered.stderr.decode().strip() or "nft failed" if filtered.returncode else None


def run(*command: str, given: str = "") -> None:
    subprocess.run(command, input=given.encode(), check=True, capture_output=True)


@contextmanager
def running(
    network: str, command: list[str], log: Path, **environment: str
) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as errors:
        process = subprocess.Popen(
            ["ip", "netns", "exec", network, *command],
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **environment},
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)
            assert process.stdout is not None
            process.stdout.close()


def read_line(process: "subprocess.Popen[bytes]", log: Path) -> dict[str, object]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, log.read_text()[-2000:]
    found: dict[str, object] = json.loads(line)
    return found


def reaches(network: str, address: str, port: int) -> bool:
    program = f"import socket; socket.create_connection(({address!r}, {port}), 0.5)"
    command = ["ip", "netns", "exec", network, sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_server_gains_a_worker_that_dials_in_and_a_job_outlives_its_agent(
    networks: Networks, tmp_path: Path
) -> None:
    """The whole product: a job runs on in its ComfyUI while the agent is killed and comes back."""
    serve = [*COMFYRAIL, "serve", "--data", str(tmp_path / "data"), "--port", "8080", "--announce"]
    serve += ["--workers", "0", "--agent-host", SERVER, "--agent-port", str(PORT)]
    worker = [*COMFYRAIL, "worker", "--host", "0.0.0.0", "--port", "8188", "--announce"]
    worker += ["--data", str(tmp_path / "worker"), "--metrics-port", "0"]
    agent = [*COMFYRAIL, "agent", "--server", f"http://{SERVER}:{PORT}"]
    agent += ["--comfyui", "http://127.0.0.1:8188", "--name", "cellar"]
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps(slow_picture(3.0)))
    run_it = ["run", str(graph), "--server", "http://127.0.0.1:8080", "-o", str(tmp_path / "out")]
    logs = {name: tmp_path / f"{name}.log" for name in ("serve", "worker", "agent", "again", "run")}
    with (
        running(networks.server, serve, logs["serve"], COMFYRAIL_AGENT_TOKEN=TOKEN) as serving,
        running(networks.agent, worker, logs["worker"]) as working,
    ):
        read_line(serving, logs["serve"])
        read_line(working, logs["worker"])
        assert not reaches(networks.server, AGENT, 8188)
        assert reaches(networks.agent, SERVER, PORT)
        with running(networks.agent, agent, logs["agent"], COMFYRAIL_AGENT_TOKEN=TOKEN) as first:
            wait_until(lambda: status_of(networks.server, "agent-cellar") == "idle", limit=40)
            with running(networks.server, [*COMFYRAIL, *run_it], logs["run"]) as job:
                wait_until(lambda: status_of(networks.server, "agent-cellar") == "busy", limit=40)
                first.kill()
                first.wait()
                with running(
                    networks.agent, agent, logs["again"], COMFYRAIL_AGENT_TOKEN=TOKEN
                ) as second:
                    assert job.wait(60) == 0, logs["run"].read_text()[-2000:]
                    assert second.poll() is None
        assert len(list((tmp_path / "worker" / "output").glob("*.png"))) == 1
        assert len(list((tmp_path / "out").glob("*.png"))) == 1
        said = " ".join(logs["again"].read_text().split())
        assert f"Connected to http://{SERVER}:{PORT} as cellar" in said
        assert "crosses the network unprotected" in said
        assert TOKEN not in said + logs["serve"].read_text()


def status_of(network: str, worker_id: str) -> str | None:
    """As the server in that network tells it."""
    program = "import urllib.request as u; print(u.urlopen(%r).read().decode())"
    command = ["ip", "netns", "exec", network, sys.executable, "-S", "-c"]
    command.append(program % "http://127.0.0.1:8080/v1/workers")
    told = subprocess.run(command, capture_output=True, check=True).stdout
    found = {worker["worker_id"]: worker["status"] for worker in json.loads(told)["workers"]}
    return found.get(worker_id)
