"""A body that is not right is answered with what would be."""

import json
from typing import Any, Literal

import msgspec
import pytest

from comfyrail.api.messages import decode_json
from comfyrail.errors import MalformedRequest
from tests.processes import Comfyrail

GRAPH = {"1": {"class_type": "EmptyImage", "inputs": {}}}
V2 = "/v2/workflows/execute"


def refused(process: Comfyrail, body: Any, path: str = V2) -> dict[str, Any]:
    status, content, _ = process.fetch(
        "POST", path, json.dumps(body).encode(), Content_Type="application/json"
    )
    assert status == 400, content
    error: dict[str, Any] = json.loads(content)["error"]
    assert error["code"] == "MALFORMED_REQUEST"
    return error


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("priority", "execution_config.priority"),
        ("timeout", "execution_config.timeout"),
        ("not_before", "execution_config.not_before"),
        ("labels", "execution_config.labels"),
        ("auto_fix", "execution_config.auto_fix"),
    ],
)
def test_field_of_v1_is_told_its_place_in_v2(
    running_server: Comfyrail, field: str, place: str
) -> None:
    error = refused(running_server, {"workflow": GRAPH, field: 5})
    assert f"It goes into `{place}`" in error["message"]
    assert error["details"]["field"] == field


def test_engine_option_of_v1_is_told_its_place_in_v2(running_server: Comfyrail) -> None:
    error = refused(
        running_server, {"workflow": GRAPH, "execution_config": {"strategy": "parallel"}}
    )
    assert "It goes into `execution_config.engine.strategy`." in error["message"]


def test_misspelled_field_is_answered_with_the_nearest(running_server: Comfyrail) -> None:
    error = refused(running_server, {"workflow": GRAPH, "input_parms": {}})
    assert "Did you mean 'input_params'?" in error["message"]
    assert "workflow_id" in error["details"]["known"]


def test_unlike_field_is_answered_with_all(running_server: Comfyrail) -> None:
    error = refused(running_server, {"workflow": GRAPH, "zzz": 1})
    assert "`workflow`, `workflow_id`, `input_params`" in error["message"]


def test_choice_is_answered_with_its_values(running_server: Comfyrail) -> None:
    error = refused(running_server, {"workflow": GRAPH, "execution_config": {"queue_class": "x"}})
    assert "Only batch will do." in error["message"]
    assert error["details"]["allowed"] == ["batch"]


def test_values_are_found_in_lists_and_tables() -> None:
    class Item(msgspec.Struct):
        kind: Literal["a", "b"] | None = None

    class Body(msgspec.Struct):
        items: dict[str, list[Item]]

    decoder = msgspec.json.Decoder(Body)
    with pytest.raises(MalformedRequest, match=r"Use one of a, b\.") as raised:
        decode_json(b'{"items": {"x": [{"kind": "c"}]}}', decoder)
    assert raised.value.details["allowed"] == ["a", "b"]


@pytest.mark.parametrize("value", ["tomorrow", "2026-11-16", 5])
def test_time_is_answered_with_an_example(running_server: Comfyrail, value: Any) -> None:
    error = refused(running_server, {"workflow": GRAPH, "execution_config": {"not_before": value}})
    assert error["details"]["example"] in error["message"]
    assert error["details"]["path"] == "$.execution_config.not_before"
