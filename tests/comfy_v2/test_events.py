"""The event stream of the official Comfy API v2 [10.7]."""

import json
import threading
from http.client import HTTPConnection

from comfyrail.api.lasting import MOST_OF_A_TENANT
from tests.comfy_v2 import shapes
from tests.comfy_v2.reading import JOBS, Frame, stream, submit, until
from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail, wait_until


def names(frames: list[Frame]) -> list[str]:
    return [name for name, _, _ in frames]


def words(frames: list[Frame]) -> list[str]:
    return [data["status"] for name, _, data in frames if name == "status"]


def test_stream_tells_the_life_of_a_job_and_ends_with_it(running_server: Comfyrail) -> None:
    frames = stream(running_server, submit(running_server, slow_picture(1.2, color=201))["id"])
    assert frames[0][0] == "status"
    assert words(frames)[-1] == "succeeded"
    assert "running" in words(frames)
    assert names(frames)[-2:] == ["output", "status"]
    values = [data["value"] for name, _, data in frames if name == "progress"]
    assert values == sorted(values)
    assert 2 <= len(values) <= 8  # about two a second, and where something else comes between


def test_stream_of_an_ended_job_is_a_snapshot_with_the_end_last(running_server: Comfyrail) -> None:
    job_id = submit(running_server, picture(202))["id"]
    ended = until(running_server, job_id)
    frames = stream(running_server, job_id)
    assert names(frames) == ["progress", "output", "status"]
    assert frames[1][2] == ended["outputs"][0]
    assert frames[-1][2]["outputs"] == ended["outputs"]


def test_stream_resumes_behind_the_last_id_seen(running_server: Comfyrail) -> None:
    """An addition: the contract has neither ids nor replay."""
    job_id = submit(running_server, picture(203))["id"]
    last = until(running_server, job_id)["comfyrail"]["last_event"]
    whole = stream(running_server, job_id, after=0)
    assert words(whole) == ["queued", "running", "succeeded"]
    seen = [number for _, number, _ in whole if number is not None]
    assert seen == sorted(seen)
    assert seen[-1] == last
    started = next(number for name, number, _ in whole if name == "status" and number != 1)
    assert stream(running_server, job_id, after=started) == whole[whole.index(whole[1]) + 1 :]


def test_stream_resumed_behind_the_end_still_says_how_it_ended(running_server: Comfyrail) -> None:
    job_id = submit(running_server, picture(204))["id"]
    last = until(running_server, job_id)["comfyrail"]["last_event"]
    for after in (last, last + 100):
        assert words(stream(running_server, job_id, after=after)) == ["succeeded"]


def test_cancel_is_seen_in_the_stream(running_server: Comfyrail) -> None:
    job_id = submit(running_server, slow_picture(20, color=205))["id"]
    until(running_server, job_id, "running")
    frames: list[Frame] = []
    reader = threading.Thread(target=lambda: frames.extend(stream(running_server, job_id)))
    reader.start()
    running_server.call("POST", f"{JOBS}/{job_id}/cancel")
    reader.join(30)
    assert words(frames)[-1] == "canceled"


def test_two_readers_see_the_same_end(running_server: Comfyrail) -> None:
    job_id = submit(running_server, slow_picture(0.5, color=206))["id"]
    ends: list[Frame] = []
    readers = [
        threading.Thread(target=lambda: ends.append(stream(running_server, job_id)[-1]))
        for _ in range(2)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(30)
    assert len(ends) == 2
    assert ends[0] == ends[1]


def test_odd_last_event_ids_are_refused(running_server: Comfyrail) -> None:
    job_id = submit(running_server, picture(207))["id"]
    for odd in ("abc", "-1", "9" * 40):
        status, body = running_server.call(
            "GET", f"{JOBS}/{job_id}/events", **{"Last-Event-ID": odd}
        )
        shapes.check_error(status, body, "invalid_request", 422)


def test_streams_of_one_caller_are_limited_and_free_again(running_server: Comfyrail) -> None:
    running_server.call("POST", "/v1/queue/pause", {})
    job_id = submit(running_server, picture(208))["id"]
    path = f"{JOBS}/{job_id}/events"
    host = running_server.url.removeprefix("http://")
    lines = [HTTPConnection(host, timeout=30) for _ in range(MOST_OF_A_TENANT)]
    try:
        for line in lines:
            line.request("GET", path)
        assert {line.getresponse().status for line in lines} == {200}
        status, body, headers = running_server.fetch("GET", path)
        shapes.check_error(status, json.loads(body), "too_many_streams", 429)
        assert int(headers["retry-after"]) > 0
        assert running_server.call("GET", f"{JOBS}/{job_id}")[0] == 200
    finally:
        for line in lines:
            line.close()
        running_server.call("POST", "/v1/queue/resume")

    def is_free() -> bool:
        line = HTTPConnection(host, timeout=30)
        line.request("GET", path)
        status = line.getresponse().status
        line.close()
        return status == 200

    wait_until(is_free)
