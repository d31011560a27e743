"""What can be set in a workflow, and in that of a job, over HTTP."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from comfyrail.client import ComfyrailClient
from tests.graphs import Graph, picture, slow_picture
from tests.processes import Comfyrail
from tests.workflow_formats.pictures import png, text

FORM = "/v1/workflows/form"
LARGE = 2**63 + 12345
PHOTO = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de"
    "0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


def as_drawn(server: Comfyrail, graph: Graph) -> dict[str, Any]:
    """The graph in the editor's format."""
    drawn: dict[str, Any] = server.call("POST", "/v1/workflows/convert?to=editor", graph)[1]
    workflow: dict[str, Any] = drawn["workflow"]
    return workflow


def form_of(server: Comfyrail, content: bytes, kind: str = "application/json") -> dict[str, Any]:
    status, reply, _ = server.fetch("POST", FORM, content, Content_Type=kind)
    assert status == 200, reply
    found: dict[str, Any] = json.loads(reply)
    return found


def workflow_of(server: Comfyrail, job_id: str) -> dict[str, Any]:
    status, reply = server.call("GET", f"/v2/workflows/executions/{job_id}/workflow")
    assert status == 200, reply
    found: dict[str, Any] = reply
    return found


def values(form: Mapping[str, Any]) -> dict[str, Any]:
    """Of all fields, by what they are called in `input_params`."""
    return {
        f"{node['node_id']}.{field['name']}": field["value"]
        for node in form["nodes"]
        for field in node["fields"]
    }


def given(form: Mapping[str, Any]) -> set[str]:
    return {
        f"{node['node_id']}.{field['name']}"
        for node in form["nodes"]
        for field in node["fields"]
        if field["given"]
    }


def positions(form: Mapping[str, Any]) -> dict[str, Any]:
    return {node["node_id"]: node["position"] for node in form["nodes"]}


def drawn_positions(drawn: Mapping[str, Any]) -> dict[str, Any]:
    return {
        str(node["id"]): dict(
            zip(("x", "y", "width", "height"), (*node["pos"], *node["size"]), strict=True)
        )
        for node in drawn["nodes"]
    }


def test_form_has_every_value_and_what_may_be_set(running_server: Comfyrail) -> None:
    form = form_of(running_server, json.dumps(picture(5)).encode())
    assert set(form) == {"workflow", "format", "nodes", "nodes_total", "notes"}
    assert (form["workflow"], form["format"], form["notes"]) == (picture(5), "api", [])
    empty, invert, save = form["nodes"]
    assert set(empty) == {
        *("node_id", "class_type", "title", "known", "output_node", "description", "position"),
        *("links", "fields"),
    }
    assert [field["name"] for field in empty["fields"]] == [
        *("width", "height", "batch_size", "color"),
    ]
    assert set(empty["fields"][0]) == {
        *(
            "name",
            "type",
            "value",
            "given",
            "value_text",
            "default",
            "required",
            "minimum",
            "maximum",
        ),
        *("step", "choices", "choices_total", "multiline", "seed", "upload", "mask", "tooltip"),
    }
    assert invert["links"] == [{"input": "image", "node_id": "1", "output": 0}]
    assert (save["title"], save["output_node"], save["known"]) == ("Save", True, True)
    assert invert["title"] == "Invert Image"
    assert form["nodes_total"] == 3


def holders(server: Comfyrail) -> dict[str, tuple[bytes, str]]:
    graph = picture(6)
    drawn = as_drawn(server, graph)
    both = png(text("prompt", graph), text("workflow", drawn))
    return {
        "api": (json.dumps(graph).encode(), "application/json"),
        "editor": (json.dumps(drawn).encode(), "application/json"),
        "picture": (both, "image/png"),
        "text": (f"Look: {json.dumps(graph)} !".encode(), "text/plain"),
    }


@pytest.mark.parametrize("holder", ["api", "editor", "picture", "text"])
def test_every_field_is_taken_when_the_workflow_is_submitted(
    running_server: Comfyrail, holder: str
) -> None:
    form = form_of(running_server, *holders(running_server)[holder])
    assert form["format"] == ("editor" if holder in {"editor", "picture"} else "api")
    chosen = {**values(form), "1.width": 24, "3.filename_prefix": "again"}
    assert len(chosen) == 5
    job_id = running_server.submit(form["workflow"], input_params=chosen)
    made = running_server.wait_for(job_id, "completed")
    assert made["result"]["outputs"][0]["filename"].startswith("again")
    ran = workflow_of(running_server, job_id)
    assert (ran["execution_id"], ran["workflow_id"], ran["format"]) == (job_id, None, "api")
    assert values(ran) == chosen
    assert ran["workflow"]["1"]["inputs"]["width"] == 24
    has_places = form["format"] == "editor"
    assert positions(ran) == positions(form)
    assert all((place is not None) == has_places for place in positions(ran).values())


def test_workflow_of_a_job_runs_again_with_other_values(running_server: Comfyrail) -> None:
    drawn = as_drawn(running_server, picture(7))
    first = running_server.submit(drawn, input_params={"1.width": 40})
    running_server.wait_for(first, "completed")
    form = workflow_of(running_server, first)
    assert positions(form) == drawn_positions(drawn)
    again = running_server.submit(form["workflow"], input_params={"1.height": 32})
    running_server.wait_for(again, "completed")
    ran = values(workflow_of(running_server, again))
    assert (ran["1.width"], ran["1.height"]) == (40, 32)


def test_layout_is_kept_by_jobs_of_a_batch_and_by_retries(running_server: Comfyrail) -> None:
    drawn = as_drawn(running_server, picture(8))
    body = {"workflow": drawn, "items": [{"input_params": {"1.width": 16}}, {}]}
    batch = running_server.call("POST", "/v1/batches", body)[1]["batch_id"]
    jobs = running_server.call("GET", f"/v1/batches/{batch}/executions")[1]["executions"]
    widths = []
    for job in jobs:
        running_server.wait_for(job["execution_id"], "completed")
        form = workflow_of(running_server, job["execution_id"])
        assert positions(form) == drawn_positions(drawn)
        widths.append(values(form)["1.width"])
    assert widths == [16, 64]
    job_id = jobs[0]["execution_id"]
    for _ in range(2):
        path = f"/v2/workflows/executions/{job_id}/retry"
        job_id = running_server.call("POST", path)[1]["id"]
        running_server.wait_for(job_id, "completed")
        form = workflow_of(running_server, job_id)
        assert positions(form) == drawn_positions(drawn)
        assert values(form)["1.width"] == 16


def test_graph_of_comfyuis_editor_stands_where_it_was_drawn(running_server: Comfyrail) -> None:
    drawn = as_drawn(running_server, picture(9))
    extra = {"extra_pnginfo": {"workflow": drawn}}
    body = {"prompt": picture(9), "extra_data": extra}
    job_id = running_server.call("POST", "/prompt", body)[1]["prompt_id"]
    running_server.wait_for(job_id, "completed")
    assert positions(workflow_of(running_server, job_id)) == drawn_positions(drawn)
    again = running_server.call("POST", f"/v2/workflows/executions/{job_id}/retry")[1]
    assert positions(workflow_of(running_server, again["id"])) == drawn_positions(drawn)


def test_workflow_of_a_job_is_there_before_it_ends(running_server: Comfyrail) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    job_id = running_server.submit(slow_picture(60), not_before=later)
    links = running_server.call("GET", f"/v2/workflows/executions/{job_id}")[1]["links"]
    assert links["workflow"] == f"/v2/workflows/executions/{job_id}/workflow"
    assert workflow_of(running_server, job_id)["workflow"] == slow_picture(60)
    running_server.call("POST", links["cancel"])
    assert workflow_of(running_server, job_id)["workflow"] == slow_picture(60)
    unknown = links["workflow"].replace(job_id, "0" * len(job_id))
    assert running_server.call("GET", unknown)[0] == 404


def noise(seed: int) -> Graph:
    size = {"width": 8, "height": 8}
    return {
        "1": {"class_type": "NoiseImage", "inputs": {**size, "seed": seed}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "n"}},
    }


def test_large_seed_keeps_its_digits_as_a_text(running_server: Comfyrail) -> None:
    form = form_of(running_server, json.dumps(noise(LARGE)).encode())
    field = next(each for each in form["nodes"][0]["fields"] if each["name"] == "seed")
    assert (field["value"], field["value_text"], field["seed"]) == (LARGE, str(LARGE), True)
    # What the workflow lacks comes with the form too.
    lacking = {name: value for name, value in values(form).items() if name not in given(form)}
    assert lacking == {"1.scale": 128.0, "1.octaves": 6, "1.palette": None}
    chosen = {**lacking, "1.palette": "ocean", "1.seed": field["value_text"]}
    job_id = running_server.submit(noise(1), input_params=chosen)
    running_server.wait_for(job_id, "completed")
    assert int(values(workflow_of(running_server, job_id))["1.seed"]) == LARGE


def test_uploaded_file_is_found_when_a_jobs_workflow_is_submitted(
    running_server: Comfyrail,
) -> None:
    running_server.fetch("POST", "/v1/uploads?name=form.png", PHOTO, Content_Type="image/png")
    graph: Graph = {
        "1": {"class_type": "LoadImage", "inputs": {"image": "form.png"}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "f"}},
    }
    (field,) = form_of(running_server, json.dumps(graph).encode())["nodes"][0]["fields"]
    assert (field["upload"], field["mask"], field["value"]) == ("image", True, "form.png")
    job_id = running_server.submit(graph)
    running_server.wait_for(job_id, "completed")
    form = workflow_of(running_server, job_id)
    name = values(form)["1.image"]
    assert name.startswith("uploads/")
    again = running_server.submit(form["workflow"], input_params=values(form))
    running_server.wait_for(again, "completed")


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{}", "application/xml", 415),
        (b"nothing here", "text/plain", 422),
        (b'{"1": 5}', "application/json", 422),
        (b"\x89PNG\r\n\x1a\n", "image/png", 422),
        (b'{"1":' * 500 + b"1" + b"}" * 500, "application/json", 422),
    ],
    ids=["kind", "text", "no_node", "picture", "deep"],
)
def test_what_holds_no_workflow_is_refused(
    running_server: Comfyrail, content: bytes, kind: str, status: int
) -> None:
    assert running_server.fetch("POST", FORM, content, Content_Type=kind)[0] == status


def test_library_has_no_workflow_of_this_name(running_server: Comfyrail) -> None:
    status, reply = running_server.call("PUT", "/v1/workflows/form", {"workflow": picture()})
    assert (status, reply["error"]["code"]) == (422, "INVALID_WORKFLOW_NAME")


async def test_client_reads_forms(running_server: Comfyrail) -> None:
    async with ComfyrailClient(running_server.url) as client:
        form = await client.form(json.dumps(picture(11)).encode())
        assert [node.node_id for node in form.nodes] == ["1", "2", "3"]
        submitted = await client.submit(form.workflow, {"1.width": 20})
        await asyncio.to_thread(running_server.wait_for, submitted.execution_id, "completed")
        ran = await client.execution_form(submitted.execution_id)
        assert (ran.execution_id, ran.nodes[0].fields[0].value) == (submitted.execution_id, 20)
