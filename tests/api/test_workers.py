"""Workers by URL [5.2 static]."""

from pathlib import Path

from tests.graphs import picture
from tests.processes import Comfyrail, server, wait_until, worker


def test_local_worker_is_listed_with_what_it_is(running_server: Comfyrail) -> None:
    _, body = running_server.call("GET", "/v1/workers")
    (local,) = (each for each in body["workers"] if each["worker_id"] == "local-1")
    assert (local["driver"], local["device"], local["error"]) == ("local", "cpu", None)
    assert local["node_types"] >= 15


def test_worker_is_added_used_kept_over_a_restart_and_removed(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=0) as process, worker(tmp_path / "w") as remote:
        status, _ = process.call("GET", "/ready")
        assert status == 503
        status, added = process.call("POST", "/v1/workers", {"url": remote.url + "/"})
        assert (status, added["worker_id"], added["driver"]) == (201, "static-1", "static")
        for same in (remote.url.upper(), remote.url.replace("127.0.0.1", "localhost")):
            status, reply = process.call("POST", "/v1/workers", {"url": same})
            assert (status, reply["error"]["code"]) == (409, "WORKER_EXISTS")
        job = process.wait_for(process.submit(picture()), "completed")
        assert job["worker_id"] == "static-1"
        assert process.stop() == 0

        process.start()
        process.wait_ready()
        job = process.wait_for(process.submit(picture(5)), "completed")
        assert job["worker_id"] == "static-1"
        assert process.call("DELETE", "/v1/workers/static-1")[0] == 204
        assert process.call("GET", "/v1/workers")[1] == {"workers": []}


def test_jobs_wait_while_there_is_no_worker_and_run_when_one_comes(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=0) as process:
        waiting = process.submit(picture())
        assert process.execution(waiting)["status"] == "queued"
        with worker(tmp_path / "w") as remote:
            process.call("POST", "/v1/workers", {"url": remote.url})
            process.wait_for(waiting, "completed")


def test_address_where_no_worker_answers_is_refused_and_not_kept(
    running_server: Comfyrail,
) -> None:
    for url, code in (
        ("http://127.0.0.1:1", "WORKER_UNREACHABLE"),
        ("http://no-such-host.invalid:8188", "WORKER_UNREACHABLE"),
        (running_server.url, "WORKER_PROTOCOL_ERROR"),
        ("ftp://127.0.0.1:1", "INVALID_WORKER_URL"),
        ("http://user:secret@127.0.0.1:1", "INVALID_WORKER_URL"),
        ("http://127.0.0.1:99999", "INVALID_WORKER_URL"),
        ("", "INVALID_WORKER_URL"),
        (f"http://{'a' * 300}.example:1", "WORKER_UNREACHABLE"),
        ("http://[", "INVALID_WORKER_URL"),
    ):
        status, reply = running_server.call("POST", "/v1/workers", {"url": url})
        assert (status, reply["error"]["code"]) == (422, code), (url, reply)
    _, body = running_server.call("GET", "/v1/workers")
    assert [each["worker_id"] for each in body["workers"]] == ["local-1"]


def test_worker_that_goes_away_is_unhealthy_and_comes_back(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=0) as process:
        remote = worker(tmp_path / "w")
        with remote:
            process.call("POST", "/v1/workers", {"url": remote.url})
            process.wait_ready()

        def status() -> str:
            return str(process.call("GET", "/v1/workers")[1]["workers"][0]["status"])

        wait_until(lambda: status() == "unhealthy")
        assert process.call("GET", "/ready")[0] == 503
        port = remote.url.rpartition(":")[2]
        again = Comfyrail("worker", "--port", port, data=tmp_path / "w")
        with again:
            wait_until(lambda: status() == "idle")
