"""Jobs of the official Comfy API v2, by hand against a real server [10.7]."""

import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.comfy_v2 import shapes
from tests.comfy_v2.reading import ASSETS, JOBS, show, stream, submit, until
from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail, server, wait_until

NOWHERE = "01890000-0000-7000-8000-000000000000"


def test_job_goes_from_queued_to_succeeded_with_its_output(running_server: Comfyrail) -> None:
    made = submit(running_server, picture(101))
    assert made["status"] in {"queued", "running"}
    job = until(running_server, made["id"])
    assert job["status"] == "succeeded"
    assert job["error"] is None
    assert (job["progress"]["value"], job["progress"]["nodes_done"]) == (1.0, 3)
    assert job["metrics"]["execution_ms"] >= 0
    (output,) = job["outputs"]
    assert (output["node_id"], output["type"], output["content_type"]) == (
        "3",
        "image",
        "image/png",
    )
    assert output["job_id"] == made["id"]
    assert output["url"] == f"{running_server.url}{ASSETS}/{output['id']}/content"


def test_submission_says_where_its_job_is(running_server: Comfyrail) -> None:
    body = json.dumps({"workflow": picture(102)}).encode()
    status, content, headers = running_server.fetch("POST", JOBS, body)
    assert status == 201
    assert headers["location"] == json.loads(content)["urls"]["self"]


def test_running_job_tells_its_node_and_step(running_server: Comfyrail) -> None:
    made = submit(running_server, slow_picture(5, color=103))

    def look() -> dict[str, Any] | None:
        job = show(running_server, made["id"])
        progress = job["progress"]
        return progress if progress and progress["step"] else None

    progress = wait_until(look)
    assert progress is not None
    assert (progress["current_node"], progress["current_node_class"]) == ("9", "Delay")
    assert 1 <= progress["step"] <= progress["steps"]
    assert progress["message"] == f"Delay {progress['step']}/{progress['steps']}"
    assert 0 < progress["value"] < 1


def test_workflow_of_a_job_comes_back_in_api_format(running_server: Comfyrail) -> None:
    graph = picture(104)
    made = submit(running_server, graph)
    status, body = running_server.call("GET", f"{JOBS}/{made['id']}/workflow")
    assert status == 200
    assert body["format"] == "api"
    assert {node: part["inputs"] for node, part in body["workflow"].items()} == {
        node: part["inputs"] for node, part in graph.items()
    }


def test_cancelled_job_is_canceling_and_then_canceled(running_server: Comfyrail) -> None:
    made = submit(running_server, slow_picture(20, color=105))
    until(running_server, made["id"], "running")
    status, body = running_server.call("POST", f"{JOBS}/{made['id']}/cancel")
    assert status == 200
    assert shapes.check(body, shapes.JOB)["status"] in {"canceling", "canceled"}
    assert until(running_server, made["id"])["status"] == "canceled"
    status, body = running_server.call("POST", f"{JOBS}/{made['id']}/cancel")
    assert (status, body["status"]) == (200, "canceled")


def test_cancel_of_an_ended_job_changes_nothing(running_server: Comfyrail) -> None:
    made = submit(running_server, picture(106))
    ended = until(running_server, made["id"])
    status, body = running_server.call("POST", f"{JOBS}/{made['id']}/cancel")
    assert (status, body) == (200, ended)


def test_failed_job_says_why_in_small_letters(running_server: Comfyrail) -> None:
    wishes = {"timeout": 0.5, "max_retries": 0}
    made = submit(running_server, slow_picture(60, color=107), comfyrail=wishes)
    job = until(running_server, made["id"])
    assert (job["status"], job["error"]["code"]) == ("failed", "execution_timeout")
    assert job["error"]["message"]


def test_job_that_no_worker_takes_in_time_is_expired(running_server: Comfyrail) -> None:
    wishes = {"queue_timeout": 0.2, "labels": {"place": "nowhere"}}
    made = submit(running_server, picture(108), comfyrail=wishes)
    job = until(running_server, made["id"])
    assert (job["status"], job["error"]["code"]) == ("expired", "queue_timeout")
    assert stream(running_server, made["id"])[-1][2]["status"] == "expired"


def test_additions_of_ours_are_under_one_name(running_server: Comfyrail) -> None:
    wishes = {"priority": 9, "max_retries": 0, "timeout": 60, "labels": {}}
    job = submit(running_server, picture(109), comfyrail=wishes)
    assert job["comfyrail"]["priority"] == 9
    status, body = running_server.call(
        "POST", JOBS, {"workflow": picture(109), "comfyrail": {"priority": 99}}
    )
    details = shapes.check_error(status, body, "invalid_request", 422)
    assert details["comfyrail_code"] == "INVALID_PRIORITY"


def test_labels_are_kept_and_found_by(running_server: Comfyrail) -> None:
    mine = {"run": f"r-{running_server.url}", "client": "acme"}
    made = [
        submit(running_server, picture(120 + number), metadata={**mine, "n": str(number)})
        for number in range(3)
    ]
    submit(running_server, picture(130), metadata={"client": "acme"})
    assert show(running_server, made[0]["id"])["metadata"] == {**mine, "n": "0"}

    def listed(**wanted: str) -> list[str]:
        query = urlencode({f"metadata[{name}]": value for name, value in wanted.items()})
        found: list[str] = []
        cursor = ""
        while True:
            status, page = running_server.call("GET", f"{JOBS}?{query}&limit=2{cursor}")
            assert status == 200, page
            shapes.check(page, shapes.JOB_LIST)
            assert len(page["jobs"]) <= 2
            found += [job["id"] for job in page["jobs"]]
            if page["next_cursor"] is None:
                return found
            cursor = f"&cursor={page['next_cursor']}"

    assert listed(**mine) == [job["id"] for job in reversed(made)]
    assert listed(**mine, n="1") == [made[1]["id"]]
    assert listed(**mine, n="7") == []


@pytest.mark.parametrize(
    "metadata",
    [{f"k{number}": "" for number in range(17)}, {"": "x"}, {"k" * 65: ""}, {"k": "v" * 257}],
)
def test_labels_without_measure_are_refused(
    running_server: Comfyrail, metadata: dict[str, str]
) -> None:
    body = {"workflow": picture(), "metadata": metadata}
    status, reply = running_server.call("POST", JOBS, body)
    shapes.check_error(status, reply, "metadata_invalid", 422)


def test_list_has_jobs_of_all_doors_page_by_page(running_server: Comfyrail) -> None:
    ids = [running_server.submit(picture(140)), submit(running_server, picture(141))["id"]]
    status, page = running_server.call("GET", f"{JOBS}?limit=2")
    assert status == 200
    shapes.check(page, shapes.JOB_LIST)
    assert [job["id"] for job in page["jobs"]] == ids[::-1]


def test_same_key_and_body_get_the_first_answer_again(running_server: Comfyrail) -> None:
    """An addition: the contract would refuse the second one."""
    key = {"Idempotency_Key": f"comfy-v2-{running_server.url}"}
    first = running_server.call("POST", JOBS, {"workflow": picture(110)}, **key)
    again = running_server.call("POST", JOBS, {"workflow": picture(110)}, **key)
    assert first[0] == again[0] == 201
    assert first[1]["id"] == again[1]["id"]
    status, body = running_server.call("POST", JOBS, {"workflow": picture(111)}, **key)
    shapes.check_error(status, body, "idempotency_key_reuse", 422)


def test_two_requests_with_one_key_at_once_make_one_job(running_server: Comfyrail) -> None:
    answers: list[tuple[int, Any]] = []
    key = {"Idempotency_Key": f"comfy-v2-twice-{running_server.url}"}

    def send() -> None:
        answers.append(running_server.call("POST", JOBS, {"workflow": picture(112)}, **key))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = [body["id"] for status, body in answers if status == 201]
    assert made
    assert len(set(made)) == 1
    for status, body in answers:
        if status != 201:
            shapes.check_error(status, body, "idempotency_key_reuse", 422)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"workflow": {"nodes": [], "links": [], "last_node_id": 0}}, "workflow_format_ui"),
        ({"workflow": {"1": {"class_type": "Nowhere", "inputs": {}}}}, "invalid_workflow"),
        ({"workflow": {}}, "invalid_workflow"),
        ({"workflow": [1]}, "invalid_workflow"),
        ({"workflow": None}, "invalid_workflow"),
        ({"workflow": picture(), "webhook_url": "http://example.com"}, "invalid_request"),
        ({"workflow": picture(), "inputs": None}, "invalid_request"),
        ({"workflow": picture(), "extra_data": {"other": 1}}, "invalid_request"),
        ({"workflow": picture(), "extra_data": {"api_key_comfy_org": 1}}, "invalid_request"),
        ({"workflow": picture(), "comfyrail": {"other": 1}}, "invalid_request"),
        ({}, "invalid_request"),
        ([], "invalid_request"),
        (b"{", "invalid_request"),
        (b"\xff", "invalid_request"),
    ],
)
def test_bad_submissions_are_refused_in_the_contracts_words(
    running_server: Comfyrail, body: Any, code: str
) -> None:
    status, reply = running_server.call("POST", JOBS, body)
    shapes.check_error(status, reply, code, 422)


def test_refused_workflow_says_what_is_wrong_with_each_node(running_server: Comfyrail) -> None:
    graph = picture()
    del graph["2"]["inputs"]["image"]
    status, reply = running_server.call("POST", JOBS, {"workflow": graph})
    details = shapes.check_error(status, reply, "invalid_workflow", 422)
    (fault,) = details["node_errors"]["2"]
    assert (fault["field"], fault["reason"]) == ("image", "missing_required_input")


@pytest.mark.parametrize(
    ("method", "path", "code", "expected"),
    [
        ("GET", f"{JOBS}/{NOWHERE}", "not_found", 404),
        ("GET", f"{JOBS}/{NOWHERE}/workflow", "not_found", 404),
        ("GET", f"{JOBS}/{NOWHERE}/events", "not_found", 404),
        ("POST", f"{JOBS}/{NOWHERE}/cancel", "not_found", 404),
        ("GET", f"{JOBS}/..%2f..%2fx", "not_found", 404),
        ("DELETE", JOBS, "method_not_allowed", 405),
        ("GET", f"{JOBS}?cursor=nonsense", "invalid_cursor", 422),
        ("GET", f"{JOBS}?limit=0", "invalid_request", 422),
        ("GET", f"{JOBS}?metadata[]=x", "invalid_metadata_filter", 422),
    ],
)
def test_what_there_is_not_is_refused_in_the_contracts_words(
    running_server: Comfyrail, method: str, path: str, code: str, expected: int
) -> None:
    status, body = running_server.call(method, path)
    shapes.check_error(status, body, code, expected)


def test_other_content_types_are_refused(running_server: Comfyrail) -> None:
    status, body = running_server.call("POST", JOBS, b"{}", Content_Type="text/plain")
    shapes.check_error(status, body, "unsupported_media_type", 415)


def test_key_for_partner_nodes_is_stored_nowhere(tmp_path: Path) -> None:
    secret = "comfyui-very-secret-key-5f3a"
    with server(tmp_path / "data") as house:
        house.wait_ready()
        made = submit(house, picture(113), extra_data={"api_key_comfy_org": secret})
        assert until(house, made["id"])["status"] == "succeeded"
        _, workflow = house.call("GET", f"{JOBS}/{made['id']}/workflow")
        assert secret not in json.dumps(workflow)
        assert secret not in house.log
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert found
    assert not [path for path in found if secret.encode() in path.read_bytes()]
