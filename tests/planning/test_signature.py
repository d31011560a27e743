"""The signature is the same for workflows that cost the same [3.1]."""

import copy
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import Node, Workflow, parse_workflow
from comfyrail.workflow.signature import signature_of
from tests.planning.simulated_history import CATALOG, Graph, random_graph, text_to_image


def signature(graph: Graph, catalog: NodeCatalog = CATALOG) -> str:
    return signature_of(parse_workflow(graph), catalog)


def changed(**inputs: Any) -> Graph:
    """Text to image with inputs set by `<node id>__<input>`, ids without their leading n."""
    graph = text_to_image()
    for key, value in inputs.items():
        node_id, _, name = key.removeprefix("n").partition("__")
        graph[node_id]["inputs"][name] = value
    return graph


def renamed(graph: Graph, source: random.Random) -> Graph:
    """The same graph with other ids, other titles and another order of nodes and inputs."""
    names = {node_id: f"{source.random()} {index}" for index, node_id in enumerate(graph)}
    nodes = list(graph.items())
    source.shuffle(nodes)
    result: Graph = {}
    for node_id, node in nodes:
        inputs = list(node["inputs"].items())
        source.shuffle(inputs)
        result[names[node_id]] = {
            "class_type": node["class_type"],
            "inputs": {
                name: [names.get(value[0], value[0]), value[1]]
                if isinstance(value, list)
                else value
                for name, value in inputs
            },
            "_meta": {"title": f"title {source.random()}"},
        }
    return result


@given(st.integers(0, 500), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_ids_titles_and_order_leave_no_trace(kind: int, source: random.Random) -> None:
    graph = random_graph(random.Random(kind))
    assert signature(renamed(graph, source)) == signature(graph)
    assert signature(renamed(graph, source), NodeCatalog()) == signature(graph, NodeCatalog())


@given(
    seed=st.integers(0, 2**64),
    text=st.text(max_size=40),
    prefix=st.text(max_size=40),
    guidance=st.floats(1.1, 30),
)
@settings(max_examples=60, deadline=None)
def test_cheap_values_leave_no_trace(seed: int, text: str, prefix: str, guidance: float) -> None:
    graph = changed(n5__seed=seed, n2__text=text, n7__filename_prefix=prefix, n5__cfg=guidance)
    for catalog in (CATALOG, NodeCatalog()):
        assert signature(graph, catalog) == signature(text_to_image(), catalog)


@pytest.mark.parametrize(
    "graph",
    [
        changed(n5__steps=21),
        changed(n5__denoise=0.5),
        changed(n5__sampler_name="dpmpp_sde"),
        changed(n5__cfg=1.0),
        changed(n4__width=768),
        changed(n4__batch_size=2),
        changed(n1__ckpt_name="sd_xl_base_1.0.safetensors"),
        changed(n2__clip=["2", 0]),
        changed(n5__positive=["3", 0]),
        {**text_to_image(), "8": text_to_image()["7"]},
    ],
)
def test_costly_values_and_structure_change_it(graph: Graph) -> None:
    assert signature(graph) != signature(text_to_image())


def test_same_number_in_another_form_is_the_same() -> None:
    assert signature(changed(n5__steps=20.0)) == signature(changed(n5__steps=20))
    assert signature(changed(n5__steps={"__value__": 20})) == signature(changed(n5__steps=20))


def with_number(value: int, target: str, name: str) -> Graph:
    graph = changed(**{f"n{target}__{name}": ["p", 0]})
    graph["p"] = {"class_type": "PrimitiveInt", "inputs": {"value": value}}
    return graph


def test_number_of_a_node_of_its_own_counts_where_it_goes_to_a_costly_input() -> None:
    assert signature(with_number(1, "5", "seed")) == signature(with_number(2, "5", "seed"))
    assert signature(with_number(512, "4", "width")) != signature(with_number(768, "4", "width"))


def test_uploaded_file_may_have_any_name() -> None:
    entry = {
        "input": {"required": {"picture": (["a.png"], {"image_upload": True})}},
        "output": ["IMAGE"],
    }
    from comfyrail.workflow.catalog import parse_object_info

    catalog = parse_object_info({"Load": entry})
    one, other = ({"1": {"class_type": "Load", "inputs": {"picture": name}}} for name in "ab")
    assert signature(one, catalog) == signature(other, catalog)


def test_a_transform_on_a_link_counts_as_the_node_that_it_is() -> None:
    graph = text_to_image()
    plain = signature(graph)
    graph["7"]["_meta"] = {
        "transforms": {"images": {"class_type": "ImageBlur", "input": "image", "inputs": {}}}
    }
    assert signature(graph) != plain


def test_shared_and_repeated_nodes_are_told_apart() -> None:
    graph = text_to_image()
    repeated = copy.deepcopy(graph)
    repeated["9"] = copy.deepcopy(graph["1"])
    repeated["3"]["inputs"]["clip"] = ["9", 1]
    assert signature(repeated) != signature(graph)


def cycle(*names: str) -> Graph:
    return {
        name: {"class_type": "ImageBlur", "inputs": {"image": [before, 0], "blur_radius": 1}}
        for name, before in zip(names, (names[-1], *names[:-1]), strict=True)
    }


def test_cyclic_workflow_has_a_signature_that_ignores_ids() -> None:
    assert signature(cycle("a", "b", "c")) == signature(cycle("z", "x", "y"))
    assert signature(cycle("a", "b")) != signature(cycle("a", "b", "c"))
    assert signature(cycle("a")) == signature(cycle("b"))


@given(st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_cycle_with_numbers_in_it_ignores_order(source: random.Random) -> None:
    graph = with_number(512, "4", "width")
    graph["q"] = {"class_type": "PrimitiveInt", "inputs": {"value": ["p", 0]}}
    graph["4"]["inputs"]["height"] = ["q", 0]
    graph["1"]["inputs"]["loop"] = ["7", 0]
    assert signature(renamed(graph, source)) == signature(graph)


def test_link_to_nowhere_is_told_from_a_link() -> None:
    assert signature(changed(n6__samples=["gone", 0])) != signature(text_to_image())
    assert signature(changed(n6__samples=["gone", 0])) == signature(changed(n6__samples=["?", 0]))


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        1e308,
        10**6000,
        -(10**6000),
        "x" * 5_000_000,
        "\ud800",
        None,
        True,
        nested(100_000),
        {"a": nested(100_000)},
    ],
    ids=lambda value: type(value).__name__,
)
def test_hostile_values_have_a_signature(value: Any) -> None:
    for name in ("n5__steps", "n5__seed", "n5__sampler_name", "n4__width", "n2__text"):
        graph = changed(**{name: value})
        assert signature(graph) == signature(graph)
        assert len(signature(graph, NodeCatalog())) == 32


def test_hostile_slots_and_names_have_a_signature() -> None:
    odd = Node("\ud800", "\ud800" * 1000, {"\ud800": ["\ud800", 1e308], "x": ["a", 10**6000]})
    assert len(signature_of(Workflow({odd.id: odd}), CATALOG)) == 32


def test_chain_of_100_000_nodes_has_a_signature() -> None:
    graph: Graph = {"0": {"class_type": "EmptyLatentImage", "inputs": {"width": 8}}}
    for number in range(1, 100_000):
        inputs = {"image": [str(number - 1), 0]}
        graph[str(number)] = {"class_type": "ImageBlur", "inputs": inputs}
    assert len(signature(graph)) == 32
