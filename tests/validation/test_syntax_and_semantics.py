"""Stages 1 and 2 against the node types of a real ComfyUI [2.1, 2.2]."""

from typing import Any

import pytest

from comfyrail.workflow.capabilities import WorkerCapabilities
from comfyrail.workflow.catalog import parse_object_info
from tests.validation.parts import (
    catalog,
    codes,
    findings,
    node,
    object_info,
    shown_image,
    text_to_image,
    whole_catalog,
)


def options(**inputs: Any) -> dict[str, Any]:
    given = {"flag": True, "level": 1, "ratio": 1.0, "size": "auto"} | inputs
    return shown_image(o=node("Options", **given))


def test_the_usual_workflow_has_no_findings() -> None:
    assert findings(text_to_image()) == []


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({"level": 10**400}, "number_too_large"),
        ({"level": "9" * 30}, "number_too_large"),
        ({"level": float("inf")}, "not_a_number"),
        ({"ratio": float("nan")}, "not_a_number"),
        ({"ratio": "nan"}, "invalid_input_type"),
        ({"ratio": 10**400}, "number_too_large"),
        ({"ratio": 2.6}, "value_bigger_than_max"),
        ({"ratio": "0.4"}, "value_smaller_than_min"),
        ({"size": 3}, "value_not_in_list"),
        ({"mask": 5}, "needs_link"),
        ({"mask": {"__value__": [1]}}, "needs_link"),
        ({"extra": "\ud800"}, "bad_text"),
        ({"extra": {"deep": [float("nan")]}}, "not_a_number"),
        ({"extra": object()}, "not_json"),
        ({"nobody asked": {1, 2}}, "not_json"),
    ],
)
def test_values_that_cannot_be_are_named_with_a_reason(inputs: Any, reason: str) -> None:
    found = findings(options(**inputs))
    assert [each.error_code for each in found] == ["SCHEMA_VALIDATION_ERROR"]
    assert found[0].details["reason"] == reason
    assert found[0].path == f"o.inputs.{next(iter(inputs))}"


@pytest.mark.parametrize(
    "inputs",
    [
        {"size": 4},
        {"size": 4.0},
        {"level": -(2**63)},
        {"level": 2**64 - 1},
        {"ratio": 2},
        {"flag": 1},
        {"flag": "yes"},
        {"mask": None},
        {"extra": {"any": ["thing", 1, None]}},
        {"unknown": "ignored by ComfyUI"},
    ],
)
def test_values_that_comfyui_takes_pass(inputs: Any) -> None:
    assert findings(options(**inputs)) == []


def test_text_that_says_false_is_a_warning_because_it_counts_as_true() -> None:
    found = findings(options(flag="False"))
    assert [(each.severity, each.error_code) for each in found] == [("warning", "AMBIGUOUS_VALUE")]


def test_empty_list_of_choices_is_left_to_the_worker_unless_they_are_models() -> None:
    graph = shown_image(a=node("CustomCombo", choice="anything"), b=node("LoadLatent", latent="x"))
    assert findings(graph) == []


# Dynamic inputs


def resized(**inputs: Any) -> dict[str, Any]:
    rest = {"input": ["1", 0], "scale_method": "area"}
    return shown_image(r=node("ResizeImageMaskNode", **rest | inputs))


def test_parts_of_a_dynamic_choice_are_checked() -> None:
    kind = {"resize_type": "scale by multiplier"}
    assert codes(resized(**kind, **{"resize_type.multiplier": 2.0})) == []
    assert codes(resized(**kind, **{"resize_type.multiplier": 99})) == [
        ("SCHEMA_VALIDATION_ERROR", "r.inputs.resize_type.multiplier")
    ]
    assert codes(resized(**kind)) == [("MISSING_REQUIRED_INPUT", "r.inputs.resize_type.multiplier")]


def test_dynamic_choice_that_is_none_or_not_made_is_named() -> None:
    assert codes(resized()) == [("MISSING_REQUIRED_INPUT", "r.inputs.resize_type")]
    found = findings(resized(resize_type="scale by multiplyer"))
    assert found[0].path == "r.inputs.resize_type"
    assert found[0].details["nearest"] == ["scale by multiplier"]


def test_growing_list_needs_one_item_as_comfyui_runs_with_one() -> None:
    one = shown_image(b=node("BatchImagesNode", **{"images.image0": ["1", 0]}))
    none = shown_image(b=node("BatchImagesNode"))
    wrong = shown_image(b=node("BatchImagesNode", **{"images.image0": ["b2", 0]}))
    wrong["b2"] = node("EmptyLatentImage", width=64, height=64, batch_size=1)
    assert codes(one) == []
    assert codes(none) == [("MISSING_REQUIRED_INPUT", "b.inputs.images")]
    assert codes(wrong) == [("TYPE_MISMATCH", "b.inputs.images.image0")]


def test_match_types_take_anything_as_comfyuis_server_does() -> None:
    graph = shown_image(s=node("ComfySwitchNode", switch=True, on_false=["1", 0], on_true=["1", 0]))
    assert findings(graph) == []


# Links


def test_link_with_a_number_as_id_is_told_how_to_be_written() -> None:
    graph = shown_image()
    graph["2"]["inputs"]["images"] = [1, 0]
    found = findings(graph)
    assert '["1", 0]' in found[0].message
    assert found[0].details["reason"] == "not_a_link"


@pytest.mark.parametrize(
    "link", [["1", -1], ["1", 10**5000], ["1", 1.0], ["\ud800", 0], ["x" * 10**6, 0], ["1", True]]
)
def test_links_into_nowhere_are_named_shortly(link: Any) -> None:
    graph = shown_image()
    graph["2"]["inputs"]["images"] = link
    found = findings(graph)
    assert [(each.error_code, each.path) for each in found] == [("BAD_LINK", "2.inputs.images")]
    assert len(found[0].message) < 300
    found[0].message.encode()
    str(found[0].details).encode()


def test_whole_number_written_as_a_float_is_a_slot() -> None:
    graph = shown_image()
    graph["2"]["inputs"]["images"] = ["1", 0.0]
    assert findings(graph) == []


def test_text_for_a_combo_is_a_mismatch_as_in_comfyui() -> None:
    graph = text_to_image(sampler_name=["t", 0])
    graph["t"] = node("PrimitiveString", value="euler")
    found = findings(graph)
    assert [each.error_code for each in found] == ["TYPE_MISMATCH"]
    assert (found[0].details["expected_type"], found[0].details["actual_type"]) == (
        "COMBO",
        "STRING",
    )


def test_all_cycles_that_share_no_node_are_named() -> None:
    graph = shown_image(
        a=node("ImageInvert", image=["b", 0]),
        b=node("ImageInvert", image=["a", 0]),
        c=node("ImageInvert", image=["c", 0]),
        d=node("ImageInvert", image=["a", 0]),
    )
    cycles = [sorted(each.details["cycle"]) for each in findings(graph)]
    assert cycles == [["a", "b"], ["c"]]


def test_cycles_are_told_up_to_a_limit_and_long_ones_shortly() -> None:
    graph: dict[str, Any] = shown_image()
    graph |= {f"s{i}": node("ImageInvert", image=[f"s{i}", 0]) for i in range(60)}
    ring = {f"r{i}": node("ImageInvert", image=[f"r{(i + 1) % 99}", 0]) for i in range(99)}
    many = findings(graph)
    assert len(many) == 20
    long = findings(shown_image() | ring)
    assert len(long) == 1
    assert len(long[0].details["cycle"]) == 99
    assert len(long[0].message) < 300


def test_input_that_is_missing_and_one_that_is_too_much_are_brought_together() -> None:
    graph = shown_image()
    graph["1"]["inputs"]["widht"] = graph["1"]["inputs"].pop("width")
    found = findings(graph)
    assert found[0].details["nearest"] == ["widht"]


# Models


def test_model_that_no_worker_has_is_named_with_folder_nearest_and_workers() -> None:
    graph = text_to_image()
    graph["c"]["inputs"]["ckpt_name"] = "sd1.5.safetensors"
    worker = WorkerCapabilities("w1", catalog())
    found = findings(graph, workers=[worker])
    assert [(each.stage, each.error_code) for each in found] == [("semantic", "MODEL_NOT_FOUND")]
    assert found[0].path == "c.inputs.ckpt_name"
    details = dict(found[0].details)
    assert details.pop("nearest")[0] == "sd15.safetensors"
    assert details == {"model": "sd1.5.safetensors", "folder": "checkpoints", "workers": ["w1"]}


def test_model_of_the_same_name_in_another_folder_is_the_nearest() -> None:
    graph = text_to_image()
    graph["c"]["inputs"]["ckpt_name"] = "sdxl_base_1.0.safetensors"
    assert findings(graph)[0].details["nearest"][0] == "XL/sdxl_base_1.0.safetensors"


def test_model_that_a_worker_tells_of_is_there_though_its_catalog_is_older() -> None:
    graph = text_to_image()
    graph["c"]["inputs"]["ckpt_name"] = "new.safetensors"
    told = {"checkpoints": {"new.safetensors": None}}
    assert findings(graph, workers=[WorkerCapabilities("w1", catalog(), models=told)]) == []


def test_choice_of_a_model_input_that_is_no_text_is_a_fault_of_syntax() -> None:
    graph = text_to_image()
    graph["c"]["inputs"]["ckpt_name"] = 5
    assert codes(graph) == [("SCHEMA_VALIDATION_ERROR", "c.inputs.ckpt_name")]


def test_checks_are_made_ready_once_for_each_type_of_a_catalog() -> None:
    own = parse_object_info(object_info())
    findings(text_to_image(), catalog=own)
    made = {make: dict(prepared) for make, prepared in own._prepared.items()}
    assert made
    assert {len(types) for types in made.values()} == {6}
    findings(text_to_image(seed=2), catalog=own)
    for make, prepared in own._prepared.items():
        assert all(prepared[name] is made[make][name] for name in made[make])


@pytest.mark.parametrize("value", [123, True, None, 1.5, {"a": 1}, {"__value__": ["x.png"]}])
def test_file_that_is_left_to_the_worker_is_named_by_a_text(value: Any) -> None:
    found = findings(shown_image(i=node("LoadImage", image=value)))
    assert [(each.path, each.details["reason"]) for each in found] == [
        ("i.inputs.image", "invalid_input_type")
    ]
    for name in ("uploaded later.png", {"__value__": "x.png"}):
        assert findings(shown_image(i=node("LoadImage", image=name))) == []


@pytest.mark.parametrize(
    ("class_type", "name", "more"),
    [
        ("SaveAudio", "audio", {"filename_prefix": "a"}),
        ("SaveVideo", "video", {"filename_prefix": "a", "format": "auto", "codec": "auto"}),
        ("SaveGLB", "mesh", {"filename_prefix": "a"}),
    ],
)
def test_sound_video_and_mesh_come_through_links_only(
    class_type: str, name: str, more: dict[str, Any]
) -> None:
    graph = {"s": node(class_type, **{name: "x"}, **more)}
    found = findings(graph, catalog=whole_catalog())
    assert [(each.path, each.details["reason"]) for each in found] == [
        (f"s.inputs.{name}", "needs_link")
    ]


@pytest.mark.parametrize("choice", [{"__value__": "scale dimensions"}, ["1", 0]])
def test_choice_on_which_other_inputs_depend_is_a_plain_literal(choice: Any) -> None:
    """Neither ComfyUI nor a check would know which inputs there are."""
    inputs = {"input": ["1", 0], "scale_method": "area", "resize_type.height": 10**9}
    graph = shown_image(r=node("ResizeImageMaskNode", resize_type=choice, **inputs))
    found = findings(graph)
    assert [(each.path, each.details["reason"]) for each in found] == [
        ("r.inputs.resize_type", "value_not_in_list")
    ]
