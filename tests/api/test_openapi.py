"""The OpenAPI document: complete, valid, and true [10.6]."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from comfyrail.api.heads import answer_head_too
from comfyrail.api.openapi import build_openapi
from comfyrail.api.surfaces import HOT_PATHS, OPERATIONS, ROUTERS
from tests.processes import Comfyrail

JSON = dict[str, Any]
OWN = re.compile(r" /(v1|v2)/")


@cache
def document() -> JSON:
    app = FastAPI(openapi_url=None)
    for router in ROUTERS:
        answer_head_too(router)
        app.include_router(router)
    made = json.loads(json.dumps(build_openapi(app, OPERATIONS, HOT_PATHS)))
    assert isinstance(made, dict)
    return made


def operations() -> Iterator[tuple[str, JSON]]:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


NAMES = [name for name, _ in operations()]


def operation(name: str) -> JSON:
    method, _, path = name.partition(" ")
    found = document()["paths"][path][method]
    assert isinstance(found, dict)
    return found


def resolved(part: JSON) -> JSON:
    while "$ref" in part:
        place: Any = document()
        for name in part["$ref"].removeprefix("#/").split("/"):
            place = place[name]
        part = place
    return part


def bodies(name: str) -> Iterator[tuple[str, str, JSON]]:
    """Where, content type and description of each body of an operation."""
    found = operation(name)
    for kind, content in found.get("requestBody", {}).get("content", {}).items():
        yield "request", kind, content
    for status, reply in found["responses"].items():
        for kind, content in resolved(reply).get("content", {}).items():
            yield status, kind, content


@cache
def registry() -> Registry[Any]:
    resource = Resource.from_contents(document(), default_specification=DRAFT202012)
    made: Registry[Any] = Registry().with_resource("urn:openapi", resource)
    return made


def faults_of(value: Any, schema: JSON) -> list[str]:
    text = json.dumps(schema).replace('"#/', '"urn:openapi#/')
    validator = Draft202012Validator(
        json.loads(text),
        registry=registry(),
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def test_document_is_valid_openapi() -> None:
    assert document()["openapi"].startswith("3.1")
    validate(document())


def test_every_shown_operation_is_in_it_and_nothing_else() -> None:
    shown = {
        f"{method} {re.sub(r':[a-z]+}', '}', path)}"
        for (method, path), each in OPERATIONS.items()
        if each.is_shown
    }
    assert set(NAMES) == shown


def test_names_of_operations_are_unique_and_stay() -> None:
    ids = [each["operationId"] for _, each in operations()]
    assert len(ids) == len(set(ids))
    assert operation("post /v2/workflows/execute")["operationId"] == "post_v2_workflows_execute"
    assert (
        operation("get /v1/workflows/execution/{execution_id}")["operationId"]
        == "get_v1_workflows_execution_by_execution_id"
    )


@pytest.mark.parametrize("name", NAMES)
def test_operation_says_what_it_is(name: str) -> None:
    found = operation(name)
    assert found["summary"]
    assert found["description"]
    assert found["tags"]
    assert "security" in found
    for parameter in found["parameters"]:
        assert parameter["schema"].get("type") or parameter["schema"].get("anyOf"), parameter
    assert {"400", "429", "500", "503"} <= set(found["responses"]) or not OWN.search(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_json_body_has_an_example_that_its_schema_allows(name: str) -> None:
    for where, kind, content in bodies(name):
        if kind != "application/json" or not content["schema"]:
            continue
        assert "example" in content, where
        assert faults_of(content["example"], content["schema"]) == [], where


@pytest.mark.parametrize(
    "path", ["/v1/assets/{asset_id}/content", "/api/v2/assets/{asset_id}/content"]
)
def test_files_may_be_of_any_content_type(path: str) -> None:
    for status in ("200", "206"):
        assert set(operation(f"get {path}")["responses"][status]["content"]) == {"*/*"}


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("post ")])
def test_every_post_takes_an_idempotency_key(name: str) -> None:
    assert "Idempotency-Key" in {each["name"] for each in operation(name)["parameters"]}


def test_headers_that_are_heeded_and_sent_are_described() -> None:
    execute = operation("post /v1/workflows/execute")
    assert {"Prefer", "Idempotency-Key", "X-Request-ID", "X-API-Version"} <= {
        each["name"] for each in execute["parameters"]
    }
    assert execute["deprecated"] is True
    accepted = execute["responses"]["202"]["headers"]
    assert {"Location", "Preference-Applied", "Deprecation", "Link"} <= set(accepted)
    assert "Retry-After" in resolved(execute["responses"]["429"])["headers"]
    status = operation("get /v2/workflows/executions/{execution_id}")
    assert "If-None-Match" in {each["name"] for each in status["parameters"]}
    assert {"wait", "after"} <= {each["name"] for each in status["parameters"]}
    assert "ETag" in status["responses"]["200"]["headers"]
    assert "deprecated" not in status


@pytest.mark.parametrize(
    "name",
    [
        "post /v1/workflows/execute",
        "post /v1/workflows/runsync",
        "post /v2/workflows/execute",
        "post /v2/workflows/runsync",
        "post /v1/workflows/validate",
        "post /v1/workflows/plan",
        "post /v1/workflows/convert",
        "post /v1/batches",
    ],
)
def test_example_of_a_request_works(running_server: Comfyrail, name: str) -> None:
    found = operation(name)
    path = name.partition(" ")[2]
    example = found["requestBody"]["content"]["application/json"]["example"]
    status, body = running_server.call("POST", path, example)
    assert status < 300, body
    schema = found["responses"][str(status)]["content"]["application/json"]["schema"]
    assert faults_of(body, schema) == []


def test_document_is_served_once_made_and_not_again_when_known(running_server: Comfyrail) -> None:
    status, content, headers = running_server.fetch("GET", "/openapi.json")
    assert (status, headers["content-type"]) == (200, "application/json")
    assert set(json.loads(content)["paths"]) == set(document()["paths"])
    known = {"If_None_Match": headers["etag"]}
    assert running_server.fetch("GET", "/openapi.json", **known)[:2] == (304, b"")
