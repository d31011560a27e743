"""`input_params` [1.3]."""

import pytest

from comfyrail.errors import UnknownParameter
from comfyrail.workflow.catalog import parse_object_info
from comfyrail.workflow.graph import Workflow, parse_workflow
from comfyrail.workflow.parameters import apply_parameters
from tests.graphs import picture


@pytest.fixture
def workflow() -> Workflow:
    return parse_workflow(picture())


def test_parameter_is_set_by_node_id_and_by_title(workflow: Workflow) -> None:
    changed = apply_parameters(workflow, {"1.width": 99, "Save.filename_prefix": "mine"})
    assert changed.nodes["1"].inputs["width"] == 99
    assert changed.nodes["3"].inputs["filename_prefix"] == "mine"
    assert workflow.nodes["1"].inputs["width"] == 64


def test_nested_form_sets_several_inputs_of_a_node(workflow: Workflow) -> None:
    changed = apply_parameters(workflow, {"1": {"width": 5, "height": 6}})
    assert (changed.nodes["1"].inputs["width"], changed.nodes["1"].inputs["height"]) == (5, 6)


def test_unknown_input_is_an_error_with_the_nearest_name(workflow: Workflow) -> None:
    with pytest.raises(UnknownParameter, match=r"no input 'widht'\. Did you mean 'width'"):
        apply_parameters(workflow, {"1.widht": 5})


def test_unknown_node_is_an_error_with_the_nearest_target(workflow: Workflow) -> None:
    with pytest.raises(UnknownParameter, match=r"Did you mean 'Save\.filename_prefix'"):
        apply_parameters(workflow, {"Sve.filename_prefix": "x"})


def test_all_unknown_targets_are_reported(workflow: Workflow) -> None:
    with pytest.raises(UnknownParameter) as caught:
        apply_parameters(workflow, {"7.a": 1, "nothing": 2, "1.width": 3})
    assert [finding["path"] for finding in caught.value.details["findings"]] == [
        "input_params.7.a",
        "input_params.nothing",
    ]


def test_title_of_two_nodes_asks_for_an_id() -> None:
    raw = picture()
    raw["1"]["_meta"] = {"title": "Save"}
    with pytest.raises(UnknownParameter, match="belongs to nodes 1, 3"):
        apply_parameters(parse_workflow(raw), {"Save.filename_prefix": "x"})


def test_title_with_dots_and_dotted_inputs_are_found() -> None:
    raw = picture()
    raw["1"]["_meta"] = {"title": "v1.5 base"}
    raw["1"]["inputs"]["resize.by"] = 1
    changed = apply_parameters(
        parse_workflow(raw), {"v1.5 base.width": 7, "v1.5 base.resize.by": 2}
    )
    assert changed.nodes["1"].inputs["width"] == 7
    assert changed.nodes["1"].inputs["resize.by"] == 2


def test_input_that_only_the_catalog_knows_may_be_set(workflow: Workflow) -> None:
    info = {"EmptyImage": {"input": {"optional": {"extra": ["INT", {}]}}, "output": ["IMAGE"]}}
    changed = apply_parameters(workflow, {"1.extra": 3}, parse_object_info(info))
    assert changed.nodes["1"].inputs["extra"] == 3


def test_hostile_keys_cost_little(workflow: Workflow) -> None:
    with pytest.raises(UnknownParameter, match="longer than 500 characters"):
        apply_parameters(workflow, {"." * 100_000: 1})
    raw = {str(number): {"class_type": "A", "inputs": {"x": 1}} for number in range(300)}
    with pytest.raises(UnknownParameter) as caught:
        apply_parameters(parse_workflow(raw), {f"{number}.y": 1 for number in range(300)})
    said = [finding["message"] for finding in caught.value.details["findings"]]
    assert len(said) == 300
