"""Numbers that no database keeps are refused, on every surface: they never make the server fail."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from comfyrail.clock import Instant, SystemClock
from comfyrail.errors import MalformedRequest
from comfyrail.ids import TenantId
from comfyrail.store.access import AddressBlock
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.graphs import picture
from tests.processes import Comfyrail

NUMBERS = (2**63, -(2**63) - 1, 10**30)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await open_sqlite_store(tmp_path / "data", SystemClock())
    yield opened
    await opened.close()


async def test_store_refuses_a_number_that_it_cannot_keep_and_goes_on(
    store: SqliteStore,
) -> None:
    tenant = TenantId("t")
    for number in NUMBERS:
        with pytest.raises(MalformedRequest):
            await store.list_documents(tenant, "area", limit=number)
        with pytest.raises(MalformedRequest):
            await store.add_block(AddressBlock("b", "192.0.2.1/32", "", "u", Instant(number)))
    assert await store.put_document(tenant, "area", "name", b"{}", 0) == 1
    assert len(await store.list_documents(tenant, "area", limit=5)) == 1


def queries(process: Comfyrail, job_id: str) -> Iterator[tuple[str, str, str]]:
    """Of every route the queries that are numbers, with a path that is somewhere."""
    _, document = process.call("GET", "/openapi.json")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            for given in operation.get("parameters", ()):
                if given["in"] == "query" and "integer" in json.dumps(given["schema"]):
                    filled = path
                    for each in operation["parameters"]:
                        if each["in"] == "path":
                            filled = filled.replace(f"{{{each['name']}}}", job_id)
                    yield method.upper(), filled, given["name"]


def test_numbers_in_queries_are_bounded_on_every_route(running_server: Comfyrail) -> None:
    job_id = running_server.submit(picture(31))
    running_server.wait_for(job_id, "completed")
    found = list(queries(running_server, job_id))
    assert len(found) > 10
    for method, path, name in found:
        for number in NUMBERS:
            body: Any = {} if method == "POST" else None
            status, reply = running_server.call(method, f"{path}?{name}={number}", body)
            assert 400 <= status < 500, (method, path, name, number, reply)


def bodies(number: int, run_id: str) -> Iterator[tuple[str, str, Any]]:
    workflow = picture()
    for field in ("priority", "timeout", "queue_timeout", "max_retries", "not_before"):
        yield "POST", "/v1/workflows/execute", {"workflow": workflow, field: number}
        config = {field: number}
        body = {"workflow": workflow, "execution_config": config}
        yield "POST", "/v2/workflows/execute", body
    yield "POST", "/v1/batches", {"workflow": workflow, "repeat": number}
    for field in ("executionTimeout", "ttl"):
        yield "POST", "/run", {"input": {"workflow": workflow}, "policy": {field: number}}
    for field in ("priority", "max_retries", "timeout"):
        task = {"workflow_id": "x", "payload": {"workflow": workflow}, field: number}
        yield "POST", "/api/v1/tasks", task
    yield "POST", "/workflow/state", {"workflow_id": run_id, "version": number}
    for field in ("size", "expires_in"):
        session = {"name": "a.png", "size": 100, field: number}
        yield "POST", "/v1/uploads/sessions", session
    for field in ("jobs", "storage_bytes", "gpu_hours"):
        yield "POST", "/v1/users", {"user_id": "big", "quotas": {field: number}}
    yield "POST", "/v1/queue/pause", {"resume_at": number, "seconds": number}


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_in_bodies_are_bounded(running_server: Comfyrail, number: int) -> None:
    wish = {"worker": "local-1", "workflow": picture(33)}
    _, run = running_server.call("POST", "/comfyui/workflow/execute", wish)
    for method, path, body in bodies(number, run["workflow_id"]):
        status, reply = running_server.call(method, path, body)
        assert 400 <= status < 500, (path, body, status, reply)


def test_stream_behind_the_last_number_is_refused(running_server: Comfyrail) -> None:
    job_id = running_server.submit(picture(32))
    for path in (f"/stream/{job_id}", f"/runpod/any/stream/{job_id}"):
        status, body = running_server.call("GET", f"{path}?after={2**63}")
        assert status == 400, body
