"""/queue, /interrupt, /history, /api/jobs."""

from typing import Any

import pytest

from tests.comfyui_surface.parts import Script
from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail, wait_until


def done(script: Script, prompt_id: str) -> Any:
    return wait_until(lambda: script.get(f"/history/{prompt_id}"))[prompt_id]


def test_the_queue_shows_what_runs_and_what_waits_and_gives_up_what_waits(script: Script) -> None:
    running = [script.queue(slow_picture(8, color))["prompt_id"] for color in (1, 2)]
    wait_until(lambda: len(script.get("/queue")["queue_running"]) == 2)
    waiting = [script.queue(slow_picture(8, color))["prompt_id"] for color in (3, 4, 5)]

    queue = script.get("/queue")
    number, _, prompt, extra_data, outputs = queue["queue_pending"][0]
    assert [item[1] for item in queue["queue_pending"]] == waiting
    assert {item[1] for item in queue["queue_running"]} == set(running)
    assert (prompt["3"]["class_type"], outputs) == ("SaveImage", ["3"])
    assert extra_data["client_id"] == script.client_id
    assert number == extra_data["create_time"]

    assert script.post("/queue", {"delete": [waiting[1], running[0], "unknown"]})[0] == 200
    assert [item[1] for item in script.get("/queue")["queue_pending"]] == [waiting[0], waiting[2]]
    assert script.post("/queue", {"clear": True})[0] == 200
    queue = script.get("/queue")
    assert queue["queue_pending"] == []
    assert {item[1] for item in queue["queue_running"]} == set(running)
    assert script.get(f"/history/{waiting[0]}") == {}

    assert script.post("/interrupt", {"prompt_id": running[0]})[0] == 200
    ended = done(script, running[0])
    assert ended["status"]["status_str"] == "error"
    assert ended["status"]["completed"] is False
    assert ended["status"]["messages"][-1][0] == "execution_interrupted"
    assert script.fetch("/interrupt", b"")[0] == 200
    assert done(script, running[1])["status"]["messages"][-1][1]["node_id"] == "9"
    assert script.get(f"/history/{waiting[1]}") == {}


def test_an_interrupt_leaves_jobs_of_other_surfaces_alone(house: Comfyrail, plain: Script) -> None:
    other = house.submit(slow_picture(1.0, 11))
    mine = plain.queue(slow_picture(8, 12))["prompt_id"]
    wait_until(lambda: len(plain.get("/queue")["queue_running"]) == 2)

    plain.post("/interrupt", {})

    assert done(plain, mine)["status"]["completed"] is False
    assert house.wait_for(other)["status"] == "completed"


def test_the_history_has_jobs_of_every_surface_and_forgets_what_it_is_told_to(
    house: Comfyrail, script: Script
) -> None:
    script.post("/history", {"clear": True})
    assert script.get("/history") == {}
    first = house.submit(picture(21))
    house.wait_for(first)
    second, third = (script.queue(picture(color))["prompt_id"] for color in (22, 23))
    done(script, second)
    done(script, third)

    assert set(script.get("/history")) == {first, second, third}
    assert list(script.get("/history?max_items=2")) == [second, third]
    assert list(script.get("/history?max_items=1&offset=1")) == [second]
    assert script.get("/history?max_items=0") == {}
    assert script.fetch("/history?max_items=abc")[0] == 400
    script.post("/history", {"delete": [second, "unknown"]})
    assert set(script.get("/history")) == {first, third}
    assert script.get(f"/history/{second}") == {}
    assert house.execution(second)["status"] == "completed"


def test_an_entry_of_the_history_is_as_comfyui_writes_it(script: Script) -> None:
    prompt_id = script.queue(picture(31))["prompt_id"]
    entry = done(script, prompt_id)

    assert set(entry) == {"prompt", "outputs", "status", "meta"}
    assert entry["prompt"][1] == prompt_id
    assert entry["prompt"][2] == picture(31)
    assert entry["prompt"][4] == ["3"]
    [file] = entry["outputs"]["3"]["images"]
    assert set(file) == {"filename", "subfolder", "type"}
    assert file["type"] == "output"
    kinds = [message[0] for message in entry["status"]["messages"]]
    assert kinds == ["execution_start", "execution_cached", "execution_success"]
    assert entry["meta"]["3"]["real_node_id"] == "3"


def test_texts_that_nodes_show_are_in_the_outputs(plain: Script) -> None:
    graph = {
        "1": {"class_type": "PrimitiveString", "inputs": {"value": "a few words"}},
        "2": {"class_type": "PreviewAny", "inputs": {"source": ["1", 0]}},
    }

    entry = done(plain, plain.queue(graph)["prompt_id"])

    assert entry["outputs"]["2"] == {"text": ["a few words"]}


def test_the_list_of_jobs_is_chosen_sorted_and_cut(house: Comfyrail, script: Script) -> None:
    script.post("/history", {"clear": True})
    info = {"extra_pnginfo": {"workflow": {"id": "wf-1"}}}
    slow = script.queue(slow_picture(0.5, 41), extra_data=info)["prompt_id"]
    quick = script.queue(picture(42))["prompt_id"]
    done(script, slow)
    done(script, quick)
    base = f"{script.prefix}/jobs" if script.prefix else "/api/jobs"
    jobs = Script(house.url)

    def ids(query: str) -> list[str]:
        return [job["id"] for job in jobs.get(f"{base}?{query}")["jobs"]]

    assert ids("") == [quick, slow]
    assert ids("sort_order=asc") == [slow, quick]
    assert ids("sort_by=execution_duration") == [slow, quick]
    assert ids("workflow_id=wf-1") == [slow]
    assert ids("status=failed,pending") == []
    page = jobs.get(f"{base}?limit=1&offset=1")
    assert page["pagination"] == {"offset": 1, "limit": 1, "total": 2, "has_more": False}
    [job] = page["jobs"]
    assert (job["id"], job["status"], job["workflow_id"]) == (slow, "completed", "wf-1")
    assert job["outputs_count"] == 1
    assert job["preview_output"]["nodeId"] == "3"
    assert job["preview_output"]["mediaType"] == "images"
    whole = jobs.get(f"{base}/{slow}")
    assert whole["workflow"]["extra_data"]["extra_pnginfo"] == info["extra_pnginfo"]
    assert whole["outputs"]["3"]["images"]
    assert whole["execution_status"]["completed"] is True


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=0", "limit must be a positive integer"),
        ("limit=x", "limit must be an integer"),
        ("sort_by=zz", "sort_by must be 'created_at' or 'execution_duration'"),
        ("sort_order=zz", "sort_order must be 'asc' or 'desc'"),
    ],
)
def test_a_list_of_jobs_that_makes_no_sense_is_refused_in_comfyuis_words(
    plain: Script, query: str, message: str
) -> None:
    status, _ = plain.fetch(f"/api/jobs?{query}")

    assert status == 400
    assert plain.get(f"/api/jobs?{query}") == {"error": message}


def test_a_job_that_nobody_knows_is_said_to_be_not_found(plain: Script) -> None:
    assert plain.fetch("/api/jobs/nope")[0] == 404
    assert plain.get("/api/jobs/nope") == {"error": "Job not found"}
    assert plain.get("/history/nope") == {}


def test_a_job_is_cancelled_by_its_id(plain: Script) -> None:
    prompt_id = plain.queue(slow_picture(8, 51))["prompt_id"]

    assert plain.post(f"/api/jobs/{prompt_id}/cancel", {})[0] == 200

    wait_until(lambda: plain.get(f"/api/jobs/{prompt_id}")["status"] == "failed")
    shown = plain.get("/api/jobs?status=cancelled&limit=1")["jobs"]
    assert [(job["id"], job["status"]) for job in shown] == [(prompt_id, "cancelled")]
    assert plain.post("/api/jobs/nope/cancel", {})[0] == 404


def test_a_long_history_comes_in_parts(plain: Script) -> None:
    """Larger than all that is kept, and no less complete."""
    info = {"extra_pnginfo": {"filler": "x" * 300_000}}
    ids = [plain.queue(picture(number), extra_data=info)["prompt_id"] for number in range(710, 718)]
    for prompt_id in ids:
        done(plain, prompt_id)

    history = plain.get("/history?max_items=8")

    assert list(history) == ids
    assert all(entry["prompt"][3] == {**entry["prompt"][3], **info} for entry in history.values())
    assert set(plain.get("/queue")) == {"queue_running", "queue_pending"}
