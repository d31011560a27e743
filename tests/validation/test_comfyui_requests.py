"""Requests that a real ComfyUI was given: its faults are found here too, and named no worse."""

import copy
import json
from typing import Any

import pytest

from comfyrail.errors import InvalidWorkflow
from comfyrail.validation.findings import Finding
from comfyrail.validation.validate import validate
from comfyrail.workflow.graph import parse_workflow
from tests.validation.parts import DATA, context, findings

REQUESTS: dict[str, Any] = json.loads((DATA / "bad_requests.json").read_text())

EXPECTED: dict[str, list[tuple[str, str | None, str | None]]] = {
    "unknown_node": [("UNKNOWN_NODE_TYPE", "1", "1.class_type")],
    "missing_class_type": [("SCHEMA_VALIDATION_ERROR", "1", "1.class_type")],
    "missing_required_input": [
        ("MISSING_REQUIRED_INPUT", "1", "1.inputs.color"),
        ("MISSING_REQUIRED_INPUT", "2", "2.inputs.images"),
    ],
    "missing_required_upstream": [("MISSING_REQUIRED_INPUT", "1", "1.inputs.height")],
    "bad_type_int": [("SCHEMA_VALIDATION_ERROR", "1", "1.inputs.width")],
    "int_as_str_ok": [],
    "float_for_int_ok": [],
    "bool_for_int": [],
    "wrapped_value": [],
    "unknown_extra_input_ignored": [],
    "none_for_int": [("SCHEMA_VALIDATION_ERROR", "1", "1.inputs.width")],
    "value_smaller_than_min": [("SCHEMA_VALIDATION_ERROR", "1", "1.inputs.width")],
    "value_bigger_than_max": [("SCHEMA_VALIDATION_ERROR", "1", "1.inputs.width")],
    "value_not_in_list_short": [("SCHEMA_VALIDATION_ERROR", "3", "3.inputs.upscale_method")],
    "value_not_in_list_long": [("SCHEMA_VALIDATION_ERROR", "1", "1.inputs.sampler_name")],
    "return_type_mismatch": [("TYPE_MISMATCH", "2", "2.inputs.images")],
    "bad_link_len3": [("BAD_LINK", "2", "2.inputs.images")],
    "link_to_missing_node": [("BAD_LINK", "2", "2.inputs.images")],
    "link_slot_out_of_range": [("BAD_LINK", "2", "2.inputs.images")],
    "link_int_node_id": [("BAD_LINK", "2", "2.inputs.images")],
    "list_const": [("BAD_LINK", "1", "1.inputs.width")],
    "cycle_two_nodes": [("CIRCULAR_DEPENDENCY", "2", "2")],
    "cycle_self": [("CIRCULAR_DEPENDENCY", "1", "1")],
    "no_outputs": [("NO_OUTPUT_NODE", None, None)],
    "empty_prompt": [("SCHEMA_VALIDATION_ERROR", None, None)],
    "prompt_is_list": [("SCHEMA_VALIDATION_ERROR", None, None)],
    "prompt_is_string": [("SCHEMA_VALIDATION_ERROR", None, None)],
    "prompt_null": [("SCHEMA_VALIDATION_ERROR", None, None)],
    "node_is_not_dict": [("SCHEMA_VALIDATION_ERROR", "1", "1")],
    "class_type_not_str": [("SCHEMA_VALIDATION_ERROR", "1", "1.class_type")],
    "no_inputs_key": [
        ("MISSING_REQUIRED_INPUT", "1", f"1.inputs.{name}")
        for name in ("width", "height", "batch_size", "color")
    ],
    "output_no_inputs_key": [("MISSING_REQUIRED_INPUT", "2", "2.inputs.images")],
    # ComfyUI runs the good half and drops the rest without a word; here it is refused.
    "partial_good_and_bad_outputs": [("SCHEMA_VALIDATION_ERROR", "3", "3.inputs.width")],
    # Only a worker knows its input folder: the file may be uploaded with the job.
    "image_not_found": [],
}


def judge(prompt: Any) -> list[tuple[str, str | None, str | None]]:
    try:
        found = validate(parse_workflow(prompt), context())
    except InvalidWorkflow as error:
        carried = error.details.get("findings")
        if not carried:
            return [(error.code, None, None)]
        found = [Finding(**each) for each in carried]
    return [(each.error_code, each.node_id, each.path) for each in found]


def test_every_recorded_request_is_expected() -> None:
    assert EXPECTED.keys() == REQUESTS.keys()


@pytest.mark.parametrize("name", REQUESTS)
def test_findings_name_code_node_and_path(name: str) -> None:
    assert judge(REQUESTS[name]["prompt"]) == EXPECTED[name]


@pytest.mark.parametrize("name", sorted(REQUESTS.keys() - {"image_not_found"}))
def test_every_node_that_comfyui_blames_is_blamed(name: str) -> None:
    blamed = set(REQUESTS[name]["node_errors"])
    assert blamed <= {node for _, node, _ in judge(REQUESTS[name]["prompt"])}


def test_cycle_names_its_nodes_where_comfyui_says_nothing() -> None:
    found = findings(REQUESTS["cycle_two_nodes"]["prompt"])
    assert sorted(found[0].details["cycle"]) == ["1", "2"]
    assert "→" in found[0].message


def test_unknown_node_type_does_not_hide_the_other_faults() -> None:
    prompt = REQUESTS["unknown_node"]["prompt"] | {
        "3": {"class_type": "PreviewImage", "inputs": {}},
        "4": {"class_type": "PreviewImage", "inputs": {"images": ["77", 0]}},
        "5": {"class_type": "ImageInvert", "inputs": {"image": ["5", 0]}},
    }
    found = findings(prompt)
    assert [each.error_code for each in found] == [
        "UNKNOWN_NODE_TYPE",
        "MISSING_REQUIRED_INPUT",
        "BAD_LINK",
        "CIRCULAR_DEPENDENCY",
    ]


def test_other_faults_of_syntax_do_hide_what_comes_after() -> None:
    prompt = REQUESTS["bad_type_int"]["prompt"] | {
        "3": {"class_type": "PreviewImage", "inputs": {}}
    }
    assert judge(prompt) == [("SCHEMA_VALIDATION_ERROR", "1", "1.inputs.width")]


def test_number_that_is_none_is_named() -> None:
    prompt = copy.deepcopy(REQUESTS["int_as_str_ok"]["prompt"])
    prompt["1"]["inputs"]["width"] = float("nan")
    assert judge(prompt) == [("SCHEMA_VALIDATION_ERROR", "1", "1.inputs.width")]
