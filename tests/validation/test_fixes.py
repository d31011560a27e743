"""Mending faults: what is clear is mended and listed, what is right is never touched [2.7]."""

from typing import Any

import pytest
from hypothesis import given, settings

from comfyrail.validation.fixes import Fix, auto_fix
from comfyrail.workflow.graph import parse_workflow
from tests.graphs import Graph
from tests.validation.parts import FREE, context, findings, node, shown_image, text_to_image
from tests.validation.strategies import right_workflows, wrong_workflows


def fixed(graph: Graph) -> tuple[Graph, list[Fix]]:
    workflow, fixes = auto_fix(parse_workflow(graph), context())
    return workflow.to_prompt(), fixes


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("sampler_name", "Euler", "euler"),
        ("sampler_name", "eulr", "euler"),
        ("sampler_name", " euler ", "euler"),
        ("sampler_name", "dpmpp-2m", "dpmpp_2m"),
        ("scheduler", "kaaras", "karras"),
        ("steps", "20.0", 20),
        ("steps", "1e2", 100),
        ("steps", 0, 1),
        ("steps", "99999", 1000),  # the policy allows fewer than the node type
        ("steps", {"__value__": -5}, 1),
        ("seed", 10**30, 2**64 - 1),
        ("seed", -1, 0),
        ("cfg", 1000.5, 100.0),
        ("cfg", "-3.5", 0.0),
        ("denoise", 2, 1.0),
    ],
)
def test_clear_faults_are_mended_and_listed(name: str, before: Any, after: Any) -> None:
    graph, fixes = fixed(text_to_image(**{name: before}))
    assert [(fix.node_id, fix.path) for fix in fixes] == [("k", f"k.inputs.{name}")]
    assert (fixes[0].before, fixes[0].after) == (before, after)
    assert type(graph["k"]["inputs"][name]) is type(after)
    assert fixes[0].code == "SCHEMA_VALIDATION_ERROR"
    assert fixes[0].as_dict()["after"] == after
    assert findings(graph, FREE) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sampler_name", "zzz"),
        ("sampler_name", "seeds_4"),
        ("sampler_name", "dpm_3"),
        ("sampler_name", 7),
        ("steps", "20.5"),
        ("steps", "many"),
        ("steps", None),
        ("steps", "nan"),
        ("cfg", float("nan")),
        ("cfg", "1,5"),
    ],
)
def test_what_is_not_clear_is_left_to_its_author(name: str, value: Any) -> None:
    workflow = parse_workflow(text_to_image(**{name: value}))
    mended, fixes = auto_fix(workflow, context())
    assert fixes == []
    assert mended is workflow


@pytest.mark.parametrize(
    ("given_name", "meant"),
    [
        ("SD15.safetensors", "sd15.safetensors"),
        ("sd-15.safetensors", "sd15.safetensors"),
        ("sdxl_base_1.0.safetensors", "XL/sdxl_base_1.0.safetensors"),
        ("XL\\sdxl_base_1.0.safetensors", "XL/sdxl_base_1.0.safetensors"),
    ],
)
def test_names_of_models_are_mended(given_name: str, meant: str) -> None:
    graph = text_to_image()
    graph["c"]["inputs"]["ckpt_name"] = given_name
    mended, fixes = fixed(graph)
    assert mended["c"]["inputs"]["ckpt_name"] == meant
    assert [fix.code for fix in fixes] == ["MODEL_NOT_FOUND"]


def test_text_that_says_false_is_made_false() -> None:
    graph = shown_image(o=node("Options", flag="false", level="3", ratio=1, size="4"))
    mended, fixes = fixed(graph)
    assert mended["o"]["inputs"] == {"flag": False, "level": "3", "ratio": 1, "size": 4}
    assert [fix.code for fix in fixes] == ["AMBIGUOUS_VALUE", "SCHEMA_VALIDATION_ERROR"]


def test_dynamic_choice_is_mended() -> None:
    inputs = {"input": ["1", 0], "scale_method": "area", "resize_type.multiplier": 2.0}
    graph = shown_image(r=node("ResizeImageMaskNode", resize_type="Scale by multiplyer", **inputs))
    assert fixed(graph)[0]["r"]["inputs"]["resize_type"] == "scale by multiplier"


def test_unknown_types_and_broken_links_do_not_keep_the_rest_from_being_mended() -> None:
    graph = text_to_image(steps=0, model=["nowhere", 0])
    graph["x"] = node("Nobody", width="20.0")
    mended, fixes = fixed(graph)
    assert [fix.path for fix in fixes] == ["k.inputs.steps"]
    assert mended["x"] == graph["x"]


@settings(max_examples=60, deadline=None)
@given(graph=right_workflows())
def test_workflow_without_faults_is_never_changed(graph: Graph) -> None:
    assert findings(graph) == []
    workflow = parse_workflow(graph)
    mended, fixes = auto_fix(workflow, context())
    assert mended is workflow
    assert fixes == []


@settings(max_examples=150, deadline=None)
@given(graph=wrong_workflows())
def test_only_faulty_inputs_are_changed_and_then_have_no_fault(graph: Graph) -> None:
    workflow = parse_workflow(graph)
    mended, fixes = auto_fix(workflow, context())
    paths = {fix.path for fix in fixes}
    for name, entry in workflow.nodes.items():
        for input_name, value in entry.inputs.items():
            if f"{name}.inputs.{input_name}" not in paths:
                assert mended.nodes[name].inputs[input_name] is value
    assert mended.nodes.keys() == workflow.nodes.keys()
    assert auto_fix(mended, context())[1] == []
