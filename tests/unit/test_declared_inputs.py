"""Inputs that a workflow declares, and their values [1.3]."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.errors import InvalidWorkflow, MalformedWorkflow, UnknownParameter
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.declared_inputs import DeclaredInput, parse_declared_inputs
from comfyrail.workflow.declared_values import fit_declared_value
from comfyrail.workflow.graph import Workflow, parse_workflow
from comfyrail.workflow.parameters import apply_parameters, check_targets
from comfyrail.workflow.values import ValueFault
from tests.graphs import picture


@pytest.fixture
def workflow() -> Workflow:
    return parse_workflow(picture())


def declared(**fields: Any) -> tuple[DeclaredInput, ...]:
    return parse_declared_inputs([{"name": "size", "target": "1.width", **fields}])


def apply(workflow: Workflow, parameters: dict[str, Any], **fields: Any) -> Any:
    return apply_parameters(workflow, parameters, None, declared(**fields)).nodes["1"].inputs


def refused(workflow: Workflow, parameters: dict[str, Any], **fields: Any) -> dict[str, Any]:
    with pytest.raises(InvalidWorkflow) as caught:
        apply(workflow, parameters, **fields)
    (finding,) = caught.value.details["findings"]
    assert isinstance(finding, dict)
    return finding


def test_value_is_set_by_the_declared_name(workflow: Workflow) -> None:
    assert apply(workflow, {"size": 9})["width"] == 9
    assert workflow.nodes["1"].inputs["width"] == 64


def test_one_name_may_lead_to_several_places(workflow: Workflow) -> None:
    changed = apply(workflow, {"size": 9}, target=["1.width", "1.height"])
    assert (changed["width"], changed["height"]) == (9, 9)


def test_target_by_title_and_by_a_node_with_one_value(workflow: Workflow) -> None:
    for target in ("Save.filename_prefix", "Save", "3", "3.filename_prefix"):
        inputs = parse_declared_inputs({"prefix": target})
        changed = apply_parameters(workflow, {"prefix": "x"}, None, inputs)
        assert changed.nodes["3"].inputs["filename_prefix"] == "x"


def test_default_is_set_where_nothing_is_given(workflow: Workflow) -> None:
    assert apply(workflow, {}, default=7)["width"] == 7
    assert apply(workflow, {"size": None}, default=7)["width"] == 7
    assert apply(workflow, {"size": 8}, default=7)["width"] == 8
    assert apply(workflow, {})["width"] == 64


@pytest.mark.parametrize("default", [0, False, ""])
def test_default_may_be_nothing_much(workflow: Workflow, default: object) -> None:
    (made,) = declared(default=default)
    assert made.as_dict()["default"] == default
    assert apply(workflow, {}, default=default)["width"] == default


def test_what_is_set_on_the_node_counts_more(workflow: Workflow) -> None:
    assert apply(workflow, {"1.width": 5}, default=7)["width"] == 5
    assert apply(workflow, {"1": {"width": 5}, "size": 9})["width"] == 5


def test_required_input_is_demanded(workflow: Workflow) -> None:
    finding = refused(workflow, {}, required=True)
    assert "give it a value (input_params, or --set size=VALUE)" in finding["message"]
    assert (finding["error_code"], finding["path"]) == (
        "MISSING_REQUIRED_INPUT",
        "input_params.size",
    )
    assert apply(workflow, {"size": 3}, required=True)["width"] == 3
    assert apply(workflow, {"1.width": 3}, required=True)["width"] == 3
    assert apply(workflow, {}, required=True, default=4)["width"] == 4


def test_unknown_name_is_an_error_with_the_nearest_one(workflow: Workflow) -> None:
    with pytest.raises(UnknownParameter, match="Did you mean 'size'"):
        apply(workflow, {"sise": 1})


def test_declared_name_is_tried_before_a_node(workflow: Workflow) -> None:
    inputs = parse_declared_inputs({"Save": {"target": "1.width", "type": "integer"}})
    assert apply_parameters(workflow, {"Save": 5}, None, inputs).nodes["1"].inputs["width"] == 5


def test_envelope_declares_inputs() -> None:
    raw = {"nodes": picture(), "inputs": {"size": {"target": "1.width", "maximum": 9}}}
    raw["inputs"]["size"]["type"] = "integer"
    workflow = parse_workflow(raw)
    assert apply_parameters(workflow, {"size": 5}).nodes["1"].inputs["width"] == 5
    with pytest.raises(MalformedWorkflow, match="bigger than the maximum 9"):
        apply_parameters(workflow, {"size": 10})
    elsewhere = parse_declared_inputs({"other": "1.height"})
    with pytest.raises(UnknownParameter):
        apply_parameters(workflow, {"size": 5}, None, elsewhere)


def test_input_that_leads_nowhere_is_a_fault_of_the_workflow(workflow: Workflow) -> None:
    inputs = parse_declared_inputs({"a": "1.widht", "b": "nowhere", "c": "1.width", "d": "1"})
    with pytest.raises(MalformedWorkflow, match="Did you mean 'width'") as caught:
        check_targets(workflow, inputs, NodeCatalog())
    findings = caught.value.details["findings"]
    assert [each["path"] for each in findings] == [
        "inputs.a.target",
        "inputs.b.target",
        "inputs.d.target",
    ]


CATALOG = parse_object_info(
    {
        "EmptyImage": {
            "input": {"required": {"width": ["INT", {"min": 1, "max": 512}]}},
            "output": ["IMAGE"],
        },
        "ImageInvert": {"input": {"required": {"image": ["IMAGE"]}}, "output": ["IMAGE"]},
        "SaveImage": {
            "display_name": "Keep Image",
            "input": {
                "required": {"images": ["IMAGE"], "filename_prefix": ["STRING", {}]},
                "optional": {
                    "format": [["png", "webp", ["odd"]]],
                    "quality": ["COMBO", {"options": [1, 2]}],
                    "overlay": [["a.png"], {"image_upload": True}],
                    "model": [[]],
                    "vae_name": [["none"]],
                    "other_model": [["a.safetensors"]],
                    "mask": ["MASK"],
                    "curve": ["CURVE"],
                    "latent": ["IMAGE,STRING"],
                    "anything": ["*"],
                },
            },
            "output": [],
        },
        "LoadMask": {"input": {}, "output": ["MASK"]},
    }
)


def faults(workflow: Workflow, raw: Any, catalog: NodeCatalog = CATALOG) -> list[tuple[str, str]]:
    try:
        check_targets(workflow, parse_declared_inputs(raw), catalog)
    except MalformedWorkflow as error:
        return [(each["path"], each["message"]) for each in error.details["findings"]]
    return []


@pytest.mark.parametrize(
    ("target", "near"),
    [
        ("Saev.filename_prefix", "'Save.filename_prefix'"),
        ("Saev.zzzzzzzz", "'Save.filename_prefix'"),
        ("Saev.format", "'Save.format'"),
        ("Saev", "'Save'"),
        ("SaveImage.filename_prefix", "'Save.filename_prefix'"),
        ("Keep Image.filename_prefix", "'Save.filename_prefix'"),
        ("EmptyImage.width", "'1.width'"),
    ],
)
def test_target_with_a_typo_gets_the_nearest_one(
    workflow: Workflow, target: str, near: str
) -> None:
    ((path, message),) = faults(workflow, {"name": target})
    assert path == "inputs.name.target"
    assert f"No node is meant by the target '{target}'. Did you mean" in message
    assert near in message


def test_declared_name_is_not_proposed_as_a_target(workflow: Workflow) -> None:
    ((_, message),) = faults(workflow, {"savee": "Saevee"}, NodeCatalog())
    assert "'savee'" not in message.partition("leads nowhere")[2]


@pytest.mark.parametrize(
    ("declaration", "field", "said"),
    [
        ({"target": "2.image"}, "target", "takes IMAGE from another node"),
        ({"target": "Save.images", "type": "image"}, "target", "takes IMAGE from another node"),
        ({"target": "Save.mask"}, "target", "takes MASK from another node"),
        (
            {"target": "Save.format", "choices": ["png", "wepb"]},
            "choices",
            "'format' of node '3' (SaveImage) does not take: 'wepb'. Did you mean 'webp'?",
        ),
        (
            {"target": "Save.format", "choices": list("abcde")},
            "choices",
            "'a', 'b', 'c' and 2 more",
        ),
        ({"target": "Save.quality", "choices": [1, 3]}, "choices", "does not take: 3."),
        ({"target": "1.width", "choices": [64, 1024]}, "choices", "does not take: 1024."),
        ({"target": "1.width", "choices": ["wide"]}, "choices", "does not take: 'wide'."),
    ],
)
def test_declaration_that_the_nodes_cannot_take_is_refused(
    workflow: Workflow, declaration: Any, field: str, said: str
) -> None:
    ((path, message),) = faults(workflow, {"name": declaration})
    assert path == f"inputs.name.{field}"
    assert said in message
    assert faults(workflow, {"name": declaration | {"target": "3.images"}}, NodeCatalog()) == []


@pytest.mark.parametrize(
    "declaration",
    [
        {"target": "Save.format", "choices": ["webp"]},
        {"target": "Save.quality", "choices": [2]},
        {"target": "1.width", "choices": [64, "128"]},
        {"target": "Save.overlay", "choices": ["mine.png"]},
        {"target": "Save.model", "choices": ["anything"]},
        {"target": "Save.vae_name", "choices": ["of-another-worker"]},
        {"target": "Save.other_model", "choices": ["of-another-worker"]},
        {"target": "Save.format", "choices": ["png", "of-another-worker.gguf"]},
        {"target": "Save.filename_prefix", "choices": ["a", 1]},
        {"target": "Save.curve"},
        {"target": "Save.latent"},
        {"target": "Save.anything", "choices": [1]},
        {"target": "1.color", "choices": [1]},
    ],
)
def test_declaration_that_the_nodes_may_take_is_kept(workflow: Workflow, declaration: Any) -> None:
    assert faults(workflow, {"name": declaration}) == []


@pytest.mark.parametrize(
    ("fields", "value", "fitted"),
    [
        ({"type": "text"}, "a", "a"),
        ({"type": "text"}, 42, "42"),
        ({"type": "integer"}, "42", 42),
        ({"type": "integer"}, 42.0, 42),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "number", "minimum": 1, "maximum": 2}, 2, 2),
        ({"type": "boolean"}, True, True),
        ({"type": "boolean"}, "False", False),
        ({"type": "choice", "choices": ["a", "b"]}, "b", "b"),
        ({"choices": ["1", "2"]}, 2, "2"),
        ({"choices": [1, 2]}, 2, 2),
        ({"type": "seed"}, (1 << 64) - 1, (1 << 64) - 1),
        ({"type": "image"}, "a.png", "a.png"),
        ({"type": "any"}, {"a": [1]}, {"a": [1]}),
    ],
)
def test_value_that_fits(fields: dict[str, Any], value: Any, fitted: Any) -> None:
    (made,) = declared(**fields)
    got = fit_declared_value(made, value)
    assert (got, type(got)) == (fitted, type(fitted))


@pytest.mark.parametrize(
    ("fields", "value", "said", "reason"),
    [
        ({"type": "text"}, True, "must be a text", "invalid_input_type"),
        ({"type": "text"}, ["a"], "must be a text", "invalid_input_type"),
        ({"type": "integer"}, 1.5, "must be a whole number, not 1.5", "invalid_input_type"),
        ({"type": "integer"}, True, "must be a whole number", "invalid_input_type"),
        ({"type": "integer"}, "1_0", "must be a whole number", "invalid_input_type"),
        ({"type": "integer"}, 10**400, "must be a whole number", "invalid_input_type"),
        ({"type": "integer"}, float("inf"), "must be a whole number", "invalid_input_type"),
        ({"type": "number"}, "nan", "must be a number", "invalid_input_type"),
        ({"type": "number"}, 10**400, "must be a number", "invalid_input_type"),
        ({"type": "boolean"}, 1, "must be true or false", "invalid_input_type"),
        ({"type": "seed"}, -1, "smaller than the minimum 0", "value_smaller_than_min"),
        ({"type": "integer", "minimum": 8}, 7, "smaller than the minimum 8", None),
        ({"type": "number", "maximum": 8}, 8.5, "bigger than the maximum 8", None),
        ({"choices": ["round", "square"]}, "rond", "Did you mean 'round'", "value_not_in_list"),
        ({"choices": [1, 2]}, True, "none of the 2 choices", "value_not_in_list"),
        ({"choices": ["a"]}, ["a"], "must be one of the choices", "invalid_input_type"),
        ({"type": "image"}, "", "must be the name of an input file", "invalid_input_type"),
    ],
)
def test_value_that_does_not_fit_is_a_finding(
    workflow: Workflow, fields: dict[str, Any], value: Any, said: str, reason: str | None
) -> None:
    finding = refused(workflow, {"size": value}, **fields)
    assert (finding["error_code"], finding["path"]) == (
        "SCHEMA_VALIDATION_ERROR",
        "input_params.size",
    )
    assert said in finding["message"], finding["message"]
    assert reason in {None, finding["details"]["reason"]}


@pytest.mark.parametrize(
    ("raw", "path", "said"),
    [
        (5, "inputs", "a list or an object"),
        ([5], "inputs.0", "is an object, not 5"),
        ([{"target": "1.x"}], "inputs.0.name", "no name"),
        ([{"name": "a"}], "inputs.0.target", "needs a target"),
        ([{"name": "a b", "target": "1.x"}], "inputs.0.name", "a letter, then"),
        ([{"name": "1.x", "target": "1.x"}], "inputs.0.name", "a letter, then"),
        ({"a": {"target": []}}, "inputs.a.target", "like '6.text'"),
        ({"a": {"target": "1.x", "targets": ["1.x"]}}, "inputs.a.target", "needs a target"),
        ({"a": {"target": "1.x", "typ": "text"}}, "inputs.a.typ", "Did you mean 'type'"),
        ({"a": {"target": "1.x", "type": "string"}}, "inputs.a.type", "one of text, integer"),
        ({"a": {"target": "1.x", "type": []}}, "inputs.a.type", "one of text, integer"),
        ({"a": {"target": "1.x", "type": "choice"}}, "inputs.a.choices", "it needs them"),
        ({"a": {"target": "1.x", "type": "text", "choices": ["a"]}}, "inputs.a.choices", "belong"),
        ({"a": {"target": "1.x", "choices": []}}, "inputs.a.choices", "a list of 1 to"),
        ({"a": {"target": "1.x", "choices": [[]]}}, "inputs.a.choices", "a list of 1 to"),
        ({"a": {"target": "1.x", "type": "text", "minimum": 1}}, "inputs.a.minimum", "no minimum"),
        (
            {"a": {"target": "1.x", "type": "number", "minimum": 2, "maximum": 1}},
            "inputs.a.minimum",
            "more than its maximum",
        ),
        (
            {"a": {"target": "1.x", "type": "number", "maximum": float("nan")}},
            "inputs.a.maximum",
            "must be a number",
        ),
        (
            {"a": {"target": "1.x", "type": "integer", "maximum": 3, "default": 4}},
            "inputs.a.default",
            "its default is bigger than the maximum 3",
        ),
        ({"a": {"target": "1.x", "default": [1]}}, "inputs.a.default", "a text, a number"),
        ({"a": {"target": "1.x", "required": 1}}, "inputs.a.required", "true or false"),
        ({"a": {"target": "1.x", "label": "x" * 300}}, "inputs.a.label", "at most 200"),
        ({"a": "1.x", "A": "1.y"}, "inputs.A.name", "declared twice"),
        ({f"a{number}": "1.x" for number in range(201)}, "inputs", "At most 200"),
        ({"a": "." * 501}, "inputs.a.target", "like '6.text'"),
    ],
)
def test_declaration_that_is_not_right_is_explained(raw: Any, path: str, said: str) -> None:
    with pytest.raises(MalformedWorkflow) as caught:
        parse_declared_inputs(raw)
    (finding,) = caught.value.details["findings"]
    assert (finding["path"], finding["error_code"]) == (path, "SCHEMA_VALIDATION_ERROR")
    assert said in finding["message"], finding["message"]
    assert len(finding["message"]) < 400


def test_all_faults_of_a_declaration_are_reported() -> None:
    with pytest.raises(MalformedWorkflow, match="And 2 more") as caught:
        parse_declared_inputs({"a": {"target": 5, "type": 6}, "b": {}})
    assert len(caught.value.details["findings"]) == 3


def test_what_is_shown_can_be_declared_again() -> None:
    made = declared(type="integer", minimum=0, maximum=9, default=0, label="Size", required=True)
    again = parse_declared_inputs(json.loads(json.dumps([each.as_dict() for each in made])))
    assert again == made


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["name", "target", "type", "default", "choices", "minimum", "x"]),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=12,
)


@given(JSON, JSON)
def test_hostile_data_is_read_or_refused(raw: Any, value: Any) -> None:
    try:
        inputs = parse_declared_inputs(raw)
    except MalformedWorkflow:
        return
    for each in inputs:
        fitted = fit_declared_value(each, value)
        assert not isinstance(fitted, ValueFault) or fitted.message
