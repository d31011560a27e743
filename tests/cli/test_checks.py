"""`comfyrail validate`, `plan` and `nodes` as a user types them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.graphs import picture
from tests.processes import Comfyrail, comfyrail


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    return saved(tmp_path, picture())


def saved(folder: Path, graph: Any) -> Path:
    path = folder / "workflow.json"
    path.write_text(json.dumps(graph))
    return path


def broken() -> dict[str, Any]:
    graph = picture()
    graph["1"]["inputs"]["width"] = -5
    graph["3"]["class_type"] = "SaveImge"
    return graph


def test_validate_says_that_a_workflow_can_run(workflow: Path, tmp_path: Path) -> None:
    ended = comfyrail("validate", str(workflow), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "can run: 0 errors, 0 warnings, 0 hints in 3 nodes" in ended.stdout


def test_validate_names_every_fault_and_exits_with_1(tmp_path: Path) -> None:
    ended = comfyrail("validate", str(saved(tmp_path, broken())), cwd=tmp_path)
    assert ended.returncode == 1
    assert "-5 is smaller than the minimum 1" in ended.stdout
    assert "Did you mean 'SaveImage'" in ended.stdout
    assert "cannot run: 2 errors" in ended.stdout


def test_validate_mends_and_writes_what_would_run(tmp_path: Path) -> None:
    graph = picture()
    graph["1"]["inputs"]["width"] = -5
    out = tmp_path / "mended.json"
    ended = comfyrail(
        "validate", str(saved(tmp_path, graph)), "--auto-fix", "-o", str(out), cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stdout
    assert "fixed" in ended.stdout
    assert json.loads(out.read_text())["1"]["inputs"]["width"] == 1


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_json_here_has_the_form_of_the_servers(
    command: str, running_server: Comfyrail, workflow: Path, tmp_path: Path
) -> None:
    here = json.loads(comfyrail(command, str(workflow), "--json", cwd=tmp_path).stdout)
    there = comfyrail(command, str(workflow), "--json", "--server", running_server.url)
    assert there.returncode == 0, there.stderr
    assert here.keys() == json.loads(there.stdout).keys()
    status, reply = running_server.call("POST", f"/v1/workflows/{command}", {"workflow": picture()})
    assert status == 200
    assert reply.keys() == here.keys()


def test_plan_shows_what_a_workflow_needs(workflow: Path, tmp_path: Path) -> None:
    ended = comfyrail("plan", str(workflow), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    for word in ("Signature", "Duration", "30 s by rule of thumb", "Cost", "Memory"):
        assert word in ended.stdout


def test_plan_of_what_cannot_run_says_why(tmp_path: Path) -> None:
    ended = comfyrail("plan", str(saved(tmp_path, broken())), cwd=tmp_path)
    assert ended.returncode == 1
    assert "SaveImage" in ended.stdout
    assert "nothing to plan" in ended.stderr


def test_catalog_file_counts_instead_of_the_engine(tmp_path: Path) -> None:
    catalog = tmp_path / "object_info.json"
    entry = {"input": {"required": {}}, "output": [], "output_node": True}
    catalog.write_text(json.dumps({"Only": entry | {"output": ["X"]}}))
    graph = {"1": {"class_type": "Only", "inputs": {}}}
    ended = comfyrail(
        "validate", str(saved(tmp_path, graph)), "--catalog", str(catalog), cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stdout


def test_workers_that_the_data_folder_remembers_count(
    running_server: Comfyrail, workflow: Path, tmp_path: Path
) -> None:
    ended = comfyrail(
        "plan", str(workflow), "--data", str(running_server.data), "--json", cwd=tmp_path
    )
    assert [worker["worker_id"] for worker in json.loads(ended.stdout)["workers"]] == ["local-1"]


def test_nodes_are_listed_and_described(running_server: Comfyrail) -> None:
    listed = comfyrail("nodes", "invert", "--server", running_server.url)
    assert "ImageInvert" in listed.stdout
    described = comfyrail("nodes", "EmptyImage", "--server", running_server.url)
    assert "width" in described.stdout
    assert "local-1" in described.stdout
    nothing = comfyrail("nodes", "no such thing", "--server", running_server.url)
    assert nothing.returncode == 1
