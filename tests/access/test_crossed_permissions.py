"""What a permission keeps from somebody is kept from her on every surface."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.access.gate_parts import ask, bearer, code_of, gated_server
from tests.graphs import picture
from tests.processes import Comfyrail

JSON = "application/json"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    with gated_server(tmp_path_factory.mktemp("crossed") / "data", workers="1") as process:
        process.wait_ready()
        send(process, "/v1/uploads?name=secret.png", PNG, "image/png", "*")
        send(process, "/v1/workflows/mine", {"workflow": picture()}, JSON, "*", "PUT")
        yield process


def send(
    process: Comfyrail, path: str, body: Any, kind: str, permission: str, method: str = "POST"
) -> tuple[int, bytes]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = bearer("tess", permissions=permission.split())
    reply, said = ask(process, method, path, content, Content_Type=kind, **headers)
    return reply.status, said


@pytest.mark.parametrize("path", ["/view?filename=secret.png&type=input", "/internal/files/input"])
def test_uploads_are_not_read_without_assets_read(house: Comfyrail, path: str) -> None:
    for permissions, status in (("jobs:read", 403), ("jobs:read assets:read", 200)):
        reply, _ = ask(house, "GET", path, **bearer("tess", permissions=permissions.split()))
        assert reply.status == status


def test_node_types_do_not_name_uploads_without_assets_read(house: Comfyrail) -> None:
    for permissions, is_named in (("fleet:read", False), ("fleet:read assets:read", True)):
        headers = bearer("tess", permissions=["jobs:read", *permissions.split()])
        reply, said = ask(house, "GET", "/object_info", **headers)
        assert reply.status == 200
        assert (b"secret.png" in said) is is_named


def test_files_that_come_with_a_job_need_assets_write(house: Comfyrail) -> None:
    image = base64.b64encode(PNG).decode()
    body = {"input": {"workflow": picture(), "images": [{"name": "a.png", "image": image}]}}
    permissions = "jobs:read jobs:write"
    status, said = send(house, "/run", body, JSON, permissions)
    assert status == 403, said
    assert b"assets:write" in said
    status, said = send(house, "/run", body, JSON, f"{permissions} assets:write")
    assert status in {200, 202}, said


def test_workflow_of_the_library_runs_for_those_who_may_read_it(house: Comfyrail) -> None:
    permissions = "jobs:read jobs:write"
    for path in ("/v1/workflows/execute", "/v1/workflows/validate"):
        status, said = send(house, path, {"workflow_id": "mine"}, JSON, permissions)
        assert (status, code_of(said)) == (403, "PERMISSION_MISSING")
        status, said = send(
            house, path, {"workflow_id": "mine"}, JSON, f"{permissions} library:read"
        )
        assert status in {200, 202}, said


def test_output_does_not_become_an_asset_of_one_who_may_not_read_jobs(house: Comfyrail) -> None:
    body = {"output": {"execution_id": "x", "output_id": "y"}}
    status, said = send(house, "/v1/uploads", body, JSON, "assets:read assets:write")
    assert (status, code_of(said)) == (403, "PERMISSION_MISSING")
