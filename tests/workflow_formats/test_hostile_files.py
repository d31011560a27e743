"""Files that mean harm: bounded time, no other error than MalformedWorkflow."""

import contextlib
import copy
import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from comfyrail.errors import InvalidWorkflow, MalformedWorkflow
from comfyrail.workflow.catalog import parse_object_info
from comfyrail.workflow.editor.source import read_workflow_source
from comfyrail.workflow.editor.workflow_from import workflow_from
from tests.workflow_formats.editor_graphs import CATALOG, Drawing
from tests.workflow_formats.pictures import png, text
from tests.workflow_formats.test_sources import webp_of_comfyui
from tests.workflow_formats.test_subgraphs import nested

scraps = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["1", "-10", -10, -20, 0, 1, 2, 4, 10**30, "sub", "Reroute", "GetNode"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "name", "link", "type"]), inner, max_size=3)
    ),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything in a JSON value."""
    found = [path] if path else []
    pairs = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    for key, inner in pairs:
        found.extend(places(inner, (*path, key)))
    return found


def rich_graph() -> dict[str, Any]:
    """Some of everything: nested subgraphs, reroutes, a primitive, bypassed and named nodes."""
    drawing = nested(values=[0.5])
    drawing.nodes[1]["properties"] = {"proxyWidgets": [["5", "strength"], ["-1", "strength"]]}
    reroute = drawing.node("Reroute", ":*", outputs=("*",))
    drawing.link(1, reroute, "")
    passed = drawing.node("Sample", "image:IMAGE", "seed:INT*", mode=4, values=[1, "fixed"])
    drawing.link(reroute, passed, "image")
    number = drawing.node("PrimitiveNode", values=[3], outputs=("INT",))
    drawing.link(number, passed, "seed")
    put = drawing.node("SetNode", "IMAGE:IMAGE", values=["name"])
    drawing.link(passed, put, "IMAGE")
    take = drawing.node("GetNode", values=["name"])
    kept = {"comfyrail": {"id": "x", "inputs": {"filename_prefix": {"widget": "a"}}}}
    save = drawing.node("SaveImage", "images:IMAGE", values=["%Load.x%"], properties=kept)
    drawing.link(take, save, "images")
    return drawing.raw()


GRAPH = rich_graph()
PLACES = places(GRAPH)


def test_the_graph_to_be_mangled_is_right() -> None:
    workflow, notes = workflow_from(copy.deepcopy(GRAPH), CATALOG)
    assert notes == ()
    assert workflow.nodes["x"].inputs["images"] == ["1", 0]
    assert workflow.nodes["2:5:7"].inputs == {"amount": 0.5, "image": ["1", 0]}


@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), scraps), min_size=1, max_size=4))
@settings(max_examples=600, deadline=None)
def test_a_mangled_graph_is_converted_or_refused(changes: list[tuple[Any, Any]]) -> None:
    graph = copy.deepcopy(GRAPH)
    for path, scrap in changes:
        *above, last = path
        at: Any = graph
        try:
            for key in above:
                at = at[key]
            at[last] = scrap
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    try:
        workflow, _ = workflow_from(graph, CATALOG)
    except MalformedWorkflow:
        return
    for node in workflow.nodes.values():
        json.dumps(node.inputs)


@given(info=scraps, more=scraps)
@settings(max_examples=200, deadline=None)
def test_a_catalog_that_makes_no_sense_breaks_nothing(info: Any, more: Any) -> None:
    types = ["COMFY_DYNAMICCOMBO_V3", "COMFY_AUTOGROW_V3", "COMFY_MATCHTYPE_V3", "COMBO", "INT"]
    inputs = {
        f"{kind} {at}": [kind, each] for kind in types for at, each in enumerate((info, more))
    }
    options = {"options": [info, {"key": "a", "inputs": more}], "template": more}
    inputs.update({f"{kind} options": [kind, options] for kind in types})
    catalog = parse_object_info({"It": {"input": {"required": inputs, "optional": info}}})
    drawing = Drawing()
    drawing.node("It", "a:IMAGE", values=["a", 1, "b"])
    workflow_from(drawing.raw(), catalog)


PICTURES = [
    png(text("prompt", {"1": {"class_type": "Load", "inputs": {}}}), text("workflow", GRAPH)),
    webp_of_comfyui(prompt={"1": {"class_type": "Load", "inputs": {}}}, workflow=GRAPH),
]


@given(
    content=st.sampled_from(PICTURES),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.binary(max_size=4)), max_size=5),
    cut=st.integers(0, 10**6),
)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.large_base_example])
def test_a_mangled_picture_is_read_or_refused(
    content: bytes, changes: list[tuple[int, bytes]], cut: int
) -> None:
    mangled = bytearray(content)
    for at, scrap in changes:
        place = at % len(mangled)
        mangled[place : place + len(scrap)] = scrap
    with contextlib.suppress(InvalidWorkflow):
        workflow_from(read_workflow_source(bytes(mangled[: 16 + cut % len(mangled)])), CATALOG)


@given(content=st.text(st.sampled_from('{}[]",:`~\n 1a\\'), max_size=60) | st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_or_refused(content: str | bytes) -> None:
    with contextlib.suppress(MalformedWorkflow):
        read_workflow_source(content)


def chain(length: int, kind: str, **fields: Any) -> dict[str, Any]:
    """Load → so many nodes → Save."""
    drawing = Drawing()
    drawing.nodes = [{"id": 0, "type": "Load"}]
    for number in range(1, length + 1):
        slot = {"name": "image", "type": "IMAGE", "link": number}
        drawing.nodes.append({"id": number, "type": kind, "inputs": [slot], **fields})
        drawing._add(number, number - 1, 0, number, 0)
    raw = drawing.as_old_schema()
    slot = {"name": "image", "type": "IMAGE", "link": length + 1}
    raw["nodes"].append({"id": length + 1, "type": "Save", "inputs": [slot]})
    raw["links"].append([length + 1, length, 0, length + 1, 0, "IMAGE"])
    return raw


@pytest.mark.parametrize(
    ("length", "kind", "fields"),
    [
        (20_000, "Reroute", {}),
        (20_000, "Invert", {"mode": 4, "outputs": [{"type": "IMAGE"}]}),
        (100_000, "Invert", {}),
    ],
    ids=["reroutes", "bypassed", "nodes"],
)
def test_very_many_nodes_are_converted(length: int, kind: str, fields: dict[str, Any]) -> None:
    workflow, _ = workflow_from(chain(length, kind, **fields), CATALOG)
    assert workflow.nodes[str(length + 1)].inputs["image"][0] in {"0", str(length)}


def test_many_takers_of_one_long_chain_walk_it_once() -> None:
    raw = chain(20_000, "Reroute")
    for number in range(30_000, 50_000):
        slot = {"name": "image", "type": "IMAGE", "link": number}
        raw["nodes"].append({"id": number, "type": "Save", "inputs": [slot]})
        raw["links"].append([number, 20_000, 0, number, 0, "IMAGE"])
    begun = time.monotonic()
    workflow, _ = workflow_from(raw, CATALOG)
    assert time.monotonic() - begun < 30
    assert workflow.nodes["49999"].inputs == {"image": ["0", 0]}


def test_links_that_cannot_be_followed_in_time_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("comfyrail.workflow.editor.resolution.STEP_LIMIT", 300_000)
    raw = chain(5_000, "Reroute")
    # Every taker asks for another type, so nothing that was found helps the next.
    for number in range(10_000, 13_000):
        slot = {"name": "x", "type": f"TYPE{number}", "link": number}
        raw["nodes"].append({"id": number, "type": "Odd", "inputs": [slot]})
        raw["links"].append([number, 5_000, 0, number, 0, "*"])
    with pytest.raises(MalformedWorkflow, match="entangled"):
        workflow_from(raw, CATALOG)


def test_primitives_that_ask_for_each_other_come_to_an_end() -> None:
    drawing = Drawing()
    for number in range(1, 4_000, 2):
        drawing.nodes.append(
            {
                "id": number,
                "type": "PrimitiveNode",
                "widgets_values": [f"%node {number + 3}.text%"],
                "properties": {"Run widget replace on values": True},
            }
        )
        slot = {"name": "text", "type": "STRING", "link": number, "widget": {"name": "text"}}
        drawing.nodes.append(
            {"id": number + 1, "type": "Text", "title": f"node {number + 1}", "inputs": [slot]}
        )
        drawing._add(number, number, 0, number + 1, 0)
    workflow, _ = workflow_from(drawing.raw(), CATALOG)
    assert len(workflow.nodes) == 2_000


def many_uses(inputs: int, uses: int) -> dict[str, Any]:
    """A subgraph with so many inputs, used so often."""
    inner = Drawing()
    inner.node("Load")
    drawing = Drawing()
    drawing.subgraphs.append(inner.as_subgraph("sub", {f"i{at}": [] for at in range(inputs)}, {}))
    drawing.nodes = [{"id": at, "type": "sub"} for at in range(uses)]
    return drawing.raw()


def test_inputs_of_subgraphs_count_for_every_use() -> None:
    with pytest.raises(MalformedWorkflow, match="unfold to 9000000 inputs and values: at most 100"):
        workflow_from(many_uses(3_000, 3_000), CATALOG)


def test_uses_of_a_subgraph_share_what_it_has() -> None:
    raw = many_uses(3_000, 300)
    tracemalloc.start()
    try:
        workflow, _ = workflow_from(raw, CATALOG)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()
    assert len(workflow.nodes) == 300


def test_values_count_for_every_use_of_the_subgraph_that_they_are_in() -> None:
    raw = many_uses(0, 1_001)
    raw["definitions"]["subgraphs"][0]["nodes"][0]["widgets_values"] = [0] * 1_000
    with pytest.raises(MalformedWorkflow, match="unfold to 1001000 inputs"):
        workflow_from(raw, CATALOG)


@pytest.mark.parametrize("text", ["x" * 100_000, "{a|b}" + "x" * 100_000], ids=["same", "chosen"])
def test_a_text_counts_for_every_place_that_it_goes_to(text: str) -> None:
    raw = many_uses(0, 1_000)
    inner = raw["definitions"]["subgraphs"][0]["nodes"][0]
    inner.update(type="Sample", widgets_values=[1, "fixed", 2, "heun", text])
    with pytest.raises(MalformedWorkflow, match="more than 32 million characters"):
        workflow_from(raw, CATALOG)


def test_long_ids_count_for_every_node_below_them() -> None:
    drawing = Drawing()
    drawing.nodes = [{"id": "a" * 400, "type": "level 0"}]
    for level in range(50):
        inner = Drawing()
        inner.nodes = [{"id": "a" * 400, "type": f"level {level + 1}"}]
        drawing.subgraphs.append(inner.as_subgraph(f"level {level}", {}, {}))
    inner.nodes[:] = [{"id": at, "type": "Load"} for at in range(10_000)]
    with pytest.raises(MalformedWorkflow, match="more than 32 million characters"):
        workflow_from(drawing.raw(), CATALOG)


def test_file_names_that_all_grow_are_refused_in_all() -> None:
    drawing = Drawing()
    drawing.node("Text", values=["x" * 1_000], title="T")
    for at in range(4_000):
        drawing.node("SaveImage", values=[f"{at}" + "%T.text%" * 10])
    with pytest.raises(MalformedWorkflow, match="more than 32 million characters"):
        workflow_from(drawing.raw(), CATALOG)


class CountedReads(dict[str, Any]):
    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.reads += 1
        return super().get(key, default)

    def items(self) -> Any:
        self.reads += len(self)
        return super().items()


def test_values_on_the_outside_of_a_subgraph_are_read_once() -> None:
    count = 500
    names = [f"i{at}" for at in range(count)]
    inner = Drawing()
    taker = inner.node("Odd", *(f"{name}:INT*" for name in names), values=[0] * count)
    definition = inner.as_subgraph("sub", {name: [(taker, name)] for name in names}, {})
    middle = Drawing()
    given = CountedReads({name: at for at, name in enumerate(names)})
    use = middle.node("sub", *(f"{name}:INT" for name in names), values=given)
    outer = middle.as_subgraph("outer", {name: [(use, name)] for name in names}, {})
    drawing = Drawing()
    drawing.node("outer")
    drawing.node("outer")
    drawing.subgraphs += [definition, outer]
    workflow, _ = workflow_from(drawing.raw(), CATALOG)
    assert workflow.nodes["2:1:1"].inputs["i499"] == 499
    assert given.reads <= 4 * count


def test_a_value_that_was_kept_is_compared_once_for_all_uses() -> None:
    compared: list[int] = []

    class Compared(list[int]):
        __hash__ = None

        def __eq__(self, other: object) -> bool:
            compared.append(1)
            return super().__eq__(other)

    raw = many_uses(0, 1_000)
    kept = {"comfyrail": {"inputs": {"text": {"widget": Compared([1]), "value": "x"}}}}
    inner = raw["definitions"]["subgraphs"][0]["nodes"][0]
    inner.update(type="Text", widgets_values=[[1]], properties=kept)
    workflow, _ = workflow_from(raw, CATALOG)
    assert workflow.nodes["999:1"].inputs == {"text": "x"}
    assert len(compared) == 1


def test_notes_are_not_without_end() -> None:
    raw = {"nodes": [{"id": at, "type": f"Odd{at}"} for at in range(5_000)], "version": 1}
    _, notes = workflow_from(raw, CATALOG)
    assert len(notes) == 501
    assert notes[-1].message == "And 4500 more notes like these."


@pytest.mark.parametrize(
    "raw",
    [
        {"nodes": []},
        {"nodes": [], "links": None},
        {"nodes": [None, 5, [], {}]},
        {"nodes": [{"id": None, "type": "Load"}, {"id": 1}, {"id": True, "type": "Load"}]},
        {"nodes": [{"id": {}, "type": "Load"}]},
    ],
)
def test_a_graph_without_a_usable_node_is_refused(raw: Any) -> None:
    with pytest.raises(MalformedWorkflow, match="no nodes"):
        workflow_from(raw, CATALOG)


def test_nodes_that_share_an_id_are_said() -> None:
    raw = {"nodes": [{"id": 1, "type": "Load"}, {"id": "1", "type": "Save"}], "version": 1}
    workflow, notes = workflow_from(raw, CATALOG)
    assert workflow.nodes["1"].class_type == "Load"
    assert "Two nodes have the id 1" in notes[0].message
