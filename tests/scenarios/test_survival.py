"""What must hold when processes are killed in the middle [4.1, 7.4]."""

import os
import signal
from collections import Counter
from pathlib import Path

from tests.graphs import picture, slow_picture
from tests.processes import server, wait_until, worker


def assert_no_gap(numbers: list[int], first: int = 1) -> None:
    assert numbers == list(range(first, first + len(numbers)))


def test_killed_server_with_200_queued_jobs_ends_each_of_them_once(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=1) as process:
        process.wait_ready()
        running = process.submit(slow_picture(2.0))
        process.wait_for(running, "processing")
        wait_until(lambda: process.execution(running)["last_event"] >= 3)
        queued = [process.submit(picture(color)) for color in range(200)]
        seen_before = process.execution(running)["last_event"]
        process.kill()

        process.start()
        process.wait_ready()
        jobs = [process.wait_for(job_id, limit=60) for job_id in [running, *queued]]

        assert Counter(job["status"] for job in jobs) == {"completed": 201}
        assert all(job["retries"] == 0 for job in jobs)
        assert all(len(job["result"]["outputs"]) == 1 for job in jobs)
        for job_id in [running, *queued[:20], *queued[-20:]]:
            events = process.events(job_id)
            assert_no_gap([event["number"] for event in events])
            ends = [each["type"] for each in events if each["type"] == "execution.completed"]
            assert ends == ["execution.completed"]
        resumed = process.events(running, after=seen_before)
        assert_no_gap([event["number"] for event in resumed], first=seen_before + 1)
        assert resumed[-1]["type"] == "execution.completed"


def test_job_of_a_killed_worker_ends_on_another_once(tmp_path: Path) -> None:
    with (
        server(tmp_path / "data", workers=0, COMFYRAIL_LEASE_SECONDS="2") as process,
        worker(tmp_path / "second") as second,
    ):
        assert process.call("POST", "/v1/workers", {"url": second.url})[0] == 201
        process.wait_ready()
        job_id = process.submit(slow_picture(4.0))
        process.wait_for(job_id, "processing")
        with worker(tmp_path / "third") as third:
            assert process.call("POST", "/v1/workers", {"url": third.url})[0] == 201
            second.kill()
            wait_until(lambda: process.execution(job_id)["attempts"] == 2, limit=40)
            job = process.execution(job_id)
            assert job["worker_id"] == "static-2"
            assert job["retries"] == 1
            job = process.wait_for(job_id, "completed", limit=60)
            types = Counter(event["type"] for event in process.events(job_id))
            assert types["execution.started"] == 2
            assert types["execution.completed"] == 1
            assert len(job["result"]["outputs"]) == 1


def test_killed_local_worker_is_replaced_and_its_job_runs_again(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=1) as process:
        process.wait_ready()
        job_id = process.submit(slow_picture(1.5))
        process.wait_for(job_id, "processing")
        kill_local_worker(process.data)
        job = process.wait_for(job_id, "completed")
        assert (job["attempts"], job["retries"]) == (2, 1)
        _, body = process.call("GET", "/v1/workers")
        assert [each["status"] for each in body["workers"]] == ["idle"]


def test_restarted_server_takes_over_a_job_that_a_remote_worker_still_runs(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=0) as process, worker(tmp_path / "remote") as remote:
        process.call("POST", "/v1/workers", {"url": remote.url})
        process.wait_ready()
        job_id = process.submit(slow_picture(3.0))
        process.wait_for(job_id, "processing")
        wait_until(lambda: remote.call("GET", "/queue")[1]["queue_running"])
        process.kill()
        process.start()
        job = process.wait_for(job_id, "completed")
        assert job["attempts"] == 1
        assert len(remote.call("GET", "/history")[1]) == 1


def test_local_workers_do_not_outlive_a_killed_server(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=2) as process:
        process.wait_ready()
        wait_until(lambda: len(local_worker_pids(process.data)) == 2)
        process.kill()
        wait_until(lambda: not local_worker_pids(process.data))


def local_worker_pids(data: Path) -> list[int]:
    """Processes whose command names a worker folder of this server."""
    marker = str(data.absolute() / "workers")
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if marker in command and state != "Z":
                found.append(int(entry.name))
    return found


def kill_local_worker(data: Path) -> None:
    os.kill(local_worker_pids(data)[0], signal.SIGKILL)
