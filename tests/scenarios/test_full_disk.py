"""Real servers whose disk fills up or goes read-only under them: what was accepted is finished,
once; reads go on; and nobody has to restart anything.
"""

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.graphs import picture, slow_picture
from tests.mounts import (
    break_disk,
    ext4_disk,
    fill,
    make_read_only,
    make_writable,
    mend_disk,
    small_disk,
)
from tests.processes import COMFYRAIL, Comfyrail, server, wait_until, worker

MEGABYTE = 1 << 20
CANNOT_START = 3


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Comfyrail]:
    """A worker whose own disk is well."""
    with worker(tmp_path / "remote") as process:
        yield process


@contextmanager
def serving(disk: Path, remote: Comfyrail) -> Iterator[Comfyrail]:
    with server(disk, workers=0, COMFYRAIL_MIN_FREE_BYTES=str(8 * MEGABYTE)) as process:
        if not process.call("GET", "/v1/workers")[1]["workers"]:
            assert process.call("POST", "/v1/workers", {"url": remote.url})[0] == 201
        yield process.wait_ready()
        assert process.stop() == 0


def submission(color: int) -> tuple[str, str, Any]:
    return "POST", "/v1/workflows/execute", {"workflow": picture(color)}


class Listener:
    """Follows a job's events on one stream from the beginning to the end."""

    def __init__(self, process: Comfyrail, job_id: str) -> None:
        self.events: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._listen, args=(process, job_id), daemon=True)
        self._thread.start()

    def _listen(self, process: Comfyrail, job_id: str) -> None:
        self.events = process.events(job_id)

    def types(self) -> Counter[str]:
        self._thread.join(30)
        numbers = [event["number"] for event in self.events]
        assert numbers == list(range(1, len(numbers) + 1))
        return Counter(event["type"] for event in self.events)


@pytest.mark.parametrize("left", [0, 4 * MEGABYTE])
def test_full_disk_stops_new_work_only_and_everything_goes_on_when_there_is_room(
    tmp_path: Path, remote: Comfyrail, left: int
) -> None:
    with small_disk(tmp_path / "disk", 64) as disk, serving(disk, remote) as process:
        with_key = {"Idempotency_Key": "once"}
        status, accepted = process.call(*submission(1), **with_key)
        assert status == 202
        done = str(accepted["execution_id"])
        process.wait_for(done, "completed")
        running = process.submit(slow_picture(1.5))
        process.wait_for(running, "processing")
        waiting = process.submit(slow_picture(1.0, color=7), not_before=in_seconds(1.0))
        stream = Listener(process, running)

        filler = fill(disk, leaving=left)
        wait_until(lambda: process.call("GET", "/ready")[0] == 507)
        status, refused, headers = fetch(process, *submission(2))
        assert status == 507
        assert refused["error"]["code"] == "STORAGE_FULL"
        assert str(disk) in refused["error"]["message"]
        assert refused["error"]["details"]["free_bytes"] < 8 * MEGABYTE
        assert int(headers["retry-after"]) > 0
        batch = {"workflow": picture(3), "items": [{}, {}]}
        assert process.call("POST", "/v1/batches", batch)[1]["error"]["code"] == "STORAGE_FULL"
        assert_reads(process, done)
        # The same request as before is no new work.
        status, again = process.call(*submission(1), **with_key)
        assert (status, again["execution_id"]) == (202, done)
        if left:
            # What runs can be finished, and nothing more is begun.
            process.wait_for(running, "completed")
            wait_until(lambda: "is full" in str(process.execution(waiting)["waiting_for"]))
        assert process.execution(waiting)["status"] == "queued"

        filler.unlink()
        process.wait_ready()
        process.submit(picture(4))
        for job_id in (running, waiting):
            job = process.wait_for(job_id)
            assert (job["status"], job["attempts"], job["retries"]) == ("completed", 1, 0)
        assert stream.types()["execution.completed"] == 1
        assert process.log.count('"storage_trouble"') == 1
        assert process.log.count('"storage_recovered"') == 1


def test_job_of_a_worker_on_the_same_disk_waits_for_room_and_pays_nothing(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", 64) as disk,
        server(disk, workers=1, COMFYRAIL_MIN_FREE_BYTES=str(8 * MEGABYTE)) as process,
    ):
        process.wait_ready()
        job_id = process.submit(slow_picture(1.5), max_retries=0)
        process.wait_for(job_id, "processing")
        filler = fill(disk, leaving=0)
        wait_until(lambda: process.call("GET", "/ready")[0] == 507)
        wait_until(lambda: "finish_delayed" in process.log)
        filler.unlink()
        job = process.wait_for(job_id, limit=30)
        assert (job["status"], job["retries"]) == ("completed", 0)


def test_result_that_is_ready_is_kept_though_the_disk_is_full_for_longer_than_the_job_may_run(
    tmp_path: Path, remote: Comfyrail
) -> None:
    with small_disk(tmp_path / "disk", 64) as disk, serving(disk, remote) as process:
        job_id = process.submit(slow_picture(1.0), max_retries=0, timeout=2.0)
        process.wait_for(job_id, "processing")
        filler = fill(disk, leaving=0)
        wait_until(lambda: process.call("GET", "/ready")[0] == 507)
        wait_until(lambda: process.log.count("outputs_not_stored") >= 4, pause=0.1)
        filler.unlink()
        job = process.wait_for(job_id)
        assert (job["status"], job["attempts"]) == ("completed", 1)


def test_disk_that_goes_read_only_stops_new_work_only_and_loses_nothing(
    tmp_path: Path, remote: Comfyrail
) -> None:
    with ext4_disk(tmp_path / "disk", 64) as disk:
        with serving(disk, remote) as process:
            done = process.submit(picture(1))
            process.wait_for(done, "completed")
            running = process.submit(slow_picture(1.0))
            process.wait_for(running, "processing")

            break_disk(disk)
            status, refused, headers = fetch(process, *submission(2))
            assert status == 503
            assert refused["error"]["code"] == "STORAGE_READ_ONLY"
            assert str(disk) in refused["error"]["message"]
            assert int(headers["retry-after"]) > 0
            wait_until(lambda: process.call("GET", "/ready")[0] == 503)
            assert_reads(process, done)
        mend_disk(disk)
        with serving(disk, remote) as process:
            job = process.wait_for(running)
            assert (job["status"], job["attempts"]) == ("completed", 1)


def test_log_that_cannot_be_written_does_not_stop_the_loops(
    tmp_path: Path, remote: Comfyrail
) -> None:
    # Its standard error goes to a file beside the data folder.
    with ext4_disk(tmp_path / "disk", 64) as disk, serving(disk / "data", remote) as process:
        done = process.submit(picture(1))
        process.wait_for(done, "completed")
        break_disk(disk)
        for _ in range(3):
            assert process.call(*submission(2))[0] == 503
            assert process.call("GET", "/ready")[0] == 503
        assert_reads(process, done)


def test_server_on_a_disk_that_takes_nothing_says_so_and_does_not_start(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        make_read_only(disk)
        assert "Read-only file system" in refused_start(disk / "data")
        make_writable(disk)
        fill(disk)
        said = refused_start(disk)
        assert "is full" in said
        assert "Free some space there, then start the server again." in said
    with small_disk(tmp_path / "other", 8) as disk:
        with server(disk, workers=0) as process:
            process.call("GET", "/health")
        make_read_only(disk)
        assert "Make it writable" in refused_start(disk)


def refused_start(data: Path) -> str:
    done = subprocess.run(
        [*COMFYRAIL, "serve", "--port", "0", "--workers", "0", "--data", str(data)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == CANNOT_START, done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def assert_reads(process: Comfyrail, done: str) -> None:
    job = process.execution(done)
    assert job["status"] == "completed"
    (output,) = job["result"]["outputs"]
    assert len(process.fetch("GET", output["url"])[1]) == output["size"]
    assert process.events(done)[-1]["type"] == "execution.completed"
    assert process.call("GET", "/v1/workflows/executions")[0] == 200
    assert process.call("GET", "/v1/workers")[0] == 200
    assert process.call("GET", "/health")[0] == 200


def fetch(process: Comfyrail, method: str, path: str, body: Any) -> tuple[int, Any, dict[str, str]]:
    status, content, headers = process.fetch(method, path, body)
    return status, json.loads(content), {name.lower(): value for name, value in headers.items()}


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
