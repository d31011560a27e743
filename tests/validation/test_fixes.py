"""Mending faults: what is clear is mended and listed, what is right is never touched [2.7]."""

from typing import Any

import pytest
from hypothesis import given, settings

from comfyrail.validation.fixes import Fix, auto_fix
from comfyrail.workflow.catalog import parse_object_info
from comfyrail.workflow.graph import parse_workflow
from tests.graphs import Graph
from tests.validation.parts import (
    FREE,
    context,
    findings,
    node,
    object_info,
    shown_image,
    text_to_image,
)
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
        ("scheduler", "karars", "karras"),
        ("scheduler", "exponetnail", "exponential"),
        ("sampler_name", "res_multistep_cfgpp", "res_multistep_cfg_pp"),
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


def test_number_that_is_a_choice_is_mended_and_what_comfyui_converts_is_left_as_it_is() -> None:
    graph = shown_image(o=node("Options", flag=True, level="3", ratio=1, size="4"))
    mended, fixes = fixed(graph)
    assert mended["o"]["inputs"] == {"flag": True, "level": "3", "ratio": 1, "size": 4}
    assert [fix.code for fix in fixes] == ["SCHEMA_VALIDATION_ERROR"]


def test_what_gives_a_warning_only_is_left_as_it_is() -> None:
    graph = shown_image(o=node("Options", flag="no", level=3, ratio=1, size=4))
    assert [each.error_code for each in findings(graph)] == ["AMBIGUOUS_VALUE"]
    workflow = parse_workflow(graph)
    assert auto_fix(workflow, context()) == (workflow, [])


OTHER_THINGS = [
    ("flux1-schnell.safetensors", ["flux1-dev.safetensors"]),
    ("wan_t2v_high_noise_14B.safetensors", ["wan_t2v_low_noise_14B.safetensors"]),
    ("wan_i2v_low_noise_14B.safetensors", ["wan_t2v_low_noise_14B.safetensors"]),
    ("model_v1.safetensors", ["model_v2.safetensors"]),
    ("model_fp8.safetensors", ["model_bf8.safetensors"]),
    ("night.safetensors", ["light.safetensors"]),
    ("style_a.safetensors", ["style_b.safetensors"]),
    ("ddim", ["ddpm"]),
    ("euler_a", ["euler"]),
    ("nearest", ["nearest-exact"]),
    ("dpm++_2m", ["dpm_2m"]),
    # One letter from each of two.
    ("karas", ["karras", "karass"]),
    ("refiner-large", ["refined-large", "refinet-large"]),
    # A word that is there elsewhere is no slip.
    ("based_small.safetensors", ["bases_small.safetensors", "based_large.safetensors"]),
]


@pytest.mark.parametrize(("given_name", "known"), OTHER_THINGS)
def test_name_of_another_thing_is_never_taken_for_a_misspelt_one(
    given_name: str, known: list[str]
) -> None:
    info = object_info()
    info["KSampler"]["input"]["required"]["sampler_name"][0] = known
    info["CheckpointLoaderSimple"]["input"]["required"]["ckpt_name"][0] = known
    limits = context(catalog=parse_object_info(info))
    graph = text_to_image(sampler_name=given_name)
    graph["c"]["inputs"]["ckpt_name"] = given_name
    assert auto_fix(parse_workflow(graph), limits)[1] == []


def test_dynamic_choice_is_mended() -> None:
    inputs = {"input": ["1", 0], "scale_method": "area", "resize_type.multiplier": 2.0}
    graph = shown_image(r=node("ResizeImageMaskNode", resize_type="Scale by multiplyer", **inputs))
    assert fixed(graph)[0]["r"]["inputs"]["resize_type"] == "scale by multiplier"
    graph["r"]["inputs"]["resize_type"] = {"__value__": "scale by multiplier"}
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
