"""Whatever comes, validation ends soon with findings that can be sent, and never fails."""

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from comfyrail.errors import InvalidWorkflow
from comfyrail.validation.context import ALL_STAGES
from comfyrail.validation.findings import refuse_errors
from comfyrail.validation.fixes import auto_fix
from comfyrail.validation.fleet_fit import fleet_report
from comfyrail.validation.optimize import apply_optimizations
from comfyrail.validation.policy import SecurityPolicy, WorkflowLimits
from comfyrail.validation.schemas import node_schema
from comfyrail.validation.validate import validate
from comfyrail.workflow import nearest
from comfyrail.workflow.capabilities import WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.graph import parse_workflow
from tests.validation.parts import FREE, catalog, codes, context, findings, node, shown_image
from tests.validation.strategies import NONSENSE, wrong_workflows

EVERYTHING = context(
    SecurityPolicy(allowed_domains=("*",)),
    stages=ALL_STAGES,
    workers=[WorkerCapabilities("w", catalog())],
)
BLIND = context(catalog=NodeCatalog(), stages=ALL_STAGES)


def send(data: Any) -> None:
    """As the server and its clients do; NaN would become null, and that is no number."""
    msgspec.json.encode(data)
    json.dumps(data, allow_nan=False)


def examine(graph: Any) -> None:
    """All that may be done with a workflow from outside."""
    try:
        workflow = parse_workflow(graph)
    except InvalidWorkflow:
        return
    for each in (EVERYTHING, BLIND):
        found = validate(workflow, each)
        send([finding.as_dict() for finding in found])
        mended, fixes = auto_fix(workflow, each)
        send([fix.as_dict() for fix in fixes])
        apply_optimizations(mended, each.catalog)
        fleet_report(workflow, each)
        if not any(finding.severity == "error" for finding in found):
            send(workflow.to_prompt())


@settings(max_examples=150, deadline=None)
@given(graph=wrong_workflows())
def test_any_value_in_any_input_gives_findings_that_can_be_sent(graph: Any) -> None:
    examine(graph)


@settings(max_examples=150, deadline=None)
@given(graph=NONSENSE)
def test_nonsense_gives_findings_that_can_be_sent(graph: Any) -> None:
    examine(graph)


def deep(depth: int, *, as_dict: bool = False) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if as_dict else [value]
    return value


@pytest.mark.parametrize("depth", [101, 10_000])
@pytest.mark.parametrize("as_dict", [True, False])
def test_values_that_are_nested_too_deeply_are_named(depth: int, as_dict: bool) -> None:
    value = deep(depth, as_dict=as_dict)
    graph = shown_image()
    for place in ("stranger", "color"):
        graph["1"]["inputs"] |= {"color": 0, place: {"__value__": value}}
        found = findings(graph)
        assert found[0].error_code == "SCHEMA_VALIDATION_ERROR"
        assert found[0].details["reason"] == "too_deep"
    graph["1"]["inputs"] = {"width": value}
    assert "1.inputs.width" in [each.path for each in findings(graph)]
    graph["9"] = node("Nobody", value={"x": value})
    assert len(findings(graph)) >= 2


def test_value_that_is_nested_as_deeply_as_allowed_passes() -> None:
    graph = shown_image()
    graph["1"]["inputs"]["stranger"] = deep(99, as_dict=True)
    assert findings(graph) == []


def test_far_too_many_nodes_are_refused_without_a_look_at_each() -> None:
    graph = {str(number): node("ImageInvert", image=["no", 0]) for number in range(100_000)}
    found = findings(graph)
    assert [each.error_code for each in found] == ["LIMIT_EXCEEDED"]
    assert found[0].details["actual"] == 100_000


def test_hundred_thousand_nodes_are_checked_where_they_are_allowed() -> None:
    graph = {"0": shown_image()["1"], "end": node("PreviewImage", images=["99999", 0])}
    for number in range(1, 100_000):
        graph[str(number)] = node("ImageInvert", image=[str(number - 1), 0])
    assert findings(graph, FREE) == []


def test_fifty_megabytes_of_text_are_refused_with_one_short_finding() -> None:
    graph = shown_image(p=node("PrimitiveStringMultiline", value="x" * 50_000_000))
    found = findings(graph)
    assert [each.details["limit"] for each in found] == ["max_string_length", "max_workflow_bytes"]
    assert all(len(each.message) < 200 for each in found)


def test_many_small_texts_count_together() -> None:
    policy = SecurityPolicy(limits=WorkflowLimits(max_workflow_bytes=1_000_000))
    graph = shown_image()
    graph["1"]["inputs"]["stranger"] = {str(number): "xxxx" for number in range(200_000)}
    assert [code for code, _ in codes(graph, policy=policy)] == ["LIMIT_EXCEEDED"]


def test_names_that_cannot_be_sent_are_named_so_that_they_can() -> None:
    graph: dict[Any, Any] = {
        5: node("EmptyImage"),
        "\ud800": node("EmptyImage", width="abc"),
        "x" * 10_000: node("EmptyImage"),
        "ok": node("Nobody\udfff", **{"\ud800": 1}),
        "links": node("ImageInvert", **{"image": ["ok", 0], "\ud801": ["ok", 0]}),
    }
    found = findings(graph)
    text = json.dumps([each.as_dict() for each in found], ensure_ascii=False)
    text.encode()
    assert len(text) < 5000
    reasons = [each.details.get("reason") for each in found]
    assert reasons.count("bad_name") == 5


def test_thousands_of_misspelt_choices_are_searched_for_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[str] = []

    def search(name: str, *_: Any, **__: Any) -> list[str]:
        searched.append(name)
        return []

    monkeypatch.setattr("comfyrail.workflow.nearest.nearest_names", search)
    inputs = {"image": ["1", 0], "upscale_method": "lanczo", "width": 1, "height": 1}
    graph = shown_image() | {
        f"s{number}": node("ImageScale", crop="centr", **inputs) for number in range(3000)
    }
    assert len(findings(graph, FREE)) == 6000
    assert len(searched) <= 10


def test_little_is_compared_to_find_a_node_that_may_be_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared: list[int] = []
    compare = nearest.common_length

    def count(places: Any, length: int, other: str) -> int:
        compared.append(len(other))
        return compare(places, length, other)

    monkeypatch.setattr(nearest, "common_length", count)
    letters = list("abcdefghijklmnopqrstuvwxyz0123456789" * 3)[:100]
    chance = random.Random(1)

    def name() -> str:
        chance.shuffle(letters)
        return "".join(letters)

    graph = {name(): shown_image()["1"] for _ in range(5000)}
    graph |= {f"s{number}": node("PreviewImage", images=[name(), 0]) for number in range(12)}
    assert len(findings(graph, FREE)) == 12
    assert 0 < sum(compared) <= nearest.CHARACTER_LIMIT


def test_refusal_of_a_hundred_thousand_faults_is_short() -> None:
    graph = {str(number): node("EmptyImage", width="x") for number in range(9_999)}
    with pytest.raises(InvalidWorkflow) as caught:
        refuse_errors(findings(graph, FREE))
    assert len(caught.value.details["findings"]) == 500


@pytest.mark.parametrize(
    "text",
    [
        "<" + " " * 1_000_000,
        "/" + "." * 1_000_000 + "x",
        "../" * 300_000 + "x",
        "eval" * 250_000,
        "eval " * 200_000,
        "os" + " " * 1_000_000,
        "%25" * 300_000,
        "http:" * 200_000,
        "a" * 1_000_000 + ":",
        ". " * 500_000,
        "[temp]" * 150_000,
        "import " * 150_000,
    ],
)
def test_texts_made_to_be_slow_are_judged_all_the_same(text: str) -> None:
    graph = shown_image(
        f=node("Formula", expression=text),
        r=node("RunTool", command=text),
        w=node("WebPicture", source=text),
        u=node("FetchImage", url=text),
        d=node("LoadFolder", directory=text),
        s=node("SaveImage", images=["1", 0], filename_prefix=text),
        j=node("StringConcatenate", string_a=text, string_b=text, delimiter=text),
        p=node("SaveImage", images=["1", 0], filename_prefix=["j", 0]),
    )
    found = findings(graph, SecurityPolicy(allowed_domains=("*",)))
    assert {each.error_code for each in found} == {"LIMIT_EXCEEDED"}
    assert findings(graph, FREE)


def test_worker_that_says_nonsense_of_its_types_does_no_harm() -> None:
    items = {"input": {"required": {"image": ["IMAGE", {}]}}, "prefix": "i", "min": 1}
    info = {
        "Endless": {
            "input": {
                "required": {"x": ["COMFY_AUTOGROW_V3", {"template": items | {"max": 10**9}}]}
            },
            "output": ["IMAGE"],
        },
        "Odd": {
            "input": {
                "required": {
                    "a": ["COMFY_AUTOGROW_V3"],
                    "b": ["COMFY_DYNAMICCOMBO_V3", {"options": [5]}],
                    "c": ["COMFY_DYNAMICSLOT_V3", 7],
                    "d": ["INT", {"min": "low", "max": None}],
                    "e": [[{"x": []}, ["y"]], {}],
                },
                "hidden": 5,
            },
            "output": [["a", "b"], None],
            "python_module": 7,
        },
    }
    graph = {
        "1": node("Endless", **{"x.i0": ["2", 0]}),
        "2": node("Odd", a=1, b="k", c=["1", 0], d=3, e={"__value__": {"x": []}}),
    }
    context_of_nonsense = context(catalog=parse_object_info(info), stages=ALL_STAGES)
    workflow = parse_workflow(graph)
    send([each.as_dict() for each in validate(workflow, context_of_nonsense)])
    auto_fix(workflow, context_of_nonsense)
    for node_type in context_of_nonsense.catalog.types.values():
        send(node_schema(node_type))
