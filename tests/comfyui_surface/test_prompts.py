"""POST /prompt: what is taken, and in which words the rest is refused."""

import contextlib
import io
import json
import sqlite3
import time
import uuid
from typing import Any

import pytest
from PIL import Image

from comfyrail.store.sqlite.database import DATABASE_NAME
from tests.comfyui_surface.parts import Script
from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail, wait_until

MISMATCH = (
    "Return type mismatch between linked nodes: "
    "images, received_type(LATENT) mismatch input_type(IMAGE)"
)
AT_ONCE = 10.0
"""Seconds for three requests of 12 MB; to read them would take a minute."""
EMPTY = {"width": 64, "height": 64, "batch_size": 1, "color": 0}


def graph(**nodes: Any) -> dict[str, Any]:
    """Nodes by id, an underscore before it: (type, inputs)."""
    return {
        name.lstrip("_"): {"class_type": kind, "inputs": inputs}
        for name, (kind, inputs) in nodes.items()
    }


def preview(**inputs: Any) -> tuple[str, dict[str, Any]]:
    return "PreviewImage", inputs


def refuse(script: Script, prompt: Any, **fields: Any) -> dict[str, Any]:
    status, body = script.post("/prompt", {"prompt": prompt, **fields})
    assert status == 400, body
    assert set(body) == {"error", "node_errors"}
    assert set(body["error"]) == {"type", "message", "details", "extra_info"}
    return dict(body)


@pytest.mark.parametrize(
    ("prompt", "error", "details"),
    [
        (graph(_1=("NopeNode", {}), _2=preview(images=["1", 0])), "invalid_prompt", "Node ID '#1'"),
        (
            {"1": {"inputs": {}}, "2": {"class_type": "PreviewImage", "inputs": {}}},
            "invalid_prompt",
            "Node ID '#1'",
        ),
        (graph(_1=("EmptyImage", EMPTY)), "prompt_no_outputs", ""),
        ({}, "prompt_no_outputs", ""),
        ([], "prompt_no_outputs", ""),
        (
            graph(_1=("EmptyImage", EMPTY), _2=preview()),
            "prompt_outputs_failed_validation",
            "Required input is missing: images",
        ),
        (
            graph(_1=("EmptyLatentImage", {**EMPTY}), _2=preview(images=["1", 0])),
            "prompt_outputs_failed_validation",
            MISMATCH,
        ),
        (
            graph(_2=preview(images=["77", 0])),
            "prompt_outputs_failed_validation",
            "Exception when validating node: '77'",
        ),
        (
            graph(_1=("EmptyImage", EMPTY), _2=preview(images=["1", 0, 1])),
            "prompt_outputs_failed_validation",
            "Bad linked input, must be a length-2 list of [node_id, slot_index]: images",
        ),
        (
            graph(_1=("EmptyImage", EMPTY), _2=preview(images=["1", 7])),
            "prompt_outputs_failed_validation",
            "Exception when validating node: tuple index out of range",
        ),
    ],
)
def test_a_prompt_that_cannot_run_is_refused_in_comfyuis_words(
    plain: Script, prompt: Any, error: str, details: str
) -> None:
    body = refuse(plain, prompt)

    assert (body["error"]["type"], body["error"]["details"]) == (error, details)


def test_a_body_without_a_prompt_is_told_so(plain: Script) -> None:
    assert plain.post("/prompt", {"foo": 1})[1]["error"]["type"] == "no_prompt"


@pytest.mark.parametrize(
    ("inputs", "kind"),
    [
        ({"width": "abc"}, "invalid_input_type"),
        ({"width": 0}, "value_smaller_than_min"),
        ({"width": 999_999}, "value_bigger_than_max"),
    ],
)
def test_an_input_that_does_not_fit_is_named_with_its_node_and_its_outputs(
    plain: Script, inputs: dict[str, Any], kind: str
) -> None:
    prompt = graph(_1=("EmptyImage", {**EMPTY, **inputs}), _2=preview(images=["1", 0]))

    body = refuse(plain, prompt)

    assert body["error"]["details"] == ""
    entry = body["node_errors"]["1"]
    assert entry["class_type"] == "EmptyImage"
    assert entry["dependent_outputs"] == ["2"]
    [found] = entry["errors"]
    assert found["type"] == kind
    assert found["extra_info"]["input_name"] == "width"
    assert found["extra_info"]["received_value"] == inputs["width"]
    assert found["extra_info"]["input_config"][0] == "INT"


def test_a_value_that_is_no_choice_names_the_choices(plain: Script) -> None:
    scale = {**EMPTY, "image": ["1", 0], "upscale_method": "zzz", "crop": "disabled"}
    prompt = graph(_1=("EmptyImage", EMPTY), _3=("ImageScale", scale), _2=preview(images=["3", 0]))

    [found] = refuse(plain, prompt)["node_errors"]["3"]["errors"]

    assert found["type"] == "value_not_in_list"
    assert found["details"].startswith("upscale_method: 'zzz' not in ['nearest-exact', ")


def test_a_cycle_has_no_errors_of_nodes(plain: Script) -> None:
    prompt = graph(_1=("ImageInvert", {"image": ["1", 0]}), _3=preview(images=["1", 0]))

    body = refuse(plain, prompt)

    assert body["error"]["type"] == "prompt_outputs_failed_validation"
    assert body["node_errors"] == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"nonsense",
        b"[1]",
        b'"x"',
        b'{"prompt": null}',
        b'{"prompt": "x"}',
        b'{"prompt": {"1": 5}}',
        b'{"prompt": {"1": {"class_type": ["a"], "inputs": {}}}}',
        b'{"prompt": {"1": {"class_type": "PreviewImage"}}}',
        b'{"prompt": {"1": {"class_type": "PreviewImage", "inputs": 5}}}',
        b'{"prompt": {}, "number": "x"}',
        b'{"prompt": {"1": {}}, "number": "x"}',
        b'{"prompt": {"1": {}}, "extra_data": null}',
        b'{"prompt": {"1": {}}, "extra_data": {"preview_method": ["auto"]}}',
        b'{"prompt": {"1": {}}, "prompt_id": "../x"}',
        b'{"prompt": {"1": {}}, "client_id": "\\u0000"}',
        b'{"prompt": {"1": {}}, "partial_execution_targets": 7}',
        b'{"prompt": {"nodes": [], "links": []}}',
        b'{"prompt": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_what_comfyui_answers_with_a_bare_500_is_a_refusal_in_its_shape(
    plain: Script, content: bytes
) -> None:
    status, body = plain.fetch("/prompt", content)

    assert status == 400
    assert set(json.loads(body)) == {"error", "node_errors"}


def test_good_outputs_are_made_when_others_cannot_be(plain: Script) -> None:
    prompt = picture(color=0x0A0B0C)
    prompt |= graph(_8=("EmptyImage", {**EMPTY, "width": 0}), _9=preview(images=["8", 0]))

    reply = plain.queue(prompt)

    assert set(reply["node_errors"]) == {"8"}
    assert reply["node_errors"]["8"]["dependent_outputs"] == ["9"]
    history = wait_until(lambda: plain.get(f"/history/{reply['prompt_id']}"))
    assert set(history[reply["prompt_id"]]["outputs"]) == {"3"}


def test_a_fault_in_a_node_that_no_output_needs_is_no_fault(plain: Script) -> None:
    prompt = picture(color=0x0A0B0D) | graph(_8=("EmptyImage", {**EMPTY, "width": 0}))

    assert plain.queue(prompt)["node_errors"] == {}


def test_only_the_targets_are_made_where_a_client_names_some(plain: Script) -> None:
    prompt = picture(color=0x0A0B0E) | graph(_9=preview(images=["1", 0]))

    reply = plain.queue(prompt, partial_execution_targets=["9"])

    history = wait_until(lambda: plain.get(f"/history/{reply['prompt_id']}"))
    assert set(history[reply["prompt_id"]]["outputs"]) == {"9"}
    nothing = refuse(plain, prompt, partial_execution_targets=["1"])
    assert nothing["error"]["type"] == "prompt_no_outputs"


def test_an_id_that_the_client_gives_is_free_again_when_its_prompt_has_ended(
    plain: Script,
) -> None:
    prompt_id = str(uuid.uuid4())
    first = slow_picture(0.5, 1)

    assert plain.queue(first, prompt_id=prompt_id)["prompt_id"] == prompt_id
    status, body = plain.post("/prompt", {"prompt": picture(2), "prompt_id": prompt_id})
    assert (status, body["error"]["type"]) == (409, "job_id_in_use")

    wait_until(lambda: plain.get(f"/history/{prompt_id}"))
    assert plain.get(f"/api/jobs/{prompt_id}")["id"] == prompt_id
    assert plain.queue(picture(2), prompt_id=prompt_id)["prompt_id"] == prompt_id
    newest = wait_until(lambda: plain.get(f"/history/{prompt_id}"))
    assert newest[prompt_id]["prompt"][2] == picture(2)
    assert plain.get("/history")[prompt_id] == newest[prompt_id]
    assert plain.fetch("/history")[1].count(f'"{prompt_id}":'.encode()) == 1


def test_the_editors_workflow_is_written_into_the_picture(plain: Script) -> None:
    info = {"workflow": {"id": "my-workflow", "nodes": []}}

    reply = plain.queue(picture(3), extra_data={"extra_pnginfo": info})

    history = wait_until(lambda: plain.get(f"/history/{reply['prompt_id']}"))
    entry = history[reply["prompt_id"]]
    [file] = entry["outputs"]["3"]["images"]
    with Image.open(io.BytesIO(plain.view(file))) as image:
        assert json.loads(image.info["workflow"]) == info["workflow"]
        assert json.loads(image.info["prompt"])["1"]["class_type"] == "EmptyImage"
    assert entry["prompt"][3]["extra_pnginfo"] == info


def test_keys_of_the_client_are_shown_nowhere(plain: Script) -> None:
    secrets = {"auth_token_comfy_org": "token-9931", "api_key_comfy_org": "key-9931"}

    reply = plain.queue(slow_picture(0.3, 4), extra_data=secrets)

    for path in ("/queue", f"/history/{reply['prompt_id']}", f"/api/jobs/{reply['prompt_id']}"):
        assert b"9931" not in plain.fetch(path)[1]
    wait_until(lambda: plain.get(f"/history/{reply['prompt_id']}"))
    assert b"9931" not in plain.fetch(f"/history/{reply['prompt_id']}")[1]


def test_options_of_the_engine_cannot_be_slipped_in_beside_the_graph(plain: Script) -> None:
    hostile = {"comfyrail": {"checkpoint": "other-tenant/secret"}}

    reply = plain.queue(picture(5), extra_data=hostile)

    history = wait_until(lambda: plain.get(f"/history/{reply['prompt_id']}"))
    entry = history[reply["prompt_id"]]
    assert entry["status"]["status_str"] == "success"
    assert "comfyrail" not in entry["prompt"][3]


def test_a_prompt_for_the_front_overtakes_those_that_wait(plain: Script) -> None:
    for color in range(6):
        plain.queue(slow_picture(0.4, color))
    first = plain.queue(picture(77), front=True)
    numbered = plain.queue(picture(78), number=0.5)

    assert first["number"] < 0
    assert numbered["number"] == 0.5
    jobs = plain.get("/api/jobs?status=pending,in_progress,completed&sort_order=asc")["jobs"]
    assert jobs
    wait_until(lambda: plain.get(f"/history/{first['prompt_id']}"))
    assert plain.get("/prompt")["exec_info"]["queue_remaining"] >= 2


def test_numbers_that_json_has_not_count_as_null(plain: Script) -> None:
    """Python writes them into its JSON; the editor writes null."""
    extra_data = {"extra_pnginfo": {"workflow": {"id": "odd", "seen": [float("nan"), 1.5]}}}

    reply = plain.queue(picture(6), extra_data=extra_data)

    history = wait_until(lambda: plain.get(f"/history/{reply['prompt_id']}"))
    info = history[reply["prompt_id"]]["prompt"][3]["extra_pnginfo"]
    assert info["workflow"]["seen"] == [None, 1.5]
    wrong = picture(6)
    wrong["1"]["inputs"]["width"] = float("inf")
    [found] = refuse(plain, wrong)["node_errors"]["1"]["errors"]
    assert found["extra_info"]["input_name"] == "width"
    refuse(plain, picture(6), number=float("nan"))


def test_what_stands_beside_the_graph_has_limits(plain: Script) -> None:
    """The server answers others meanwhile: see the time of the second one."""
    too_much: tuple[dict[str, Any], ...] = ({"x": "y" * (5 << 20)}, {"x": [[]] * 300_000})
    for extra_data in too_much:
        assert "extra_data" in refuse(plain, picture(7), extra_data=extra_data)["error"]["message"]
    for name in ("client_id", "prompt_id", "number", "front", "partial_execution_targets"):
        assert name in refuse(plain, picture(7), **{name: [[]] * 600_000})["error"]["message"]


def test_a_prompt_of_far_too_many_nodes_is_refused_at_once(plain: Script) -> None:
    node = {"class_type": "PreviewImage", "inputs": {"images": ["0", 0]}}
    prompt = {str(number): node for number in range(200_000)}
    started = time.monotonic()

    refused = refuse(plain, prompt)

    assert refused["error"]["type"] == "limit_exceeded"
    assert "200,000 nodes" in refused["error"]["message"]
    assert refuse(plain, {"nodes": prompt})["error"]["type"] == "limit_exceeded"
    assert refuse(plain, prompt, partial_execution_targets=["1"])["node_errors"] == {}
    assert time.monotonic() - started < AT_ONCE


def test_the_same_prompt_under_its_key_is_told_what_was_told_before(
    house: Comfyrail,
) -> None:
    prompt = picture(color=0x0B0B0C)
    prompt |= graph(_8=("EmptyImage", {**EMPTY, "width": 0}), _9=preview(images=["8", 0]))
    key = {"Idempotency_Key": str(uuid.uuid4())}
    _, first, _ = house.fetch("POST", "/prompt", {"prompt": prompt}, **key)
    assert set(json.loads(first)["node_errors"]) == {"8"}
    forget_replies(house)

    status, again, headers = house.fetch("POST", "/prompt", {"prompt": prompt}, **key)

    assert (status, headers["idempotent-replayed"]) == (200, "true")
    assert json.loads(again) == json.loads(first)
    status, other = house.call("POST", "/prompt", {"prompt": picture(9)}, **key)
    assert (status, other["error"]["type"]) == (422, "idempotency_key_reused")
    for path in ("/run", "/runsync"):
        key = {"Idempotency_Key": str(uuid.uuid4())}
        body = {"input": {"workflow": picture(0x0B0B0D)}}
        _, first, _ = house.fetch("POST", path, body, **key)
        forget_replies(house)
        _, again, headers = house.fetch("POST", path, body, **key)
        assert json.loads(again)["id"] == json.loads(first)["id"]
        assert headers["idempotent-replayed"] == "true"


def forget_replies(house: Comfyrail) -> None:
    """As if the server had died between the job and the answer: the job alone knows of the key."""
    with contextlib.closing(sqlite3.connect(house.data / DATABASE_NAME)) as database, database:
        database.execute("DELETE FROM replies")
