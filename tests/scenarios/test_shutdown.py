"""Stopping a real server [15.2]: jobs are let finish or handed on, none is lost or done twice."""

import json
import signal
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from http.client import HTTPResponse
from pathlib import Path
from socket import create_connection as create_tcp_connection
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from websocket import create_connection

from tests.graphs import picture, slow_picture
from tests.processes import COMFYRAIL, Comfyrail, server, wait_until, worker


def stopped_in(process: Comfyrail, *signals: int) -> float:
    """Seconds from the last signal to the end."""
    for number in signals:
        process.process.send_signal(number)
    begun = time.monotonic()
    until_ended(process)
    return time.monotonic() - begun


def until_ended(process: Comfyrail) -> None:
    process.process.wait(20)
    assert process.stop() == 0, process.log


def job_rows(data: Path) -> dict[str, Any]:
    """Jobs as a stopped server has left them."""
    with sqlite3.connect(data / "comfyrail.db") as connection:
        rows = connection.execute("SELECT id, state, retries FROM jobs").fetchall()
    connection.close()
    return {job_id: (state, retries) for job_id, state, retries in rows}


def refusal(process: Comfyrail) -> str | None:
    status, body = process.call("GET", "/ready")
    return str(body["error"]["code"]) if status == 503 else None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle_server_stops_at_once(tmp_path: Path, number: int) -> None:
    with server(tmp_path / "data", COMFYRAIL_SHUTDOWN_SECONDS="10") as process:
        process.wait_ready()
        assert stopped_in(process, number) < 3
        assert "finishing_jobs" not in process.log


def test_jobs_on_local_workers_are_let_finish_while_all_is_served(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=1, COMFYRAIL_SHUTDOWN_SECONDS="10") as process:
        process.wait_ready()
        running = process.submit(slow_picture(2.0))
        process.wait_for(running, "processing")
        wait_until(lambda: process.execution(running)["progress"] > 0)
        events: list[dict[str, Any]] = []
        stream = threading.Thread(target=lambda: events.extend(process.events(running)))
        stream.start()
        behind = process.submit(picture(2))

        process.process.send_signal(signal.SIGTERM)
        wait_until(lambda: refusal(process) == "SHUTTING_DOWN")
        later = process.submit(picture(3))
        assert process.execution(running)["status"] == "processing"
        stream.join(20)
        until_ended(process)
        assert events[-1]["type"] == "execution.completed"
        assert '"jobs": 1' in process.log
        assert "press Ctrl-C again to stop now" in process.log
        rows = job_rows(process.data)
        assert rows[running] == ("completed", 0)
        assert rows[behind] == rows[later] == ("queued", 0)

        process.start()
        for job_id in (running, behind, later):
            job = process.wait_for(job_id, "completed")
            assert job["retries"] == 0
        assert process.execution(running)["attempts"] == 1


@pytest.mark.parametrize("seconds", ["0", "0.5"])
def test_job_that_does_not_end_in_time_is_back_in_the_queue_without_cost(
    tmp_path: Path, seconds: str
) -> None:
    with server(tmp_path / "data", workers=1, COMFYRAIL_SHUTDOWN_SECONDS=seconds) as process:
        process.wait_ready()
        job_id = process.submit(slow_picture(60.0))
        process.wait_for(job_id, "processing")
        wait_until(lambda: process.execution(job_id)["progress"] > 0)
        assert stopped_in(process, signal.SIGTERM) < 10
        assert job_rows(process.data) == {job_id: ("queued", 0)}


def test_second_signal_ends_the_wait(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=1, COMFYRAIL_SHUTDOWN_SECONDS="600") as process:
        process.wait_ready()
        job_id = process.submit(slow_picture(60.0))
        process.wait_for(job_id, "processing")
        wait_until(lambda: process.execution(job_id)["progress"] > 0)
        process.process.send_signal(signal.SIGINT)
        wait_until(lambda: refusal(process) == "SHUTTING_DOWN")
        assert stopped_in(process, signal.SIGINT) < 10
        assert job_rows(process.data) == {job_id: ("queued", 0)}


def test_second_signal_ends_the_wait_for_a_locked_database_too(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=1, COMFYRAIL_SHUTDOWN_SECONDS="600") as process:
        process.wait_ready()
        job_id = process.submit(slow_picture(60.0))
        process.wait_for(job_id, "processing")
        wait_until(lambda: process.execution(job_id)["progress"] > 0)
        holder = sqlite3.connect(process.data / "comfyrail.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        process.process.send_signal(signal.SIGINT)
        wait_until(lambda: refusal(process) == "SHUTTING_DOWN")
        # A write waits ten seconds for a lock otherwise, and several come one after another.
        assert stopped_in(process, signal.SIGINT) < 8
        holder.close()
        process.start()
        assert process.wait_for(job_id, "processing")["retries"] == 0


def test_terminal_that_is_closed_stops_the_server_as_a_first_signal_does(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=1, COMFYRAIL_SHUTDOWN_SECONDS="600") as process:
        process.wait_ready()
        running = process.submit(slow_picture(2.0))
        process.wait_for(running, "processing")
        # The kernel says it, and the shell says it again.
        for _ in range(3):
            process.process.send_signal(signal.SIGHUP)
            wait_until(lambda: refusal(process) == "SHUTTING_DOWN")
        until_ended(process)
        assert job_rows(process.data) == {running: ("completed", 0)}


def test_server_that_is_to_outlive_its_terminal_does(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what nohup does
    try:
        process = server(tmp_path / "data", workers=0)
        process.start()
    finally:
        signal.signal(signal.SIGHUP, before)
    process.process.send_signal(signal.SIGHUP)
    job_id = process.submit(picture())
    assert process.execution(job_id)["status"] == "queued"
    assert "stopping" not in process.log
    assert process.stop() == 0


def test_upload_that_the_stop_breaks_off_is_answered_as_all_requests_are(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=0) as process:
        address = urlsplit(process.url)
        assert address.hostname
        with create_tcp_connection((address.hostname, address.port), timeout=20) as upload:
            head = f"POST /v1/workflows/execute HTTP/1.1\r\nHost: {address.netloc}\r\n"
            kind = "Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
            upload.sendall((head + kind + "{").encode())
            process.call("GET", "/health")
            stopped_in(process, signal.SIGTERM)
            reply = HTTPResponse(upload)
            reply.begin()
            assert reply.status == 503
            body = json.loads(reply.read())
            assert body["error"]["code"] == "SHUTTING_DOWN"
            assert body["error"]["request_id"] == reply.headers["x-request-id"]
            assert int(reply.headers["retry-after"]) > 0
        assert "Traceback" not in process.log


def test_job_on_a_worker_that_lives_on_is_handed_to_the_next_server(tmp_path: Path) -> None:
    with (
        worker(tmp_path / "remote") as remote,
        server(tmp_path / "data", workers=0, COMFYRAIL_SHUTDOWN_SECONDS="600") as process,
    ):
        assert process.call("POST", "/v1/workers", {"url": remote.url})[0] == 201
        process.wait_ready()
        job_id = process.submit(slow_picture(3.0))
        process.wait_for(job_id, "processing")
        wait_until(lambda: process.execution(job_id)["progress"] > 0)
        assert stopped_in(process, signal.SIGTERM) < 3
        assert job_rows(process.data) == {job_id: ("processing", 0)}
        process.start()
        job = process.wait_for(job_id, "completed")
        assert (job["attempts"], job["retries"]) == (1, 0)
        types = Counter(event["type"] for event in process.events(job_id))
        assert (types["execution.started"], types["execution.completed"]) == (1, 1)


def test_open_streams_are_closed_by_the_server(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=0) as process:
        job_id = process.submit(picture())
        path = f"/v1/workflows/execution/{job_id}"
        socket_url = process.url.replace("http", "ws") + path + "/ws"
        listener = create_connection(socket_url, timeout=20)
        assert json.loads(listener.recv())["type"] == "state"
        with urlopen(process.url + path + "/events", timeout=20) as stream:
            assert b"execution.queued" in stream.readline() + stream.readline()
            assert stopped_in(process, signal.SIGTERM) < 5
            stream.read()  # to its proper end: what breaks off in the middle would raise
        opcode, data = listener.recv_data()
        assert (opcode, int.from_bytes(data[:2])) == (8, 1012)  # closed, for a restart
        assert listener.sock is not None
        listener.sock.close()


def test_signal_during_the_start_breaks_it_off(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=0):
        pass
    holder = sqlite3.connect(tmp_path / "data" / "comfyrail.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")  # the start waits for it
    command = [*COMFYRAIL, "serve", "--port", "0", "--workers", "0"]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen([*command, "--data", str(tmp_path / "data")], stderr=log) as starting,
    ):
        wait_until(lambda: is_held(tmp_path / "data" / "comfyrail.lock", starting.pid))
        starting.send_signal(signal.SIGTERM)
        assert starting.wait(9) == 0  # earlier than the start gives up by itself
    assert "stopped_before_it_was_ready" in (tmp_path / "log").read_text()
    holder.execute("ROLLBACK")
    holder.close()
    with server(tmp_path / "data", workers=0) as process:
        assert process.call("GET", "/health")[0] == 200


def is_held(path: Path, pid: int) -> bool:
    return path.read_text() == str(pid)
