"""The RunPod-shaped surface over real HTTP [10.7]."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.graphs import Graph, picture, slow_picture
from tests.processes import Comfyrail, server, wait_until

NOWHERE = "01890000-0000-7000-8000-000000000000"


def loading(name: str) -> Graph:
    return {
        "1": {"class_type": "LoadImage", "inputs": {"image": name}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "in"}},
    }


def png(color: tuple[int, int, int]) -> str:
    file = io.BytesIO()
    Image.new("RGB", (8, 6), color).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def opened(image: Any) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(image["data"]))).convert("RGB")


def run(house: Comfyrail, graph: Graph, path: str = "/run", **more: Any) -> Any:
    status, body = house.call("POST", path, {"input": {"workflow": graph}, **more})
    assert status == 200, body
    return body


def wait_status(house: Comfyrail, job_id: str, *statuses: str) -> Any:
    def look() -> Any:
        body = house.call("GET", f"/status/{job_id}")[1]
        return body if body["status"] in statuses else None

    return wait_until(look)


def test_run_is_queued_and_its_status_ends_with_the_picture(running_server: Comfyrail) -> None:
    body = run(running_server, picture(11))
    assert set(body) == {"id", "status"}
    assert body["status"] == "IN_QUEUE"
    done = wait_status(running_server, body["id"], "COMPLETED")
    assert set(done) == {"id", "status", "delayTime", "executionTime", "workerId", "output"}
    assert done["delayTime"] >= 0
    assert done["executionTime"] >= 0
    (image,) = done["output"]["images"]
    assert set(image) == {"filename", "type", "data"}
    assert image["type"] == "base64"
    assert opened(image).size == (64, 48)
    assert running_server.call("POST", f"/status/{body['id']}")[1] == done


@pytest.mark.parametrize("path", ["/runsync", "/runpod/my-endpoint/runsync"])
def test_runsync_waits_for_the_result(running_server: Comfyrail, path: str) -> None:
    done = run(running_server, picture(12), path)
    assert done["status"] == "COMPLETED"
    assert len(done["output"]["images"]) == 1


def test_runsync_answers_when_the_wait_is_over(running_server: Comfyrail) -> None:
    body = run(running_server, slow_picture(30), "/runsync?wait=1000")
    assert body["status"] in {"IN_QUEUE", "IN_PROGRESS"}
    assert "output" not in body
    assert running_server.call("POST", f"/cancel/{body['id']}")[1]["status"] == "CANCELLED"


def test_images_that_come_along_are_what_the_workflow_loads(running_server: Comfyrail) -> None:
    for color in ((255, 0, 0), (0, 0, 255)):  # the same name twice, with other bytes
        given = {
            "workflow": loading("cat.png"),
            "images": [{"name": "cat.png", "image": f"data:image/png;base64,{png(color)}"}],
        }
        status, done = running_server.call("POST", "/runsync", {"input": given})
        assert (status, done["status"]) == (200, "COMPLETED"), done
        assert opened(done["output"]["images"][0]).getpixel((3, 3)) == color


def test_output_config_beside_the_input_is_heeded(running_server: Comfyrail) -> None:
    done = run(running_server, picture(13), "/runsync", output_config={"format": "webp"})
    (image,) = done["output"]["images"]
    assert image["filename"].endswith(".webp")
    assert base64.b64decode(image["data"])[8:12] == b"WEBP"


def test_empty_webhook_is_refused_by_its_own_name(running_server: Comfyrail) -> None:
    given = {"input": {"workflow": picture(14)}, "webhook": ""}
    status, body = running_server.call("POST", "/run", given)
    assert status == 400
    assert "webhook has 1 to" in str(body)


def test_large_outputs_are_given_as_urls(running_server: Comfyrail) -> None:
    noise = picture(7, 2200, 2200)
    inputs = {"image": ["1", 0], "seed": 3, "strength": 1.0}
    noise["2"] = {"class_type": "ImageAddNoise", "inputs": inputs}
    (image,) = run(running_server, noise, "/runsync")["output"]["images"]
    assert image["type"] == "url"
    assert image["data"].startswith(running_server.url)
    content = running_server.fetch("GET", image["data"].removeprefix(running_server.url))[1]
    assert Image.open(io.BytesIO(content)).size == (2200, 2200)


def test_stream_gives_every_event_once_and_the_output_at_the_end(
    running_server: Comfyrail,
) -> None:
    job_id = run(running_server, picture(13))["id"]
    parts: list[Any] = []

    def look() -> bool:
        body = running_server.call("GET", f"/stream/{job_id}")[1]
        parts.extend(part["output"] for part in body["stream"])
        return body["status"] == "COMPLETED" and not body["stream"]

    wait_until(look)
    numbers = [part["number"] for part in parts if "number" in part]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1
    assert parts[0]["event"] == "queued"
    assert [part for part in parts if "images" in part] == [parts[-1]]
    again = running_server.call("GET", f"/stream/{job_id}?after=0")[1]
    assert len(again["stream"]) == len(parts)


def test_cancel_ends_a_running_job_and_tells_of_an_ended_one(running_server: Comfyrail) -> None:
    job_id = run(running_server, slow_picture(30))["id"]
    wait_status(running_server, job_id, "IN_PROGRESS")
    running_server.call("POST", f"/cancel/{job_id}")
    wait_status(running_server, job_id, "CANCELLED")
    done = run(running_server, picture(14), "/runsync")["id"]
    assert running_server.call("POST", f"/cancel/{done}") == (
        200,
        {"id": done, "status": "COMPLETED"},
    )


def test_policy_sets_timeout_patience_and_priority(running_server: Comfyrail) -> None:
    policy = {"executionTimeout": 500, "ttl": 60_000, "lowPriority": True}
    body = run(running_server, slow_picture(30), policy=policy)
    job = running_server.execution(body["id"])
    assert (job["timeout"], job["priority"]) == (0.5, 2)
    running_server.call("POST", f"/cancel/{body['id']}")


def test_job_that_takes_too_long_is_timed_out(tmp_path: Path) -> None:
    with server(tmp_path / "data", COMFYRAIL_MAX_RETRIES="0") as house:
        house.wait_ready()
        job_id = run(house, slow_picture(30), policy={"executionTimeout": 300})["id"]
        assert wait_status(house, job_id, "TIMED_OUT")["error"]


def test_health_counts_jobs_and_workers_in_runpods_words(running_server: Comfyrail) -> None:
    run(running_server, picture(15), "/runsync")
    status, body = running_server.call("GET", "/runpod/any/health")
    assert status == 200
    assert set(body["jobs"]) == {"completed", "failed", "inProgress", "inQueue", "retried"}
    assert body["jobs"]["completed"] >= 1
    assert body["workers"]["ready"] == 1
    assert set(running_server.call("GET", "/health")[1]) == {"status", "version"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, 400),
        ({"input": 5}, 400),
        ({"input": {"workflow": picture(), "odd": 1}}, 400),
        ({"input": {}}, 400),
        ({"input": {"workflow": {"1": {"class_type": "Odd"}}}}, 422),
        ({"input": {"workflow": picture()}, "webhook": "http://127.0.0.1/"}, 422),
        ({"input": {"workflow": picture()}, "s3Config": {}}, 422),
        ({"input": {"workflow": picture()}, "policy": {"executionTimeout": -1}}, 400),
        ({"input": {"workflow": picture()}, "policy": {"ttl": "soon"}}, 400),
        ({"input": {"workflow": picture(), "images": [{"name": "a.png", "image": "%%"}]}}, 400),
        ({"input": {"workflow": picture(), "images": [{"name": "a.png"}]}}, 400),
        (
            {"input": {"workflow": picture(), "images": [{"name": "../a.png", "image": "aaaa"}]}},
            400,
        ),
        (
            {
                "input": {
                    "workflow": picture(),
                    "images": [{"name": f"{n}.png", "image": "aaaa"} for n in range(101)],
                }
            },
            400,
        ),
    ],
)
def test_requests_that_are_wrong_are_refused_in_runpods_way(
    running_server: Comfyrail, body: Any, expected: int
) -> None:
    for path in ("/run", "/runpod/x/run"):
        status, reply = running_server.call("POST", path, body)
        assert status == expected, reply
        assert isinstance(reply["error"], str)
        assert reply["detail"]["code"]


def test_huge_bodies_are_refused(running_server: Comfyrail) -> None:
    image = "A" * (21 << 20)
    body = {"input": {"workflow": picture(), "images": [{"name": "a.png", "image": image}]}}
    content = json.dumps(body).encode()
    try:
        status, reply = running_server.call("POST", "/run", content)
    except (ConnectionError, OSError):
        return  # it closed the line before all had been sent
    assert (status, reply["detail"]["code"]) == (413, "PAYLOAD_TOO_LARGE")


def test_key_for_paid_nodes_is_kept_nowhere(running_server: Comfyrail) -> None:
    secret = "comfyui-very-secret-key"
    given = {"workflow": picture(16), "comfy_org_api_key": secret}
    status, body = running_server.call("POST", "/runsync", {"input": given})
    assert (status, body["status"]) == (200, "COMPLETED")
    kept = b"".join(path.read_bytes() for path in running_server.data.glob("comfyrail.db*"))
    assert secret.encode() not in kept
    assert secret not in running_server.log


def test_unknown_ids_are_404_with_a_text(running_server: Comfyrail) -> None:
    for method, path in (("GET", "status"), ("GET", "stream"), ("POST", "cancel")):
        status, body = running_server.call(method, f"/{path}/{NOWHERE}")
        assert (status, body["detail"]["code"]) == (404, "EXECUTION_NOT_FOUND")
        assert isinstance(body["error"], str)
