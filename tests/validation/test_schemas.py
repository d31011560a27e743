"""The schemas as data: a small reader of JSON Schema agrees with validation."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from comfyrail.validation.schemas import node_schema, workflow_schema
from tests.validation.parts import DATA, catalog, node, text_to_image

KINDS: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
WORDS = """
$schema $defs $ref title description default type const enum anyOf required properties
additionalProperties patternProperties minProperties minimum maximum minLength prefixItems items
minItems
"""


def fits(schema: Any, value: Any, root: Any = None) -> bool:
    """Whether a value fits a schema made of the words above."""
    if isinstance(schema, bool):
        return schema
    root = root or schema
    assert schema.keys() <= set(WORDS.split()), schema
    if "$ref" in schema:
        return fits(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, root)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    checks = [
        not kinds or any(KINDS[kind](value) for kind in kinds),
        "const" not in schema or value == schema["const"],
        "enum" not in schema or value in schema["enum"],
        "anyOf" not in schema or any(fits(each, value, root) for each in schema["anyOf"]),
    ]
    if isinstance(value, dict):
        checks += _object_checks(schema, value, root)
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        checks.append(len(value) >= schema.get("minItems", 0))
        checks += [fits(each, item, root) for each, item in zip(first, value, strict=False)]
        checks += [fits(schema.get("items", True), item, root) for item in value[len(first) :]]
    if KINDS["number"](value):
        checks.append(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    if isinstance(value, str):
        checks.append(len(value) >= schema.get("minLength", 0))
    return all(checks)


def _object_checks(schema: Any, value: dict[str, Any], root: Any) -> list[bool]:
    known = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    checks = [
        len(value) >= schema.get("minProperties", 0),
        all(name in value for name in schema.get("required", [])),
    ]
    for name, item in value.items():
        matching = [each for pattern, each in patterns.items() if re.search(pattern, name)]
        if name in known:
            matching.append(known[name])
        if not matching:
            matching.append(schema.get("additionalProperties", True))
        checks += [fits(each, item, root) for each in matching]
    return checks


def test_right_workflow_fits_the_schemas() -> None:
    graph = text_to_image()
    json.dumps(workflow_schema())
    assert fits(workflow_schema(), graph)
    assert fits(workflow_schema(), {"nodes": graph, "name": "x"})
    for entry in graph.values():
        node_type = catalog().get(entry["class_type"])
        assert node_type is not None
        json.dumps(node_schema(node_type))
        assert fits(node_schema(node_type), entry)


def test_recorded_requests_fit_as_they_pass_or_not() -> None:
    requests = json.loads((DATA / "bad_requests.json").read_text())
    malformed = {
        "missing_class_type",
        "node_is_not_dict",
        "empty_prompt",
        "prompt_is_list",
        "prompt_is_string",
        "prompt_null",
        "class_type_not_str",
    }
    for name, each in requests.items():
        assert fits(workflow_schema(), each["prompt"]) == (name not in malformed), name


@pytest.mark.parametrize(
    "entry",
    [
        node("KSampler"),
        node("EmptyImage", width=0, height=1, batch_size=1, color=0),
        node("EmptyImage", width="64", height=1, batch_size=1, color=0),
        node("EmptyImage", width=["1", -1], height=1, batch_size=1, color=0),
        node("ImageInvert", image=5),
        node("ImageInvert", image=["1"]),
        node("ImageScale", image=["1", 0], upscale_method="x", width=1, height=1, crop="center"),
        node("ResizeImageMaskNode", input=["1", 0], scale_method="area", resize_type="x"),
    ],
)
def test_wrong_nodes_do_not_fit(entry: Any) -> None:
    node_type = catalog().get(entry["class_type"])
    assert node_type is not None
    assert not fits(node_schema(node_type), entry)


@pytest.mark.parametrize(
    "entry",
    [
        node("LoadImage", image="any.png"),
        node("BatchImagesNode", **{"images.image0": ["1", 0]}),
        node(
            "ResizeImageMaskNode",
            input=["1", 0],
            scale_method="area",
            resize_type="scale by multiplier",
            **{"resize_type.multiplier": 2.0},
        ),
        node("PreviewAny", source={"any": "thing"}),
    ],
)
def test_right_nodes_fit(entry: Any) -> None:
    node_type = catalog().get(entry["class_type"])
    assert node_type is not None
    assert fits(node_schema(node_type), entry)


def test_every_type_of_a_catalog_has_a_schema_that_is_json() -> None:
    for node_type in catalog().types.values():
        assert json.loads(json.dumps(node_schema(node_type)))["type"] == "object"
