"""Validation against a catalog: all faults, each with its place [2.1, 2.2]."""

from typing import Any

import pytest

from comfyrail.errors import InvalidWorkflow
from comfyrail.validation.findings import Finding, refuse_errors
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from tests.graphs import Graph, picture
from tests.validation import parts
from tests.validation.parts import FREE

OBJECT_INFO: dict[str, Any] = {
    "EmptyImage": {
        "input": {
            "required": {
                "width": ["INT", {"min": 1, "max": 16384}],
                "height": ["INT", {"min": 1, "max": 16384}],
                "batch_size": ["INT", {"min": 1}],
                "color": ["INT", {"min": 0}],
            }
        },
        "output": ["IMAGE"],
    },
    "ImageInvert": {"input": {"required": {"image": ["IMAGE"]}}, "output": ["IMAGE"]},
    "Mode": {
        "input": {"required": {"mode": [["fast", "slow"]], "new": ["COMBO", {"options": ["a"]}]}},
        "output": ["MASK", "*", "A,B"],
    },
    "LoadImage": {
        "input": {"required": {"image": [["a.png"], {"image_upload": True}]}},
        "output": ["IMAGE"],
    },
    "SaveImage": {
        "input": {"required": {"images": ["IMAGE"], "filename_prefix": ["STRING", {}]}},
        "output": [],
        "output_node": True,
    },
}
CATALOG = parse_object_info(OBJECT_INFO)


def findings(graph: Graph, catalog: NodeCatalog = CATALOG) -> list[Finding]:
    return parts.findings(graph, FREE, catalog=catalog)


def codes(graph: Graph, catalog: NodeCatalog = CATALOG) -> list[tuple[str, str | None]]:
    return [(each.error_code, each.path) for each in findings(graph, catalog)]


def changed(node: str, **inputs: Any) -> Graph:
    graph = picture()
    graph[node]["inputs"].update(inputs)
    return graph


def test_right_workflow_has_no_findings() -> None:
    assert codes(picture()) == []


@pytest.mark.parametrize("value", ["64", 64.9, True, {"__value__": 64}])
def test_values_that_comfyui_would_convert_pass(value: object) -> None:
    assert codes(changed("1", width=value)) == []


@pytest.mark.parametrize("value", ["abc", None, 0, 99999])
def test_values_of_the_wrong_type_or_range_are_named(value: object) -> None:
    assert codes(changed("1", width=value)) == [("SCHEMA_VALIDATION_ERROR", "1.inputs.width")]


def test_unknown_node_types_do_not_hide_other_faults_and_get_near_names() -> None:
    graph = changed("1", width="abc")
    graph["2"]["class_type"] = "ImageInvrt"
    found = findings(graph)
    assert [each.error_code for each in found] == ["SCHEMA_VALIDATION_ERROR", "UNKNOWN_NODE_TYPE"]
    assert found[1].details["nearest"] == ["ImageInvert"]


def test_choices_are_checked_in_both_spellings() -> None:
    graph = picture()
    graph["8"] = {"class_type": "Mode", "inputs": {"mode": "fst", "new": "b"}}
    assert [path for _, path in codes(graph)] == ["8.inputs.mode", "8.inputs.new"]


def test_file_names_are_left_to_the_worker() -> None:
    graph = picture()
    graph["1"] = {"class_type": "LoadImage", "inputs": {"image": "uploaded later.png"}}
    assert codes(graph) == []


def test_all_semantic_faults_come_together() -> None:
    graph = changed("3", images=["77", 0])
    del graph["1"]["inputs"]["height"]
    graph["2"]["inputs"]["image"] = ["1", 5]
    graph["5"] = {"class_type": "ImageInvert", "inputs": {"image": ["1", 0, 1]}}
    assert codes(graph) == [
        ("MISSING_REQUIRED_INPUT", "1.inputs.height"),
        ("BAD_LINK", "2.inputs.image"),
        ("BAD_LINK", "3.inputs.images"),
        ("BAD_LINK", "5.inputs.image"),
    ]


@pytest.mark.parametrize(("slot", "fits"), [(0, False), (1, True), (2, False)])
def test_types_of_links_follow_comfyuis_rules(slot: int, fits: bool) -> None:
    graph = changed("3", images=["8", slot])
    graph["8"] = {"class_type": "Mode", "inputs": {"mode": "fast", "new": "a"}}
    found = findings(graph)
    assert [each.error_code for each in found] == ([] if fits else ["TYPE_MISMATCH"])
    if not fits:
        assert found[0].details["from_node"] == "8"
        assert found[0].details["expected_type"] == "IMAGE"


def test_cycle_is_a_finding_that_names_its_nodes() -> None:
    graph = picture()
    graph["2"]["inputs"]["image"] = ["2", 0]
    found = findings(graph)
    assert found[0].error_code == "CIRCULAR_DEPENDENCY"
    assert found[0].details["cycle"] == ["2"]


def test_workflow_without_output_node_is_refused() -> None:
    graph = picture()
    del graph["3"]
    assert codes(graph) == [("NO_OUTPUT_NODE", None)]


def test_without_a_catalog_only_the_graph_itself_is_checked() -> None:
    graph = changed("3", images=["77", 0])
    graph["2"]["class_type"] = "Nobody knows"
    assert codes(graph, NodeCatalog()) == [("BAD_LINK", "3.inputs.images")]


def test_refusal_carries_every_finding() -> None:
    graph = changed("1", width=0, height=0)
    with pytest.raises(InvalidWorkflow, match="And 1 more") as caught:
        refuse_errors(findings(graph))
    assert len(caught.value.details["findings"]) == 2
    assert caught.value.code == "SCHEMA_VALIDATION_ERROR"


def test_nonsense_in_object_info_is_left_out() -> None:
    info = {"A": 5, "B": {"input": [], "output": "x"}, "C": {"input": {"required": {"x": None}}}}
    assert sorted(parse_object_info(info).types) == ["B", "C"]
    assert not parse_object_info([])


def test_thousands_of_faults_are_found_in_bounded_time_and_told_in_part() -> None:
    graph = {
        str(number): {"class_type": "ImageInvert", "inputs": {"image": [f"no {number}", 0]}}
        for number in range(5000)
    }
    found = findings(graph)
    assert len(found) == 5001
    suggestions = [each for each in found if "Did you mean" in each.message]
    assert len(suggestions) <= 10
    with pytest.raises(InvalidWorkflow) as caught:
        refuse_errors(found)
    assert len(caught.value.details["findings"]) == 500
    assert caught.value.details["errors"] == 5001


def test_long_values_are_cut_in_messages() -> None:
    found = findings(changed("1", width="x" * 1_000_000))
    assert len(found[0].message) < 300
