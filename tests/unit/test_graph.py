"""The graph model [1.1, 1.2]."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.errors import CyclicWorkflow, MalformedWorkflow
from comfyrail.workflow.graph import parse_workflow
from comfyrail.workflow.order import topological_order
from tests.graphs import picture


def test_api_format_is_read_with_titles_and_edges() -> None:
    workflow = parse_workflow(picture())
    assert list(workflow.nodes) == ["1", "2", "3"]
    assert workflow.nodes["3"].title == "Save"
    assert [(edge.source, edge.slot, edge.input) for edge in workflow.nodes["2"].edges()] == [
        ("1", 0, "image")
    ]
    assert workflow.order == ("1", "2", "3")


def test_envelope_with_nodes_is_read_and_its_metadata_kept() -> None:
    workflow = parse_workflow({"nodes": picture(), "name": "x"})
    assert list(workflow.nodes) == ["1", "2", "3"]
    assert workflow.metadata == {"name": "x"}


def test_reading_and_writing_is_the_identity() -> None:
    assert parse_workflow(picture()).to_prompt() == picture()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "a list"),
        ("x", "a string"),
        (None, "null"),
        (5, "a number"),
        ({}, "no nodes"),
        ({"nodes": [], "links": []}, "editor"),
        ({"1": 5}, "Node '1' is a number"),
        ({"1": {"inputs": {}}}, "no class_type"),
        ({"1": {"class_type": 7}}, "no class_type"),
        ({"1": {"class_type": "A", "inputs": []}}, "inputs of node '1'"),
        ({"1": {"class_type": "A", "_meta": 1}}, "_meta of node '1'"),
        ({"1": {"class_type": "A", "_meta": {"transforms": {"x": 1}}}}, "Transforms of node '1'"),
    ],
)
def test_what_is_no_workflow_is_refused_with_the_place(raw: object, said: str) -> None:
    with pytest.raises(MalformedWorkflow, match=said):
        parse_workflow(raw)


def test_all_faults_are_reported_not_only_the_first() -> None:
    with pytest.raises(MalformedWorkflow) as caught:
        parse_workflow({"1": 5, "2": {"inputs": {}}, "3": {"class_type": "A"}})
    found = caught.value.details["findings"]
    assert [finding["node_id"] for finding in found] == ["1", "2"]


def test_cycle_names_its_nodes_and_no_others() -> None:
    links = {"1": "3", "2": "1", "3": "2", "4": "3"}
    raw = {node: {"class_type": "A", "inputs": {"x": [of, 0]}} for node, of in links.items()}
    with pytest.raises(CyclicWorkflow) as caught:
        _ = parse_workflow(raw).order
    assert sorted(caught.value.cycle) == ["1", "2", "3"]
    for here, there in zip(caught.value.cycle, caught.value.cycle[1:], strict=False):
        assert links[there] == here


def test_chain_of_10000_nodes_is_ordered_without_recursion() -> None:
    chain = {str(n): ([str(n - 1)] if n else []) for n in range(10_000)}
    assert topological_order(dict(reversed(chain.items()))) == tuple(chain)


@given(
    st.integers(1, 30).flatmap(
        lambda size: st.lists(
            st.lists(st.integers(0, size - 1), max_size=4), min_size=size, max_size=size
        )
    )
)
def test_order_has_every_node_once_after_its_sources_or_there_is_a_cycle(
    feeds: list[list[int]],
) -> None:
    sources = {str(node): [str(feed) for feed in of] for node, of in enumerate(feeds)}
    try:
        order = topological_order(sources)
    except CyclicWorkflow as error:
        ring = [*error.cycle, error.cycle[0]]
        assert all(here in sources[there] for here, there in pairwise(ring))
        return
    place = {node: index for index, node in enumerate(order)}
    assert sorted(order) == sorted(sources)
    assert all(place[feed] < place[node] for node, of in sources.items() for feed in of)


def test_transform_on_an_edge_becomes_a_node_between() -> None:
    raw = picture()
    raw["3"]["_meta"]["transforms"] = {
        "images": {"class_type": "ImageScaleBy", "input": "image", "inputs": {"scale_by": 2.0}}
    }
    prompt = parse_workflow(raw).to_prompt()
    assert prompt["3:images"] == {
        "class_type": "ImageScaleBy",
        "inputs": {"scale_by": 2.0, "image": ["2", 0]},
    }
    assert prompt["3"]["inputs"]["images"] == ["3:images", 0]


def test_transform_on_a_literal_is_refused() -> None:
    raw = picture()
    raw["1"]["_meta"] = {"transforms": {"width": {"class_type": "X", "input": "a"}}}
    with pytest.raises(MalformedWorkflow, match="needs a link"):
        parse_workflow(raw)


@pytest.mark.parametrize("slot", [float("nan"), float("inf"), 1.5, True, "0", None])
def test_slot_that_is_no_whole_number_makes_no_link(slot: object) -> None:
    raw = picture()
    raw["2"]["inputs"]["image"] = ["1", slot]
    workflow = parse_workflow(raw)
    assert workflow.order
    assert list(workflow.nodes["2"].edges()) == []
