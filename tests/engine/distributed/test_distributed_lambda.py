"""Nodes as invocations of a function, against a server that keeps to the documented API."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from comfyrail.engine.distributed.aws_signature import Credentials, SignedRequest, sign
from comfyrail.engine.distributed.lambda_function import find_function
from comfyrail.engine.distributed.settings import LambdaSection
from comfyrail.engine.events import ExecutionFailed
from comfyrail.errors import ConfigurationError
from tests.engine.distributed.lambda_server import LambdaService
from tests.engine.distributed.parts import (
    PACK,
    Setup,
    coordinator,
    node,
    nodes_of_tests,
    run,
    sequentially,
    shown,
    started,
)
from tests.engine.distributed.server_thread import serving_in_thread

KEY_ID, SECRET, TOKEN = "AKIDTESTS", "secret/with+signs=", "token//of a session=="
FUNCTION = "arn:aws:lambda:eu-test-1:123456789012:function:render"


class OnLambda:
    def __init__(self, service: LambdaService, setup: Setup) -> None:
        self.service = service
        self.setup = setup

    def changed(self, **section: Any) -> Setup:
        raw = {**self.setup.distributed["aws_lambda"], **section}
        return replace(self.setup, distributed={"runner": "lambda", "aws_lambda": raw})


@pytest.fixture
def on_lambda(tmp_path: Path) -> Iterator[OnLambda]:
    setup = Setup(tmp_path, caching={"disk_path": str(tmp_path / "cache")})
    service = LambdaService(FUNCTION, KEY_ID, SECRET, TOKEN)
    with serving_in_thread(service.app()) as url:
        section = {
            "function": FUNCTION,
            "region": service.region,
            "endpoint_url": url,
            "access_key_id": KEY_ID,
            "secret_access_key": SECRET,
            "session_token": TOKEN,
            "most_attempts": 3,
        }
        setup = replace(setup, distributed={"runner": "lambda", "aws_lambda": section})
        service.environment = {
            "COMFYRAIL_CONFIG": str(setup.file),
            "COMFYRAIL_NODES": str(PACK),
            "RUN_LOG": str(setup.run_log),
        }
        yield OnLambda(service, setup)


def test_nodes_run_in_the_function_and_give_the_same(tmp_path: Path, on_lambda: OnLambda) -> None:
    service = on_lambda.service
    service.troubled = 1
    graph = {
        "1": node("CheckerboardImage", width=8, height=8, cell=2, color1="#fff", color2="#012"),
        "2": node("ImageInvert", image=["1", 0]),
        "3": node("Texts", value=7),
        "4": node("Later", value=["3", 0]),
        "out": node("Show", value=["2", 0]),
        "number": node("Show", value=["4", 0]),
    }
    with coordinator(on_lambda.setup) as executor:
        events = run(executor, graph)
    assert shown(events) == shown(sequentially(tmp_path / "plain", graph))
    assert (service.invocations, service.requests) == (4, 6)
    with coordinator(on_lambda.setup) as fresh:
        assert started(run(fresh, graph)) == []
    assert service.requests == 6


def failing(setup: Setup, graph: dict[str, Any], **registry: Any) -> ExecutionFailed:
    with coordinator(setup, **registry) as executor:
        end = run(executor, graph)[-1]
    assert isinstance(end, ExecutionFailed)
    return end


def one(kind: str) -> dict[str, Any]:
    return {"1": node(kind, value=5), "out": node("Show", value=["1", 0])}


def test_failures_of_the_node_of_the_function_and_of_time(on_lambda: OnLambda) -> None:
    end = failing(on_lambda.setup, one("Fail"))
    assert (end.exception_type, end.message) == ("ValueError", "not 5")
    end = failing(on_lambda.setup, one("Die"))
    assert end.exception_type == "comfyrail.engine.failures.WorkerLost"
    assert "Runtime.ExitError" in end.message
    assert end.recoverable
    registry = nodes_of_tests()
    registry.add(replace(registry["Hang"], timeout=0.2))
    end = failing(on_lambda.setup, one("Hang"), registry=registry)
    assert (end.kind, end.message) == ("timeout", "The node did not finish within 0.2 s.")
    assert on_lambda.service.invocations == 3


def test_a_node_ends_before_the_function_is_ended(on_lambda: OnLambda) -> None:
    on_lambda.service.seconds = 3.0
    end = failing(on_lambda.setup, one("Hang"))
    assert end.kind == "timeout"
    assert "did not finish" in end.message


def test_what_is_too_large_for_a_payload_runs_here(on_lambda: OnLambda) -> None:
    text = "x" * 6_100_000
    graph = {"1": node("Length", text=text), "out": node("Show", value=["1", 0])}
    with coordinator(on_lambda.setup) as executor:
        assert shown(run(executor, graph))["out"] == {"value": [len(text)]}
    assert on_lambda.service.requests == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"secret_access_key": "wrong"}, "InvalidSignatureException"),
        ({"session_token": "wrong"}, "security token"),
        ({"function": "unheard"}, "ResourceNotFoundException"),
    ],
)
def test_a_refusal_is_told_as_it_is(on_lambda: OnLambda, change: Any, said: str) -> None:
    end = failing(on_lambda.changed(**change), one("Number"))
    assert end.kind == "resource"
    assert said in end.message
    assert on_lambda.service.requests == 1


def test_a_service_that_is_always_busy_is_given_up(on_lambda: OnLambda) -> None:
    on_lambda.service.throttled = 99
    end = failing(on_lambda.setup, one("Number"))
    assert end.kind == "resource"
    assert "TooManyRequestsException" in end.message
    assert on_lambda.service.requests == 3


def test_a_signature_is_that_of_the_published_example() -> None:
    # "get-vanilla" of the test suite that AWS has published for Signature Version 4.
    example = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    headers = sign(
        SignedRequest("GET", "example.amazonaws.com", "/", "", {}, b""),
        example,
        region="us-east-1",
        service="service",
        now=datetime(2015, 8, 30, 12, 36, tzinfo=UTC),
    )
    assert headers["Authorization"].endswith(
        "SignedHeaders=host;x-amz-date, "
        "Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
    )
    assert "wJalr" not in repr(example)


def test_credentials_and_region_may_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="function"):
        find_function(LambdaSection())
    section = LambdaSection(function="render", qualifier="prod 2")
    with pytest.raises(ConfigurationError, match="AWS_REGION"):
        find_function(section)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with pytest.raises(ConfigurationError, match="AWS_ACCESS_KEY_ID"):
        find_function(section)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session")
    found = find_function(section)
    assert found.url == (
        "https://lambda.eu-central-1.amazonaws.com"
        "/2015-03-31/functions/render/invocations?Qualifier=prod%202"
    )
    assert found.credentials == Credentials("id", "hush", "session")
