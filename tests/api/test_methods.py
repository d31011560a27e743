"""HEAD for every GET, Allow for every wrong method, one shape for every error [10.6]."""

import json
import re

import pytest

from comfyrail.api.surfaces import OPERATIONS
from tests.api.errors import assert_error
from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail

OURS = re.compile(r"/(v1|v2|health|ready|metrics|docs|openapi\.json|$)")
READ = [
    path
    for (method, path), operation in OPERATIONS.items()
    if method == "get"
    and operation.status == 200
    and OURS.match(path)
    and path != "/v1/events/stream"  # it has no end
]


def filled(path: str, job_id: str, output_id: str) -> str:
    values = {
        "execution_id": job_id,
        "output_id": output_id,
        "worker_id": "local-1",
        "file": "docs.js",
    }
    return re.sub(r"{(\w+)}", lambda found: values.get(found[1], "SaveImage"), path)


def test_every_get_answers_head_with_the_same_status_and_no_body(
    running_server: Comfyrail,
) -> None:
    job_id = running_server.submit(picture(51))
    job = running_server.wait_for(job_id, "completed")
    output_id = job["result"]["outputs"][0]["output_id"]
    assert len(READ) > 30
    for path in READ:
        where = filled(path, job_id, output_id)
        status, _, _ = running_server.fetch("GET", where)
        answer, content, headers = running_server.fetch("HEAD", where)
        assert (answer, content) == (status, b""), path
        assert headers["x-request-id"]


def test_head_of_a_stream_does_not_wait_for_its_end(running_server: Comfyrail) -> None:
    job_id = running_server.submit(slow_picture(60))
    for version in ("v1/workflows/execution", "v2/workflows/executions"):
        status, content, headers = running_server.fetch("HEAD", f"/{version}/{job_id}/events")
        assert (status, content) == (200, b"")
        assert headers["content-type"].startswith("text/event-stream")
    assert running_server.fetch("HEAD", "/v1/events/stream")[:2] == (200, b"")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/workflows/execute", "POST"),
        ("/v2/workflows/execute", "POST"),
        ("/v1/workflows/execution/x", "GET, HEAD, PATCH"),
        ("/v1/workers", "GET, HEAD, POST"),
        ("/v1/workflows/x", "DELETE, GET, HEAD, PUT"),
        ("/openapi.json", "GET, HEAD"),
        ("/docs", "GET, HEAD"),
        ("/health", "GET, HEAD"),
    ],
)
@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PROPFIND"])
def test_wrong_method_names_the_right_ones(
    running_server: Comfyrail, path: str, allowed: str, method: str
) -> None:
    status, content, headers = running_server.fetch(method, path)
    assert (status, headers["allow"]) == (405, allowed)
    assert_error(json.loads(content), "METHOD_NOT_ALLOWED")


@pytest.mark.parametrize(
    "path", ["/v1/", "/v2/", "/v3/workflows/execute", "/docs/../x", "/docs/x", "/%00", "//", "/ü"]
)
def test_unknown_path_is_404_in_our_shape(running_server: Comfyrail, path: str) -> None:
    from urllib.parse import quote

    status, reply = running_server.call("GET", quote(path, safe="/%"))
    assert status == 404
    assert_error(reply, "ROUTE_NOT_FOUND")
