import json
import uuid
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from comfyrail.engine.folders import Folders
from tests.engine.engine_parts import serving
from tests.engine.worker_client import (
    WorkerClient,
    empty_image,
    invert,
    preview,
    save,
    simple_graph,
    slow_graph,
)

REFUSALS = json.loads((Path(__file__).parent / "data" / "refusals.json").read_text())


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case["name"])
async def test_bad_prompts_get_comfyuis_reply(case: Any, worker: WorkerClient) -> None:
    assert await worker.post("/prompt", case["request"]) == (400, case["reply"])


@pytest.mark.parametrize("path", ["/prompt", "/api/prompt"])
async def test_a_prompt_is_accepted_with_and_without_the_prefix(
    path: str, worker: WorkerClient
) -> None:
    status, body = await worker.post(path, {"prompt": simple_graph()})
    assert status == 200
    assert str(uuid.UUID(body["prompt_id"])) == body["prompt_id"]
    assert body["number"] == 0
    assert body["node_errors"] == {}


@pytest.mark.parametrize(
    "body",
    [
        b"{nope",
        b"",
        b"\xff\xfe{}",
        b"5",
        b'"text"',
        b"[" * 100_000,
        json.dumps({"prompt": simple_graph(), "number": "zzz"}).encode(),
        json.dumps({"prompt": simple_graph(), "number": float("nan")}).encode(),
        json.dumps({"prompt": simple_graph(), "extra_data": None}).encode(),
        json.dumps({"prompt": simple_graph(), "partial_execution_targets": 5}).encode(),
        json.dumps({"prompt": None}).encode(),
    ],
)
async def test_a_malformed_request_gets_a_clear_400(body: bytes, worker: WorkerClient) -> None:
    status, reply = await worker.post("/prompt", body)
    assert status == 400
    assert reply["error"]["type"] == "invalid_request"
    assert reply["error"]["message"]
    assert reply["node_errors"] == {}


async def test_any_content_type_is_read_as_json(worker: WorkerClient) -> None:
    body = json.dumps({"prompt": simple_graph()}).encode()
    status, _ = await worker.post("/prompt", body, headers={"Content-Type": "text/plain"})
    assert status == 200


async def test_nan_is_refused_in_strict_json(worker: WorkerClient) -> None:
    prompt = simple_graph()
    prompt["1"]["inputs"]["width"] = float("nan")
    status, reply = await worker.post("/prompt", {"prompt": prompt})
    (fault,) = reply["node_errors"]["1"]["errors"]
    assert status == 400
    assert fault["details"] == "width, nan, cannot convert float NaN to integer"
    assert fault["extra_info"]["received_value"] is None


@pytest.mark.parametrize(("given", "kept"), [("mine", "mine"), (42, "42"), (None, "None")])
async def test_a_given_prompt_id_is_kept_as_text(
    given: Any, kept: str, worker: WorkerClient
) -> None:
    assert await worker.submit(simple_graph(), prompt_id=given) == kept
    assert (await worker.ended(kept))["prompt"][1] == kept


async def test_numbers_count_refused_prompts_too(worker: WorkerClient) -> None:
    await worker.post("/prompt", {"prompt": {}})
    _, second = await worker.post("/prompt", {"prompt": simple_graph()})
    _, front = await worker.post("/prompt", {"prompt": simple_graph(), "front": True})
    _, given = await worker.post("/prompt", {"prompt": simple_graph(), "number": -5})
    assert [second["number"], front["number"], given["number"]] == [1, -2, -5.0]


async def test_prompts_run_by_number_then_in_the_order_of_arrival(worker: WorkerClient) -> None:
    socket = await worker.connect("me")
    running = await worker.submit(slow_graph(), prompt_id="running")
    await worker.running(running)
    submitted: dict[str, dict[str, Any]] = {
        "A": {},
        "B": {},
        "half": {"number": 0.5},
        "front1": {"front": True},
        "front2": {"front": True},
        "first": {"number": -1e9},
        "zAlso half": {"number": 0.5},
        "aThird half": {"number": 0.5},
    }
    for prompt_id, fields in submitted.items():
        await worker.submit(simple_graph(), prompt_id=prompt_id, client_id="me", **fields)
    expected = ["first", "front2", "front1", "half", "zAlso half", "aThird half", "A", "B"]
    _, queue = await worker.get("/queue")
    assert [item[1] for item in queue["queue_running"]] == ["running"]
    assert [item[1] for item in queue["queue_pending"]] == expected
    await worker.post("/interrupt", {})
    messages = await socket.until_end("B")
    started = [m["data"]["prompt_id"] for m in messages if m["type"] == "execution_start"]
    assert started == expected


async def test_an_id_that_waits_or_runs_cannot_be_used_again(worker: WorkerClient) -> None:
    await worker.submit(slow_graph(), prompt_id="one")
    await worker.submit(simple_graph(), prompt_id="two")
    for prompt_id in ("one", "two"):
        status, body = await worker.post(
            "/prompt", {"prompt": simple_graph(), "prompt_id": prompt_id, "number": 7}
        )
        assert status == 400
        assert body["error"]["type"] == "prompt_id_in_use"
    await worker.post("/interrupt")
    await worker.ended("two")
    assert await worker.submit(simple_graph(1), prompt_id="two") == "two"


async def test_pending_prompts_can_be_deleted_and_leave_no_trace(worker: WorkerClient) -> None:
    await worker.running(await worker.submit(slow_graph(), prompt_id="run"))
    for prompt_id in "abc":
        await worker.submit(simple_graph(), prompt_id=prompt_id)
    assert await worker.post("/queue", {"delete": ["b", "nope", "run"]}) == (200, b"")
    _, queue = await worker.get("/queue")
    assert [item[1] for item in queue["queue_pending"]] == ["a", "c"]
    assert [item[1] for item in queue["queue_running"]] == ["run"]
    assert await worker.get("/prompt") == (200, {"exec_info": {"queue_remaining": 3}})
    await worker.post("/queue", {"clear": True})
    assert await worker.get("/prompt") == (200, {"exec_info": {"queue_remaining": 1}})
    await worker.post("/interrupt")
    await worker.ended("run")
    _, history = await worker.get("/history")
    assert list(history) == ["run"]


async def test_a_deleted_id_can_be_queued_again(worker: WorkerClient) -> None:
    await worker.running(await worker.submit(slow_graph(), prompt_id="run"))
    await worker.submit(simple_graph(1), prompt_id="again", number=1)
    await worker.post("/queue", {"delete": ["again"]})
    await worker.submit(simple_graph(2), prompt_id="again", number=9)
    await worker.post("/interrupt")
    assert (await worker.ended("again"))["prompt"][0] == 9


async def test_an_interrupt_for_another_prompt_does_nothing(worker: WorkerClient) -> None:
    await worker.running(await worker.submit(slow_graph(0.3), prompt_id="run"))
    assert await worker.post("/interrupt", {"prompt_id": "other"}) == (200, b"")
    assert (await worker.ended("run"))["status"]["status_str"] == "success"


async def test_an_interrupted_prompt_is_an_error_in_history(worker: WorkerClient) -> None:
    await worker.running(await worker.submit(slow_graph(), prompt_id="run"))
    assert await worker.post("/interrupt", b"") == (200, b"")
    status = (await worker.ended("run"))["status"]
    assert (status["status_str"], status["completed"]) == ("error", False)
    kind, data = status["messages"][-1]
    assert kind == "execution_interrupted"
    assert data["prompt_id"] == "run"
    assert await worker.post("/interrupt", {}) == (200, b"")
    assert (await worker.run(simple_graph()))["status"]["completed"]


async def test_history_has_comfyuis_form(worker: WorkerClient) -> None:
    prompt = {"1": empty_image(), "2": invert("1"), "4": save("2", "probe/inv")}
    info = {"workflow": {"id": "wf-1", "nodes": []}}
    prompt_id = await worker.submit(prompt, client_id="me", extra_data={"extra_pnginfo": info})
    entry = await worker.ended(prompt_id)
    created = entry["prompt"][3].pop("create_time")
    assert isinstance(created, int)
    assert entry["prompt"] == [
        0,
        prompt_id,
        prompt,
        {"extra_pnginfo": info, "client_id": "me"},
        ["4"],
    ]
    shown = [{"filename": "inv_00001_.png", "subfolder": "probe", "type": "output"}]
    assert entry["outputs"] == {"4": {"images": shown}}
    assert entry["meta"] == {
        "4": {"node_id": "4", "display_node": "4", "parent_node": None, "real_node_id": "4"}
    }
    status = entry["status"]
    assert (status["status_str"], status["completed"]) == ("success", True)
    assert [(kind, sorted(data)) for kind, data in status["messages"]] == [
        ("execution_start", ["prompt_id", "timestamp"]),
        ("execution_cached", ["nodes", "prompt_id", "timestamp"]),
        ("execution_success", ["prompt_id", "timestamp"]),
    ]


async def test_a_cached_prompt_without_a_client_has_its_outputs_in_history(
    worker: WorkerClient,
) -> None:
    first = await worker.run(simple_graph())
    second = await worker.run(simple_graph())
    assert second["outputs"] == first["outputs"] != {}
    assert second["status"]["messages"][1][1]["nodes"] == ["1", "2"]


async def test_secrets_are_never_shown(worker: WorkerClient) -> None:
    secret = {"api_key_comfy_org": "hush", "auth_token_comfy_org": "hush"}
    entry = await worker.run(simple_graph(), extra_data=secret)
    assert "hush" not in json.dumps(entry)
    assert "hush" not in json.dumps((await worker.get("/api/jobs"))[1])


async def test_history_is_paged_cleared_and_bounded(folders: Folders) -> None:
    async with serving(folders, history_size=4) as worker:
        for prompt_id in "abcdef":
            await worker.run(simple_graph(), prompt_id=prompt_id)
        assert list((await worker.get("/history"))[1]) == ["c", "d", "e", "f"]
        assert list((await worker.get("/history?max_items=2"))[1]) == ["e", "f"]
        assert list((await worker.get("/history?max_items=2&offset=1"))[1]) == ["d", "e"]
        assert await worker.get("/history/nope") == (200, {})
        assert (await worker.get("/history?max_items=abc"))[0] == 400
        assert await worker.post("/history", {"delete": ["d", "nope"]}) == (200, b"")
        assert list((await worker.get("/history"))[1]) == ["c", "e", "f"]
        await worker.post("/history", {"clear": True})
        assert (await worker.get("/history"))[1] == {}


async def test_partial_targets_run_only_those_outputs(worker: WorkerClient) -> None:
    prompt = {"1": empty_image(), "2": preview("1"), "3": preview("1")}
    entry = await worker.run(prompt, partial_execution_targets=["3"])
    assert list(entry["outputs"]) == ["3"]
    assert entry["prompt"][4] == ["3"]


async def test_good_outputs_run_and_the_reply_tells_of_the_others(worker: WorkerClient) -> None:
    prompt = {"1": empty_image(), "2": preview("1"), "3": empty_image(side=0), "4": preview("3")}
    status, body = await worker.post("/prompt", {"prompt": prompt})
    assert status == 200
    assert list(body["node_errors"]) == ["3"]
    assert list((await worker.ended(body["prompt_id"]))["outputs"]) == ["2"]


async def test_freed_memory_is_computed_again(worker: WorkerClient) -> None:
    await worker.run(simple_graph())
    assert await worker.post("/free", {"unload_models": True, "free_memory": True}) == (200, b"")
    entry = await worker.run(simple_graph())
    assert entry["status"]["messages"][1][1]["nodes"] == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/queue", b"{nope"),
        ("/queue", b'{"delete": 5}'),
        ("/interrupt", b"[]"),
        ("/free", b""),
        ("/history", b"nope"),
    ],
)
async def test_malformed_bodies_of_other_routes_get_a_400(
    path: str, body: bytes, worker: WorkerClient
) -> None:
    status, reply = await worker.post(path, body)
    assert status == 400
    assert reply["error"]["type"] == "invalid_request"


async def test_a_chain_of_ten_thousand_nodes_goes_through_the_server(
    worker: WorkerClient,
) -> None:
    prompt = {"0": empty_image(side=1)}
    for index in range(1, 10_000):
        prompt[str(index)] = invert(str(index - 1))
    prompt["end"] = preview("9999")
    socket = await worker.connect("me")
    prompt_id = await worker.submit(prompt, client_id="me")
    messages = await socket.until_end(prompt_id)
    finished = [
        node_id
        for message in messages
        if message["type"] == "progress_state"
        for node_id, state in message["data"]["nodes"].items()
        if state["state"] == "finished"
    ]
    assert len(finished) == 10_001
    assert all(len(m["data"]["nodes"]) == 1 for m in messages if m["type"] == "progress_state")
    assert (await worker.ended(prompt_id))["status"]["completed"]


async def test_jobs_show_what_waits_runs_and_has_ended(worker: WorkerClient) -> None:
    info = {"workflow": {"id": "wf-1"}}
    await worker.run(simple_graph(), prompt_id="done", extra_data={"extra_pnginfo": info})
    await worker.running(await worker.submit(slow_graph(), prompt_id="run"))
    await worker.submit(simple_graph(), prompt_id="wait")
    _, body = await worker.get("/api/jobs?sort_order=asc")
    assert [(job["id"], job["status"]) for job in body["jobs"]] == [
        ("done", "completed"),
        ("run", "in_progress"),
        ("wait", "pending"),
    ]
    assert body["pagination"] == {"offset": 0, "limit": None, "total": 3, "has_more": False}
    done = body["jobs"][0]
    assert done["outputs_count"] == 1
    assert done["preview_output"]["nodeId"] == "2"
    assert done["preview_output"]["mediaType"] == "images"
    assert done["workflow_id"] == "wf-1"
    assert done["execution_start_time"] <= done["execution_end_time"]
    _, page = await worker.get("/api/jobs?status=completed,pending&limit=1")
    assert page["pagination"] == {"offset": 0, "limit": 1, "total": 2, "has_more": True}
    _, one = await worker.get("/api/jobs/done")
    assert one["workflow"]["prompt"] == simple_graph()
    assert one["execution_status"]["completed"]
    assert (await worker.get("/api/jobs/wait"))[1]["status"] == "pending"
    assert await worker.get("/api/jobs/nope") == (404, {"error": "Job not found"})
    assert (await worker.get("/jobs"))[0] == 404
    await worker.post("/interrupt")
    await worker.ended("run")
    assert (await worker.get("/api/jobs/run"))[1]["status"] == "failed"


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (
            "status=zzz",
            "Invalid status value(s): zzz. Valid values: pending, in_progress, completed, failed",
        ),
        ("limit=0", "limit must be a positive integer"),
        ("limit=x", "limit must be an integer"),
        ("sort_by=zz", "sort_by must be 'created_at' or 'execution_duration'"),
        ("sort_order=zz", "sort_order must be 'asc' or 'desc'"),
    ],
)
async def test_bad_parameters_of_jobs_get_comfyuis_words(
    query: str, error: str, worker: WorkerClient
) -> None:
    assert await worker.get(f"/api/jobs?{query}") == (400, {"error": error})


async def test_the_worker_describes_itself(worker: WorkerClient) -> None:
    _, info = await worker.get("/object_info")
    assert {"LoadImage", "SaveImage", "Delay", "NoiseImage"} <= set(info)
    assert (await worker.get("/object_info/EmptyImage"))[1] == {"EmptyImage": info["EmptyImage"]}
    assert await worker.get("/object_info/Nope") == (200, {})
    _, stats = await worker.get("/system_stats")
    assert stats["system"]["ram_total"] > 0
    assert stats["devices"][0]["type"] == "cpu"
    assert (await worker.get("/features"))[1]["supports_preview_metadata"] is True
    assert await worker.get("/embeddings") == (200, [])
    assert await worker.get("/extensions") == (200, [])
    assert "checkpoints" in (await worker.get("/models"))[1]
    assert await worker.get("/models/checkpoints") == (200, [])
    assert (await worker.get("/models/nope"))[0] == 404


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://evil.example", 403),
        ("http://127.0.0.1:1", 403),
        ("null", 403),
        ("http://[", 403),
        (None, 200),
    ],
)
async def test_pages_of_other_origins_are_kept_out(
    origin: str | None, status: int, worker: WorkerClient
) -> None:
    headers = {"Origin": worker.url if origin is None else origin}
    assert (await worker.get("/queue", headers=headers))[0] == status
    body = {"prompt": simple_graph()}
    assert (await worker.post("/prompt", body, headers=headers))[0] == status
    if status == 403:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await worker.session.ws_connect("/ws", headers=headers)
        assert refused.value.status == 403


async def test_a_host_that_is_not_this_machine_lets_the_browser_decide(
    worker: WorkerClient,
) -> None:
    headers = {"Host": "gpu.example:8188", "Origin": "http://other.example"}
    assert (await worker.get("/queue", headers=headers))[0] == 200


async def test_a_body_that_is_too_large_is_refused(worker: WorkerClient) -> None:
    async def endless() -> Any:
        for _ in range(101):
            yield b"x" * (1 << 20)

    try:
        async with worker.session.post("/prompt", data=endless()) as reply:
            assert reply.status == 413
    except aiohttp.ClientConnectionError:
        # The worker may hang up while the client is still sending.
        pass
    assert (await worker.run(simple_graph()))["status"]["completed"]
