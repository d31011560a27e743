"""Stage 5, and making a workflow smaller: the outputs stay what they were [2.5]."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comfyrail.clock import SystemClock
from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.caching.build import CacheConfig, build_cache
from comfyrail.engine.executor import Executor
from comfyrail.engine.server.run import prepare_folders
from comfyrail.validation.context import ALL_STAGES
from comfyrail.validation.deterministic import DETERMINISTIC_TYPES
from comfyrail.validation.optimize import apply_optimizations
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.graph import parse_workflow
from tests.graphs import Graph
from tests.validation.parts import (
    FREE,
    catalog,
    findings,
    node,
    object_info,
    shown_image,
    text_to_image,
)


def hints(graph: Graph) -> dict[str, Any]:
    found = findings(graph, FREE, stages=ALL_STAGES)
    assert {each.severity for each in found} <= {"hint"}
    return {each.error_code: each for each in found}


def optimized(graph: Graph, of: NodeCatalog | None = None) -> tuple[Graph, list[tuple[str, str]]]:
    smaller, done = apply_optimizations(parse_workflow(graph), of or catalog())
    return smaller.to_prompt(), [(each.kind, each.node_id) for each in done]


def test_dead_and_duplicate_nodes_are_hints_and_can_be_taken_away() -> None:
    graph = text_to_image()
    graph["c2"] = graph["c"]
    graph["n"]["inputs"] = {"clip": ["c2", 1], "text": "a cat"}
    graph["x"] = node("ImageInvert", image=["d", 0])
    found = hints(graph)
    assert found["DEAD_NODES"].details == {"nodes": ["x"], "count": 1}
    assert found["DUPLICATE_NODES"].details["count"] == 1
    smaller, done = optimized(graph)
    assert done == [
        ("removed_dead_node", "x"),
        ("merged_duplicate", "c2"),
        ("merged_duplicate", "n"),
    ]
    assert smaller["k"]["inputs"]["negative"] == ["p", 0]
    assert set(smaller) == {"c", "p", "l", "k", "d", "s"}


def test_workflow_without_waste_is_left_as_it_is() -> None:
    workflow = parse_workflow(text_to_image())
    assert apply_optimizations(workflow, catalog()) == (workflow, [])


def test_two_outputs_are_never_one() -> None:
    graph = shown_image()
    graph["3"] = graph["2"]
    assert optimized(graph) == (graph, [])


def test_values_that_are_only_nearly_equal_are_not_merged() -> None:
    graph = shown_image(a=node("ImageInvert", image=["1", 0]))
    other = node("EmptyImage", width=64.0, height=64, batch_size=True, color=0)
    graph |= {"b": other, "p": node("PreviewImage", images=["b", 0])}
    assert optimized(graph)[1] == [("removed_dead_node", "a")]


@pytest.mark.parametrize(
    "change",
    [
        {"python_module": "custom_nodes.images"},
        {"input": {"required": {"image": ["IMAGE"]}, "hidden": {"id": "UNIQUE_ID"}}},
    ],
)
def test_nodes_that_may_differ_though_they_look_equal_are_not_merged(change: Any) -> None:
    info = object_info()
    info["ImageInvert"] |= change
    graph = shown_image(
        a=node("ImageInvert", image=["1", 0]),
        b=node("ImageInvert", image=["1", 0]),
        p=node("PreviewImage", images=["a", 0]),
        q=node("PreviewImage", images=["b", 0]),
    )
    assert [each for _, each in optimized(graph)[1]] == ["b"]
    assert optimized(graph, parse_object_info(info))[1] == []


@pytest.mark.parametrize(
    "inputs",
    [
        {"required": {"value": ["*", {"rawLink": True}]}},
        {"required": {}, "hidden": {"prompt": ["PROMPT"]}},
        {"required": {}, "hidden": {"graph": "DYNPROMPT"}},
    ],
)
def test_nothing_is_changed_where_a_node_looks_at_others(inputs: Any) -> None:
    info = object_info() | {"Looker": {"input": inputs, "output": [], "output_node": True}}
    graph = shown_image(x=node("ImageInvert", image=["1", 0]), w=node("Looker"))
    assert optimized(graph, parse_object_info(info))[1] == []


def test_nothing_is_changed_with_unknown_types_cycles_or_no_output() -> None:
    dead = node("ImageInvert", image=["1", 0])
    assert optimized(shown_image(x=dead, y=node("Nobody")))[1] == []
    assert optimized(shown_image(x=node("ImageInvert", image=["x", 0]), y=dead))[1] != []
    looped = shown_image(x=node("ImageInvert", image=["x", 0]))
    looped["2"]["inputs"]["images"] = ["x", 0]
    assert optimized(looped)[1] == []
    del looped["2"]
    assert optimized(looped)[1] == []


def test_large_latents_batchable_samplers_and_what_stays_cached_are_hints() -> None:
    graph = text_to_image()
    graph["l"]["inputs"] |= {"width": 4096, "height": 4096}
    graph["k2"] = node("KSampler", **graph["k"]["inputs"] | {"seed": 2})
    graph["d2"] = node("VAEDecode", samples=["k2", 0], vae=["c", 2])
    graph["s2"] = node("SaveImage", images=["d2", 0], filename_prefix="two")
    found = hints(graph)
    assert found["OVERSIZED_LATENT"].path == "l.inputs.width"
    assert found["BATCHABLE_SAMPLERS"].details["nodes"] == ["k", "k2"]
    assert found["CACHED_PREFIX"].details["nodes"] == ["c", "p", "n", "l"]


def test_long_chains_are_simplified_without_recursion() -> None:
    graph: Graph = shown_image()
    for row in ("a", "b"):
        graph[f"{row}0"] = node("ImageInvert", image=["1", 0])
        for number in range(1, 20_000):
            graph[f"{row}{number}"] = node("ImageInvert", image=[f"{row}{number - 1}", 0])
        graph[f"{row}-end"] = node("PreviewImage", images=[f"{row}19999", 0])
    smaller, done = optimized(graph)
    assert len(done) == 20_000
    assert smaller["b-end"]["inputs"]["images"] == ["a19999", 0]


# The engine says that it gives the same


def test_every_type_that_may_be_merged_is_one_whose_results_the_engine_keeps() -> None:
    for definition in builtin_registry():
        if definition.name in DETERMINISTIC_TYPES:
            assert definition.keeps
            assert not definition.is_output
            assert "UNIQUE_ID" not in definition.hidden.values()
            assert not definition.raw_links
            assert not definition.keyed_by_id
    assert "Delay" not in DETERMINISTIC_TYPES


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    folders = prepare_folders(tmp_path_factory.mktemp("engine"))
    made = Executor(builtin_registry(), folders, build_cache(CacheConfig()), SystemClock())
    yield made
    made.close()


@pytest.fixture(scope="module")
def engine_catalog(tmp_path_factory: pytest.TempPathFactory) -> NodeCatalog:
    folder: Path = tmp_path_factory.mktemp("catalog")
    return parse_object_info(builtin_registry().object_info(prepare_folders(folder)))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Small pictures of a few colours on their way, with twins and dead ends."""
    graph: Graph = {}
    images: list[list[Any]] = []
    for index in range(draw(st.integers(2, 20))):
        name = f"n{draw(st.integers(0, 9))}-{index}"
        kinds = ["EmptyImage", "ImageInvert", "ImageBlend", "ImageScaleBy", "RepeatImageBatch"]
        kind = draw(st.sampled_from(kinds if images else kinds[:1]))

        def link() -> Any:
            return draw(st.sampled_from(images))

        inputs: dict[str, Any] = {}
        if kind == "EmptyImage":
            color = draw(st.sampled_from([0, 0x336699, 0xFFFFFF]))
            inputs = {"width": 4, "height": 3, "batch_size": 1, "color": color}
        elif kind == "ImageInvert":
            inputs = {"image": link()}
        elif kind == "ImageBlend":
            inputs = {"image1": link(), "image2": link(), "blend_mode": "multiply"}
            inputs["blend_factor"] = draw(st.sampled_from([0.25, 0.5]))
        elif kind == "ImageScaleBy":
            inputs = {"image": link(), "upscale_method": "bilinear"}
            inputs["scale_by"] = draw(st.sampled_from([0.5, 1.0, 2.0]))
        else:
            inputs = {"image": link(), "amount": draw(st.integers(1, 2))}
        graph[name] = node(kind, **inputs)
        images.append([name, 0])
    for index in range(draw(st.integers(1, 3))):
        graph[f"out{index}"] = node("PreviewImage", images=draw(st.sampled_from(images)))
    return graph


def pictures(executor: Executor, graph: Graph) -> dict[str, Any]:
    """What each output node is given, by its id."""
    links = {
        name: entry["inputs"]["images"]
        for name, entry in graph.items()
        if entry["class_type"] == "PreviewImage"
    }
    values = executor.compute(graph, sorted({source for source, _ in links.values()}))
    return {name: values[source][slot] for name, (source, slot) in links.items()}


@settings(max_examples=60, deadline=None)
@given(graph=graphs())
def test_simplified_graph_gives_its_outputs_the_same_pictures(
    graph: Graph, executor: Executor, engine_catalog: NodeCatalog
) -> None:
    smaller, done = optimized(graph, engine_catalog)
    assert len(smaller) == len(graph) - len(done)
    before, after = pictures(executor, graph), pictures(executor, smaller)
    assert before.keys() == after.keys()
    for name, items in before.items():
        assert len(items) == len(after[name])
        for one, other in zip(items, after[name], strict=True):
            assert np.array_equal(one, other)
    assert optimized(smaller, engine_catalog) == (smaller, [])
