"""The task API over real HTTP [10.3]."""

from typing import Any

import pytest

from tests.access.gate_parts import gated_server, new_user, token
from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail, wait_until

NOWHERE = "01890000-0000-7000-8000-000000000000"


def add_task(server: Comfyrail, payload: Any, workflow_id: str = "label", **more: Any) -> Any:
    body = {"workflow_id": workflow_id, "payload": payload, **more}
    status, reply = server.call("POST", "/api/v1/tasks", body)
    assert status == 201, reply
    return reply


def wait_task(server: Comfyrail, task_id: str, *statuses: str) -> Any:
    def look() -> Any:
        status, task = server.call("GET", f"/api/v1/tasks/{task_id}")
        assert status == 200, task
        return task if task["status"] in statuses else None

    return wait_until(look)


def test_task_goes_from_pending_to_completed_with_its_result(running_server: Comfyrail) -> None:
    payload = {"workflow": picture(9)}
    reply = add_task(running_server, payload, priority=7)
    assert set(reply) == {"id", "workflow_id", "status", "created_at"}
    assert (reply["workflow_id"], reply["status"]) == ("label", "pending")
    task = wait_task(running_server, reply["id"], "completed")
    assert set(task) == {
        "id",
        "workflow_id",
        "priority",
        "status",
        "payload",
        "worker_id",
        "created_at",
        "started_at",
        "completed_at",
        "result",
        "error",
        "retry_count",
        "max_retries",
    }
    assert (task["priority"], task["payload"], task["retry_count"]) == (7, payload, 0)
    assert task["worker_id"] == "local-1"
    assert task["created_at"] <= task["started_at"] <= task["completed_at"]
    (output,) = task["result"]["outputs"]
    status, content, _ = running_server.fetch("GET", output["url"])
    assert status == 200
    assert content.startswith(b"\x89PNG")


def test_task_of_a_library_workflow_takes_its_values_from_the_payload(
    running_server: Comfyrail,
) -> None:
    saved = {"workflow": picture(1)}
    assert running_server.call("PUT", "/v1/workflows/for-tasks", saved)[0] in {200, 201}
    for payload in ({"1.width": 40}, {"input_params": {"1.width": 40}}):
        reply = add_task(running_server, payload, "for-tasks")
        task = wait_task(running_server, reply["id"], "completed")
        assert task["workflow_id"] == "for-tasks"
        assert task["payload"] == payload
        (output,) = task["result"]["outputs"]
        content = running_server.fetch("GET", output["url"])[1]
        assert int.from_bytes(content[16:20], "big") == 40


def test_pending_and_running_tasks_can_be_deleted_and_ended_ones_not(
    running_server: Comfyrail,
) -> None:
    running = add_task(running_server, {"workflow": slow_picture(30)})["id"]
    wait_task(running_server, running, "running")
    waiting = add_task(running_server, {"workflow": slow_picture(31)})["id"]
    for task_id in (waiting, running):
        assert running_server.call("DELETE", f"/api/v1/tasks/{task_id}")[0] == 200
        assert wait_task(running_server, task_id, "cancelled")["result"] is None
    done = add_task(running_server, {"workflow": picture(2)})["id"]
    wait_task(running_server, done, "completed")
    status, body = running_server.call("DELETE", f"/api/v1/tasks/{done}")
    assert (status, body["error"]["code"]) == (409, "EXECUTION_ENDED")


def test_lists_show_tasks_only_newest_first_and_page_by_page(running_server: Comfyrail) -> None:
    other = running_server.submit(picture(3))
    ids = [add_task(running_server, {"workflow": picture(n)})["id"] for n in range(3)]
    for task_id in ids:
        wait_task(running_server, task_id, "completed")
    found: list[str] = []
    cursor = ""
    while len(found) < 3:
        status, page = running_server.call("GET", f"/api/v1/tasks?status=completed&limit=2{cursor}")
        assert status == 200
        found += [task["id"] for task in page["tasks"]]
        cursor = f"&cursor={page['next_cursor']}"
    assert found[:3] == ids[::-1]
    assert other not in found
    # Its id is good here all the same: there is one space of ids.
    task = running_server.call("GET", f"/api/v1/tasks/{other}")[1]
    assert (task["workflow_id"], task["payload"]) == (None, None)
    assert running_server.call("GET", "/api/v1/tasks?status=odd")[0] == 400


def test_metrics_count_the_jobs_and_the_workers(running_server: Comfyrail) -> None:
    before = running_server.call("GET", "/api/v1/metrics/queue")[1]
    slow = add_task(running_server, {"workflow": slow_picture(30)})["id"]
    wait_task(running_server, slow, "running")
    add_task(running_server, {"workflow": slow_picture(29)})
    status, counts = running_server.call("GET", "/api/v1/metrics/queue")
    assert status == 200
    assert set(counts) >= {"pending", "running", "completed", "failed"}
    assert counts["running"] >= before["running"] + 1
    # The second one may be with the worker already, behind the first.
    added = counts["running"] + counts["pending"] - before["running"] - before["pending"]
    assert added == 2
    status, workers = running_server.call("GET", "/api/v1/metrics/workers")
    assert (status, workers) == (
        200,
        {"total": 1, "idle": 0, "running": 1, "starting": 0, "failed": 0},
    )


def test_workers_are_listed_cordoned_taken_back_and_refused_removal_from_a_pool(
    running_server: Comfyrail,
) -> None:
    status, body = running_server.call("GET", "/api/v1/workers")
    assert status == 200
    (worker,) = body["workers"]
    assert (worker["id"], worker["status"]) == ("local-1", "idle")
    path = "/api/v1/workers/local-1"
    assert running_server.call("PUT", path, {"state": "cordoned"})[1]["cordoned"] is True
    assert running_server.call("PUT", path, {"state": "active"})[1]["cordoned"] is False
    assert running_server.call("PUT", path, {"state": "odd"})[0] == 400
    assert running_server.call("DELETE", path)[0] == 409
    assert running_server.call("GET", "/api/v1/workers/nobody")[0] == 404
    status, body = running_server.call("POST", "/api/v1/workers", {"url": "http://127.0.0.1:9"})
    assert (status, body["error"]["code"]) == (422, "WORKER_UNREACHABLE")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"payload": {}}, 400),
        ({"workflow_id": 5, "payload": {}}, 400),
        ({"workflow_id": "", "payload": {}}, 400),
        ({"workflow_id": "x" * 201, "payload": {"workflow": picture()}}, 400),
        ({"workflow_id": "x", "payload": []}, 400),
        ({"workflow_id": "x", "payload": "text"}, 400),
        ({"workflow_id": "x", "payload": {"workflow": picture(), "more": 1}}, 400),
        ({"workflow_id": "x", "payload": {"workflow": picture()}, "priority": 11}, 400),
        ({"workflow_id": "x", "payload": {"workflow": picture()}, "odd": 1}, 400),
        ({"workflow_id": "no-such-workflow", "payload": {}}, 404),
        ({"workflow_id": "../../etc/passwd", "payload": {}}, 404),
        ({"workflow_id": "x", "payload": {"workflow": {"1": {"class_type": "Odd"}}}}, 422),
        ({"workflow_id": "x", "payload": {"workflow": 5}}, 422),
    ],
)
def test_requests_that_are_wrong_are_refused_and_leave_no_task(
    running_server: Comfyrail, body: Any, expected: int
) -> None:
    before = running_server.call("GET", "/api/v1/metrics/queue")[1]
    status, reply = running_server.call("POST", "/api/v1/tasks", body)
    assert status == expected, reply
    assert reply["error"]["message"]
    assert running_server.call("GET", "/api/v1/metrics/queue")[1] == before


def test_same_idempotency_key_makes_one_task(running_server: Comfyrail) -> None:
    body = {"workflow_id": "once", "payload": {"workflow": picture(8)}}
    sent = [
        running_server.call("POST", "/api/v1/tasks", body, Idempotency_Key="task-once")
        for _ in range(2)
    ]
    assert sent[0] == sent[1]


def test_unknown_ids_are_404(running_server: Comfyrail) -> None:
    for method in ("GET", "DELETE"):
        status, body = running_server.call(method, f"/api/v1/tasks/{NOWHERE}")
        assert (status, body["error"]["code"]) == (404, "EXECUTION_NOT_FOUND")


def test_tasks_of_others_do_not_exist(tmp_path_factory: pytest.TempPathFactory) -> None:
    with gated_server(tmp_path_factory.mktemp("tenants") / "data", workers="1") as server:
        mine = {"Authorization": f"Bearer {token(user_id=new_user())}"}
        other = {"Authorization": f"Bearer {token(user_id=new_user())}"}
        body = {"workflow_id": "x", "payload": {"workflow": picture()}}

        def submitted() -> Any:
            status, reply = server.call("POST", "/api/v1/tasks", body, **mine)
            return reply["id"] if status == 201 else None

        task_id = wait_until(submitted, limit=40)
        unknown = server.call("GET", f"/api/v1/tasks/{NOWHERE}", **other)
        foreign = server.call("GET", f"/api/v1/tasks/{task_id}", **other)
        assert unknown[0] == foreign[0] == 404
        assert foreign[1]["error"]["code"] == unknown[1]["error"]["code"]
        assert server.call("DELETE", f"/api/v1/tasks/{task_id}", **other)[0] == 404
        assert server.call("GET", "/api/v1/tasks", **other)[1]["tasks"] == []
        assert sum(server.call("GET", "/api/v1/metrics/queue", **other)[1].values()) == 0
        assert server.call("GET", f"/api/v1/tasks/{task_id}", **mine)[0] == 200
        assert (
            server.call("PUT", "/api/v1/workers/local-1", {"state": "cordoned"}, **mine)[0] == 403
        )
        for path in (f"/status/{task_id}", f"/stream/{task_id}"):
            assert server.call("GET", path, **other)[0] == 404
        assert server.call("POST", f"/cancel/{task_id}", **other)[0] == 404
        for path in ("progress", "outputs"):
            assert server.call("GET", f"/comfyui/workflow/{task_id}/{path}", **other)[0] == 404
        assert server.call("POST", f"/comfyui/workflow/{task_id}/cancel", **other)[0] == 404
        assert server.call("GET", f"/workflow/state?workflow_id={task_id}", **other)[0] == 404
