"""POST /prompt: what is taken, and in which words the rest is refused."""

import io
import json
import uuid
from typing import Any

import pytest
from PIL import Image

from tests.comfyui_surface.parts import Script
from tests.graphs import picture, slow_picture
from tests.processes import wait_until

MISMATCH = (
    "Return type mismatch between linked nodes: "
    "images, received_type(LATENT) mismatch input_type(IMAGE)"
)
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


def test_an_id_that_the_client_gives_is_kept_and_can_be_used_once(plain: Script) -> None:
    prompt_id = str(uuid.uuid4())

    assert plain.queue(picture(1), prompt_id=prompt_id)["prompt_id"] == prompt_id

    wait_until(lambda: plain.get(f"/history/{prompt_id}"))
    assert plain.get(f"/api/jobs/{prompt_id}")["id"] == prompt_id
    status, body = plain.post("/prompt", {"prompt": picture(2), "prompt_id": prompt_id})
    assert (status, body["error"]["type"]) == (409, "job_id_in_use")


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
