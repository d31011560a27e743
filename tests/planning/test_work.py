"""Work units: sizes are followed through the graph, and nothing is ever unbounded."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comfyrail.planning.node_kinds import NodeKind
from comfyrail.planning.node_work import NodeWork
from comfyrail.planning.work import Survey
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.graph import parse_workflow
from tests.planning.simulated_history import CATALOG, OBJECT_INFO, Graph, text_to_image


def works_of(
    graph: Graph, catalog: NodeCatalog = CATALOG, sizes: Mapping[str, int] | None = None
) -> Mapping[str, NodeWork]:
    return Survey.of(parse_workflow(graph), catalog, sizes or {}).works


def node(class_type: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": class_type, "inputs": inputs}


def test_sampler_works_steps_times_megapixels_of_its_latent() -> None:
    work = works_of(text_to_image(size=(1000, 500), batch=3, steps=30))["5"]
    assert work.kind is NodeKind.SAMPLER
    assert (work.steps, work.megapixels) == (30, 1.5)
    assert work.units == pytest.approx(45)


@pytest.mark.parametrize(
    ("sampling", "calls"),
    [
        ({"denoise": 0.5}, 20),
        ({"denoise": 0.0}, 0),
        ({"sampler_name": "dpmpp_sde"}, 40),
        ({"cfg": 1.0}, 10),
        ({"start_at_step": 5, "end_at_step": 10000}, 15),
        ({"end_at_step": 8}, 8),
    ],
)
def test_steps_are_calls_of_the_model(sampling: dict[str, Any], calls: float) -> None:
    assert works_of(text_to_image(**sampling))["5"].steps == calls


def test_what_reaches_a_node_by_links_is_its_model() -> None:
    graph = text_to_image("flux1-dev-fp8.safetensors")
    graph["l"] = node("LoraLoader", model=["1", 0], clip=["1", 1], lora_name="style.safetensors")
    graph["5"]["inputs"]["model"] = ["l", 0]
    works = works_of(graph)
    for name in ("1", "2", "l", "5", "6"):
        assert works[name].model == "flux1-dev-fp8.safetensors"
    assert works["7"].model is None


def test_loader_works_gigabytes_told_or_guessed() -> None:
    graph = text_to_image("sd_xl_base_1.0.safetensors")
    assert works_of(graph)["1"].units == pytest.approx(6.9)
    sizes = {"sd_xl_base_1.0.safetensors": 3_000_000_000}
    assert works_of(graph, CATALOG, sizes)["1"].units == pytest.approx(3)


def test_size_follows_upscaling_by_factor_by_model_and_by_sides() -> None:
    graph = text_to_image(size=(512, 512))
    graph["u"] = node("LatentUpscaleBy", samples=["5", 0], scale_by=2.0)
    graph["6"]["inputs"]["samples"] = ["u", 0]
    graph["m"] = node("UpscaleModelLoader", model_name="RealESRGAN_x2.pth")
    graph["e"] = node("ImageUpscaleWithModel", upscale_model=["m", 0], image=["6", 0])
    graph["s"] = node("ImageScale", image=["e", 0], width=1024, height=0)
    graph["7"]["inputs"]["images"] = ["s", 0]
    works = works_of(graph)
    assert works["6"].units == pytest.approx(1.048576)
    assert works["e"].units == pytest.approx(4 * 1.048576)
    assert works["7"].units == pytest.approx(1.048576)


def test_size_comes_from_a_number_of_a_node_of_its_own() -> None:
    graph = text_to_image()
    graph["w"] = node("PrimitiveInt", value=2000)
    graph["4"]["inputs"]["width"] = ["w", 0]
    assert works_of(graph)["5"].megapixels == pytest.approx(2000 * 512 / 1e6)


def test_video_and_batches_multiply() -> None:
    types = {
        **OBJECT_INFO,
        "EmptyVideo": {"output": ["LATENT"], "input": {}},
        "RepeatLatentBatch": {"output": ["LATENT"], "input": {"required": {}}},
        "LatentBatch": {"output": ["LATENT"], "input": {"required": {}}},
    }
    graph = text_to_image()
    graph["v"] = node("EmptyVideo", width=100, height=100, length=81, batch_size=2)
    graph["r"] = node("RepeatLatentBatch", samples=["v", 0], amount=3)
    graph["b"] = node("LatentBatch", samples1=["r", 0], samples2=["v", 0])
    graph["5"]["inputs"]["latent_image"] = ["b", 0]
    assert works_of(graph, parse_object_info(types))["5"].megapixels == pytest.approx(
        0.01 * 81 * 2 * 4
    )


def test_conditioning_does_not_carry_the_size_of_a_picture() -> None:
    types = {
        **OBJECT_INFO,
        "Hint": {
            "output": ["CONDITIONING"],
            "input": {"required": {"image": ["IMAGE"], "positive": ["CONDITIONING"]}},
        },
        "EmptyImage": {"output": ["IMAGE"], "input": {"required": {"width": ["INT"]}}},
    }
    graph = text_to_image()
    graph["i"] = node("EmptyImage", width=4096, height=4096)
    graph["h"] = node("Hint", image=["i", 0], positive=["2", 0])
    graph["5"]["inputs"]["positive"] = ["h", 0]
    assert works_of(graph, parse_object_info(types))["5"].megapixels == pytest.approx(0.262144)


def test_custom_sampler_has_the_steps_of_its_schedule() -> None:
    types = {
        **OBJECT_INFO,
        "BasicScheduler": {"output": ["SIGMAS"], "input": {"required": {"steps": ["INT"]}}},
        "SamplerCustomAdvanced": {"output": ["LATENT"], "input": {"required": {}}},
    }
    graph = text_to_image()
    graph["s"] = node("BasicScheduler", steps=7, denoise=1.0)
    graph["5"] = node("SamplerCustomAdvanced", sigmas=["s", 0], latent_image=["4", 0])
    assert works_of(graph, parse_object_info(types))["5"].steps == 7


def test_node_that_no_output_needs_does_not_run() -> None:
    graph = text_to_image()
    graph["x"] = node("VAEDecode", samples=["5", 0], vae=["1", 2])
    works = works_of(graph)
    assert not works["x"].runs
    assert all(work.runs for name, work in works.items() if name != "x")


def test_without_a_catalog_names_tell() -> None:
    works = works_of(text_to_image("flux1-dev.safetensors"), NodeCatalog())
    assert [works[name].kind for name in "1257"] == ["loader", "text", "sampler", "output"]
    assert works["5"].units == pytest.approx(20 * 0.262144)
    assert works["5"].model == "flux1-dev.safetensors"
    assert all(work.runs for work in works.values())


def test_type_that_nobody_knows_may_need_anything() -> None:
    graph = {"1": node("EmptyLatentImage", width=64, height=64), "2": node("?", of=["1", 0])}
    graph["3"] = node("SaveImage", images=["2", 0])
    works = works_of(graph)
    assert works["2"].kind is NodeKind.OTHER
    assert all(work.runs for work in works.values())


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.text(max_size=20),
    st.just("9" * 5000),
    st.lists(st.integers(), max_size=3),
    st.tuples(st.sampled_from("123456x"), st.integers(-3, 10**30)).map(list),
)
NAMES = ("width", "height", "batch_size", "steps", "denoise", "cfg", "scale_by", "ckpt_name")


@given(st.lists(st.tuples(st.sampled_from("1234567"), st.sampled_from(NAMES), VALUES), max_size=8))
@settings(max_examples=150, deadline=None)
def test_hostile_values_give_bounded_work(changes: list[tuple[str, str, Any]]) -> None:
    graph = text_to_image()
    for node_id, name, value in changes:
        graph[node_id]["inputs"][name] = value
    for catalog in (CATALOG, NodeCatalog()):
        for work in works_of(graph, catalog).values():
            assert 0 <= work.units <= 1e9
            assert 0 <= work.steps <= 30_000
            assert math.isfinite(work.megapixels)


def test_sizes_that_grow_along_a_chain_stay_bounded() -> None:
    graph = {"0": node("EmptyLatentImage", width=512, height=512, batch_size=8)}
    for number in range(1, 1000):
        graph[str(number)] = node("LatentUpscaleBy", samples=[str(number - 1), 0], scale_by=8.0)
    assert all(math.isfinite(work.units) for work in works_of(graph).values())


def test_chain_of_100_000_nodes_and_cycles_are_no_trouble() -> None:
    graph = {"0": node("EmptyLatentImage", width=512, height=512)}
    for number in range(1, 100_000):
        graph[str(number)] = node("ImageBlur", image=[str(number - 1), 0])
    assert len(works_of(graph)) == 100_000
    graph["0"]["inputs"]["width"] = ["99999", 0]
    assert len(works_of(graph)) == 100_000
