"""One catalog of workers that differ [1.5]."""

from typing import Any

from comfyrail.workflow.catalog import NodeCatalog, parse_object_info, types_match
from comfyrail.workflow.catalog_merge import (
    Difference,
    find_differences,
    merge_catalogs,
    share_types,
)


def catalog(inputs: dict[str, Any], output: list[str] | None = None) -> NodeCatalog:
    entry = {"input": {"required": inputs}, "output": output or ["IMAGE"]}
    return parse_object_info({"Node": entry})


def test_type_that_one_worker_has_is_known() -> None:
    merged = merge_catalogs([catalog({}), parse_object_info({"Other": {"output": []}})])
    assert set(merged.types) == {"Node", "Other"}


def test_choices_of_all_workers_are_choices() -> None:
    merged = merge_catalogs(
        [catalog({"name": [["a", "b"]]}), catalog({"name": ["COMBO", {"options": ["b", 3, "c"]}]})]
    )
    assert merged.types["Node"].inputs["name"].choices == ("a", "b", 3, "c")


def test_range_is_as_wide_as_the_widest() -> None:
    merged = merge_catalogs(
        [
            catalog({"n": ["INT", {"min": 1, "max": 8}], "m": ["INT", {"min": 0}]}),
            catalog({"n": ["INT", {"min": 0, "max": 4}], "m": ["INT", {}]}),
        ]
    )
    ports = merged.types["Node"].inputs
    assert (ports["n"].minimum, ports["n"].maximum) == (0, 8)
    assert ports["m"].minimum is None


def test_input_is_required_where_all_require_it() -> None:
    old = catalog({"image": ["IMAGE"], "mode": [["a"]]})
    new = catalog({"image": ["IMAGE"]})
    ports = merge_catalogs([old, new]).types["Node"].inputs
    assert ports["image"].required
    assert not ports["mode"].required


def test_where_kinds_differ_each_is_taken_and_given() -> None:
    first = catalog({"n": ["INT", {"min": 1}]}, ["IMAGE"])
    merged = merge_catalogs([first, catalog({"n": ["STRING", {}]}, ["MASK", "INT"])]).types["Node"]
    assert [output.type for output in merged.outputs] == ["IMAGE,MASK", "INT"]
    assert merged.inputs["n"].type == "INT,STRING"
    assert merged.inputs["n"].minimum is None
    assert all(types_match(merged.outputs[0].type, wanted) for wanted in ("IMAGE", "MASK"))


def test_output_node_of_one_worker_is_one() -> None:
    plain = {"input": {"required": {}}, "output": []}
    catalogs = [
        parse_object_info({"Node": plain}),
        parse_object_info({"Node": plain | {"output_node": True}}),
    ]
    assert merge_catalogs(catalogs).types["Node"].is_output
    assert list(find_differences(catalogs)) == [Difference("Node", "output_node")]


def test_differences_are_told() -> None:
    first = catalog({"n": ["INT", {"min": 1}], "c": [["a"]], "only": ["INT"]}, ["IMAGE"])
    second = catalog({"n": ["FLOAT", {"min": 2}], "c": [["b"]]}, ["MASK"])
    assert set(find_differences([first, second])) == {
        Difference("Node", "outputs"),
        Difference("Node", "inputs"),
        Difference("Node", "kind", "n"),
        Difference("Node", "range", "n"),
        Difference("Node", "choices", "c"),
    }
    assert list(find_differences([first, first])) == []


def test_equal_descriptions_are_kept_once() -> None:
    first = catalog({"n": ["INT", {"min": 1}]})
    again = share_types(catalog({"n": ["INT", {"min": 1}]}), [first])
    assert again.types["Node"] is first.types["Node"]
    other = share_types(catalog({"n": ["INT", {"min": 2}]}), [first])
    assert other.types["Node"].inputs["n"].minimum == 2
