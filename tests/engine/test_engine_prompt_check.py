import json
import time
from pathlib import Path
from typing import Any

import pytest

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.definition import NodeDefinition, node
from comfyrail.engine.folders import Folders
from comfyrail.engine.prompt_check import PromptAccepted, PromptRefused, check_prompt
from tests.engine.worker_client import empty_image, invert, preview, simple_graph

# Replies of a real ComfyUI 0.7.0, their tracebacks emptied.
REFUSALS = json.loads((Path(__file__).parent / "data" / "refusals.json").read_text())


def check(prompt: Any, folders: Folders, *extra: NodeDefinition, targets: Any = None) -> Any:
    registry = builtin_registry()
    for definition in extra:
        registry.add(definition)
    return check_prompt(prompt, registry, folders, targets)


def accepted(prompt: Any, folders: Folders, **options: Any) -> PromptAccepted:
    verdict = check(prompt, folders, **options)
    assert isinstance(verdict, PromptAccepted), verdict
    return verdict


def refused(prompt: Any, folders: Folders, *extra: NodeDefinition) -> dict[str, Any]:
    verdict = check(prompt, folders, *extra)
    assert isinstance(verdict, PromptRefused), verdict
    return verdict.body


@pytest.mark.parametrize(
    "case",
    [case for case in REFUSALS if "prompt" in case["request"]],
    ids=lambda case: case["name"],
)
def test_a_bad_prompt_is_refused_in_comfyuis_words(case: Any, folders: Folders) -> None:
    targets = case["request"].get("partial_execution_targets")
    verdict = check(case["request"]["prompt"], folders, targets=targets)
    assert isinstance(verdict, PromptRefused)
    assert verdict.body == case["reply"]


def test_a_value_not_in_a_long_list_is_refused_without_the_list(folders: Folders) -> None:
    @node("Choose", required={"name": ([f"name{n}" for n in range(44)],)}, is_output=True)
    def choose(name: str) -> None:
        raise NotImplementedError(name)

    prompt = {"1": {"class_type": "Choose", "inputs": {"name": "zzz"}}}
    (found,) = refused(prompt, folders, choose)["node_errors"]["1"]["errors"]
    assert found == {
        "type": "value_not_in_list",
        "message": "Value not in list",
        "details": "name: 'zzz' not in (list of length 44)",
        "extra_info": {"input_name": "name", "input_config": None, "received_value": "zzz"},
    }


def test_a_link_of_the_wrong_type_is_refused_at_the_input(folders: Folders) -> None:
    prompt = {
        "1": {"class_type": "LoadImage", "inputs": {"image": "there.png"}},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 1]}},
    }
    body = refused(prompt, folders)
    details = "images, received_type(MASK) mismatch input_type(IMAGE)"
    assert body["error"]["details"] == f"Return type mismatch between linked nodes: {details}"
    assert body["node_errors"] == {
        "2": {
            "errors": [
                {
                    "type": "return_type_mismatch",
                    "message": "Return type mismatch between linked nodes",
                    "details": details,
                    "extra_info": {
                        "input_name": "images",
                        "input_config": ["IMAGE", {}],
                        "received_type": "MASK",
                        "linked_node": ["1", 1],
                    },
                }
            ],
            "dependent_outputs": ["2"],
            "class_type": "PreviewImage",
        }
    }


@pytest.mark.parametrize(
    ("given", "stored"), [("64", 64), (64.9, 64), (True, 1), ({"__value__": 7}, 7)]
)
def test_values_are_converted_in_the_stored_prompt(
    given: Any, stored: int, folders: Folders
) -> None:
    prompt = simple_graph()
    prompt["1"]["inputs"]["width"] = given
    checked = accepted(prompt, folders)
    assert checked.prompt["1"]["inputs"]["width"] == stored
    assert type(checked.prompt["1"]["inputs"]["width"]) is int
    assert prompt["1"]["inputs"]["width"] == given


def test_unknown_inputs_are_let_through(folders: Folders) -> None:
    prompt = simple_graph()
    prompt["1"]["inputs"]["note"] = ["anything", "at", "all"]
    assert accepted(prompt, folders).outputs == ["2"]


def test_good_outputs_run_though_others_are_bad(folders: Folders) -> None:
    prompt = {"1": empty_image(), "2": preview("1"), "3": empty_image(side=0), "4": preview("3")}
    checked = accepted(prompt, folders)
    assert checked.outputs == ["2"]
    assert checked.node_errors["3"]["dependent_outputs"] == ["4"]
    assert [error["details"] for error in checked.node_errors["3"]["errors"]] == [
        "width",
        "height",
    ]


def test_dependent_outputs_are_those_that_need_the_node(folders: Folders) -> None:
    prompt = {
        "1": empty_image(side=0),
        "2": preview("1"),
        "3": empty_image(-1),
        "4": preview("3"),
        "5": preview("1"),
    }
    errors = refused(prompt, folders)["node_errors"]
    assert errors["1"]["dependent_outputs"] == ["2", "5"]
    assert errors["3"]["dependent_outputs"] == ["4"]


def test_only_wanted_outputs_are_checked(folders: Folders) -> None:
    prompt = {"1": empty_image(), "2": preview("1"), "3": preview("nowhere")}
    checked = accepted(prompt, folders, targets=["2"])
    assert checked.outputs == ["2"]
    assert checked.node_errors == {}


@pytest.mark.parametrize(
    ("prompt", "path"),
    [
        ({"1": invert("2"), "2": invert("1"), "3": preview("1")}, "2 → 1 → 2"),
        ({"1": invert("1"), "3": preview("1")}, "1 → 1"),
    ],
)
def test_a_cycle_is_named(prompt: Any, path: str, folders: Folders) -> None:
    body = refused(prompt, folders)
    assert body["error"]["type"] == "prompt_outputs_failed_validation"
    assert path in body["error"]["details"]
    assert body["node_errors"] == {}


def test_a_cycle_refuses_the_prompt_though_another_output_is_good(folders: Folders) -> None:
    prompt = {"1": invert("1"), "2": preview("1"), "3": empty_image(), "4": preview("3")}
    assert "cycle" in refused(prompt, folders)["error"]["details"]


def test_a_cycle_that_no_output_needs_does_not_matter(folders: Folders) -> None:
    assert accepted({**simple_graph(), "9": invert("9")}, folders).outputs == ["2"]


def test_a_chain_of_ten_thousand_nodes_is_checked(folders: Folders) -> None:
    prompt = {"0": empty_image()}
    for index in range(1, 10_000):
        prompt[str(index)] = invert(str(index - 1))
    prompt["end"] = preview("9999")
    start = time.perf_counter()
    assert accepted(prompt, folders).outputs == ["end"]
    assert time.perf_counter() - start < 2


def test_a_fault_at_the_far_end_of_a_long_chain_is_found(folders: Folders) -> None:
    prompt = {"0": empty_image(side=0)}
    for index in range(1, 5_000):
        prompt[str(index)] = invert(str(index - 1))
    prompt["end"] = preview("4999")
    assert list(refused(prompt, folders)["node_errors"]) == ["0"]


@pytest.mark.parametrize(
    "prompt",
    [
        "x",
        None,
        5,
        ["x"],
        {"1": 5},
        {"1": {"class_type": ["x"], "inputs": {}}},
        {"1": {"class_type": 5}},
    ],
)
def test_a_prompt_that_is_no_graph_is_refused_clearly(prompt: Any, folders: Folders) -> None:
    body = refused(prompt, folders)
    assert body["error"]["type"] == "invalid_request"
    assert body["error"]["message"]
    assert body["node_errors"] == {}


@pytest.mark.parametrize(
    "link", [["1", "0"], ["1", 0.5], ["1", True], [["1"], 0], [None, 0], ["1", None], ["1", 10**30]]
)
def test_a_link_that_leads_nowhere_is_a_fault_of_its_node(link: Any, folders: Folders) -> None:
    prompt = {"1": empty_image(), "2": {"class_type": "PreviewImage", "inputs": {"images": link}}}
    (found,) = refused(prompt, folders)["node_errors"]["2"]["errors"]
    assert found["type"] == "exception_during_validation"


@pytest.mark.parametrize("inputs", [None, 5, "text", [1]])
def test_inputs_that_are_no_object_are_a_fault_of_their_node(inputs: Any, folders: Folders) -> None:
    prompt = {"1": {"class_type": "EmptyImage", "inputs": inputs}, "2": preview("1")}
    (found,) = refused(prompt, folders)["node_errors"]["1"]["errors"]
    assert found["type"] == "exception_during_inner_validation"
