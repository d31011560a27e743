"""Subgraphs unfolded: ids, links through their walls, values on their outside."""

from typing import Any

import pytest

from comfyrail.errors import MalformedWorkflow
from tests.workflow_formats.editor_graphs import Drawing, convert, convert_with_notes

MUTED = 2
BYPASSED = 4


def invert(key: str = "sub") -> dict[str, Any]:
    """A subgraph of one node: an image and an amount go in, an image comes out."""
    inner = Drawing()
    node = inner.node("Invert", "image:IMAGE", "amount:FLOAT*", values=[0.25], id=7)
    return inner.as_subgraph(
        key, {"picture": [(node, "image")], "strength": [(node, "amount")]}, {"out": (node, 0)}
    )


def around(key: str = "sub", **fields: Any) -> Drawing:
    """Load → a use of the subgraph → Save."""
    drawing = Drawing()
    first = drawing.node("Load")
    use = drawing.node(key, "picture:IMAGE", "strength:FLOAT*", **fields)
    last = drawing.node("Save", "image:IMAGE")
    drawing.link(first, use, "picture")
    drawing.link(use, last, "image")
    drawing.subgraphs.append(invert(key))
    return drawing


def test_inner_nodes_have_the_path_to_them_as_id() -> None:
    assert convert(around().raw()) == {
        "1": {"class_type": "Load", "inputs": {}, "_meta": {"title": "Load"}},
        "3": {"class_type": "Save", "inputs": {"image": ["2:7", 0]}, "_meta": {"title": "Save"}},
        "2:7": {
            "class_type": "Invert",
            "inputs": {"amount": 0.25, "image": ["1", 0]},
            "_meta": {"title": "Invert it"},
        },
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"values": [0.75]},
        {"values": {"strength": 0.75}},
        {"widgets_values_named": {"strength": 0.75}},
        {"values": [None, 0.75], "properties": {"proxyWidgets": [["9", "x"], ["-1", "strength"]]}},
        {"values": [0.75], "properties": {"proxyWidgets": [["7", "amount"]]}},
        {
            "properties": {
                "proxyWidgetErrorQuarantine": [
                    {"originalEntry": ["-1", "strength"], "hostValue": 0.75}
                ]
            }
        },
    ],
)
def test_a_value_on_the_outside_counts_for_that_use(fields: dict[str, Any]) -> None:
    assert convert(around(**fields).raw())["2:7"]["inputs"]["amount"] == 0.75


@pytest.mark.parametrize("values", [[], [None], None])
def test_no_value_on_the_outside_leaves_the_inner_one(values: Any) -> None:
    assert convert(around(values=values).raw())["2:7"]["inputs"]["amount"] == 0.25


def test_the_inner_value_reaches_whatever_else_the_input_leads_to() -> None:
    inner = Drawing()
    node = inner.node("Invert", "image:IMAGE", "amount:FLOAT*", values=[0.25], id=7)
    seen = inner.node("Anything", "value:*", id=8)
    definition = inner.as_subgraph(
        "sub",
        {"picture": [(node, "image")], "strength": [(seen, "value"), (node, "amount")]},
        {"out": (node, 0)},
    )
    drawing = around()
    drawing.subgraphs[:] = [definition]
    assert convert(drawing.raw())["2:8"]["inputs"] == {"value": 0.25}


def test_two_uses_have_values_of_their_own() -> None:
    drawing = around(values=[0.5])
    drawing.node("sub", "picture:IMAGE", "strength:FLOAT*", values=[0.9])
    prompt = convert(drawing.raw())
    assert (prompt["2:7"]["inputs"]["amount"], prompt["4:7"]["inputs"]["amount"]) == (0.5, 0.9)
    assert "image" not in prompt["4:7"]["inputs"]


def test_a_link_to_the_outside_of_a_widget_reaches_the_inner_node() -> None:
    drawing = around(values=[0.5])
    number = drawing.node("Anything", "value:*", outputs=("*",))
    drawing.link(number, 2, "strength")
    assert convert(drawing.raw())["2:7"]["inputs"]["amount"] == ["4", 0]


def test_a_primitive_outside_reaches_the_inner_widget() -> None:
    drawing = around(values=[0.5])
    number = drawing.node("PrimitiveNode", values=[0.1], outputs=("FLOAT",))
    drawing.link(number, 2, "strength")
    assert convert(drawing.raw())["2:7"]["inputs"]["amount"] == 0.1


@pytest.mark.parametrize(("mode", "feeds"), [(MUTED, None), (BYPASSED, ["1", 0])])
def test_a_use_that_is_muted_or_bypassed_has_no_inner_nodes(mode: int, feeds: Any) -> None:
    prompt = convert(around(mode=mode).raw())
    assert set(prompt) == {"1", "3"}
    assert prompt["3"]["inputs"].get("image") == feeds


def nested(**fields: Any) -> Drawing:
    """`outer` is a use of `sub`, and shows its two inputs."""
    middle = Drawing()
    use = middle.node("sub", "picture:IMAGE", "strength:FLOAT*", id=5, **fields)
    outer = middle.as_subgraph(
        "outer",
        {"picture": [(use, "picture")], "strength": [(use, "strength")]},
        {"out": (use, 0)},
    )
    drawing = around("outer")
    drawing.subgraphs[:] = [outer, invert()]
    return drawing


def test_subgraphs_are_nested() -> None:
    prompt = convert(nested().raw())
    assert prompt["2:5:7"]["inputs"] == {"amount": 0.25, "image": ["1", 0]}
    assert prompt["3"]["inputs"] == {"image": ["2:5:7", 0]}


def test_the_outermost_value_counts() -> None:
    drawing = nested(values=[0.4])
    assert convert(drawing.raw())["2:5:7"]["inputs"]["amount"] == 0.4
    drawing.nodes[1]["widgets_values"] = [0.6]
    assert convert(drawing.raw())["2:5:7"]["inputs"]["amount"] == 0.6


@pytest.mark.parametrize("name", ["strength", "7: amount"])
def test_a_widget_shown_through_two_walls_is_found(name: str) -> None:
    drawing = nested()
    drawing.nodes[1]["properties"] = {"proxyWidgets": [["5", name]]}
    drawing.nodes[1]["widgets_values"] = [0.6]
    # Not linked to the wall: then only the list of shown widgets leads inside.
    outer = drawing.subgraphs[0]
    outer["nodes"][0]["inputs"][1]["link"] = None
    outer["inputs"][1]["linkIds"] = []
    assert convert(drawing.raw())["2:5:7"]["inputs"]["amount"] == 0.6


def test_definitions_may_be_inside_of_definitions() -> None:
    drawing = nested()
    inner = drawing.subgraphs.pop()
    drawing.subgraphs[0]["definitions"] = {"subgraphs": [inner]}
    assert "2:5:7" in convert(drawing.raw())


def test_what_goes_straight_through_a_subgraph_comes_out() -> None:
    inner = Drawing()
    inner.node("Invert", "image:IMAGE", values=[1.0], id=7)
    definition = inner.as_subgraph("sub", {"picture": []}, {"out": (-10, 0)})
    drawing = around()
    drawing.subgraphs[:] = [definition]
    assert convert(drawing.raw())["3"]["inputs"] == {"image": ["1", 0]}


def test_bypassed_and_rerouted_nodes_inside_are_followed() -> None:
    inner = Drawing()
    node = inner.node("Invert", "image:IMAGE", values=[1.0], mode=BYPASSED)
    reroute = inner.node("Reroute", ":*", outputs=("*",))
    inner.link(node, reroute, "")
    definition = inner.as_subgraph("sub", {"picture": [(node, "image")]}, {"out": (reroute, 0)})
    drawing = around()
    drawing.subgraphs[:] = [definition]
    prompt = convert(drawing.raw())
    assert set(prompt) == {"1", "3"}
    assert prompt["3"]["inputs"] == {"image": ["1", 0]}


def test_a_subgraph_that_contains_itself_is_refused() -> None:
    inner = Drawing()
    inner.node("sub")
    drawing = Drawing()
    drawing.node("sub")
    drawing.subgraphs.append(inner.as_subgraph("sub", {}, {}))
    with pytest.raises(MalformedWorkflow, match="contain themselves: 'sub'"):
        convert(drawing.raw())


def test_subgraphs_that_unfold_to_too_many_nodes_are_refused() -> None:
    drawing = Drawing()
    drawing.node("level 0")
    for level in range(30):
        inner = Drawing()
        for _ in range(10):
            inner.node(f"level {level + 1}")
        drawing.subgraphs.append(inner.as_subgraph(f"level {level}", {}, {}))
    with pytest.raises(MalformedWorkflow, match="at most 200000 are read"):
        convert(drawing.raw())


def test_subgraphs_that_are_nested_too_deep_are_refused() -> None:
    drawing = Drawing()
    drawing.node("level 0")
    for level in range(100):
        inner = Drawing()
        inner.node(f"level {level + 1}")
        drawing.subgraphs.append(inner.as_subgraph(f"level {level}", {}, {}))
    with pytest.raises(MalformedWorkflow, match="nested at most"):
        convert(drawing.raw())


def test_notes_name_nodes_inside_by_their_path() -> None:
    drawing = around()
    drawing.subgraphs[0]["nodes"][0]["type"] = "Odd"
    _, notes = convert_with_notes(drawing.raw())
    assert [note.node_id for note in notes] == ["2:7"]
