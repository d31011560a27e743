"""The analysis of a workflow [3.1]."""

import math

import pytest

from comfyrail.planning.analysis import analyse
from comfyrail.planning.model_sizes import estimated_size
from comfyrail.workflow.capabilities import GIBIBYTE, ResourceNeeds
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import parse_workflow
from comfyrail.workflow.input_costs import MOST_INPUTS, without_excess
from tests.graphs import picture
from tests.planning.simulated_history import CATALOG, Graph, text_to_image


def test_models_come_once_each_in_the_order_of_use_with_their_sizes() -> None:
    graph = text_to_image()
    lora = {"model": ["1", 0], "clip": ["1", 1], "lora_name": "style.safetensors"}
    for name in ("l", "k"):
        graph[name] = {"class_type": "LoraLoader", "inputs": lora}
    graph["5"]["inputs"]["model"] = ["l", 0]
    graph["2"]["inputs"]["clip"] = ["k", 1]
    found = analyse(parse_workflow(graph), CATALOG, {"checkpoints/v1-5-pruned.safetensors": 42})
    described = [(need.reference.name, need.size, need.is_known) for need in found.models]
    assert described == [
        ("v1-5-pruned.safetensors", 42, True),
        ("style.safetensors", 200_000_000, False),
    ]


def test_levels_are_nodes_that_can_run_side_by_side() -> None:
    found = analyse(parse_workflow(text_to_image()), CATALOG)
    assert [set(level) for level in found.levels] == [{"1", "4"}, {"2", "3"}, {"5"}, {"6"}, {"7"}]
    assert found.width == 2
    assert found.node_count == 7
    assert found.node_types >= {"KSampler", "SaveImage"}


def needs_of(graph: Graph) -> ResourceNeeds:
    return analyse(parse_workflow(graph), CATALOG).needs


def test_memory_grows_with_models_and_with_size() -> None:
    small = needs_of(text_to_image())
    large = needs_of(text_to_image(size=(1024, 1024)))
    heavy = needs_of(text_to_image("flux1-dev-fp8.safetensors"))
    assert 2 * GIBIBYTE < small.video_memory < 6 * GIBIBYTE
    assert small.video_memory < large.video_memory < heavy.video_memory
    assert small.memory < heavy.memory
    assert large.disk == pytest.approx(4 * small.disk)


def test_workflow_without_models_needs_no_gpu() -> None:
    needs = analyse(parse_workflow(picture()), NodeCatalog()).needs
    assert needs.video_memory == 0
    assert needs.memory > 0


def test_complexity_grows_with_what_takes_time_and_with_nothing_else() -> None:
    def complexity(graph: Graph) -> float:
        return analyse(parse_workflow(graph), CATALOG).complexity

    plain = complexity(text_to_image())
    assert complexity(text_to_image(seed=99, cfg=3.0)) == plain
    for costly in (text_to_image(steps=40), text_to_image(size=(1024, 1024))):
        assert complexity(costly) > 1.2 * plain


@pytest.mark.parametrize(
    ("folder", "name", "gigabytes"),
    [
        ("diffusion_models", "wan2.1_t2v_14B_fp16.safetensors", 28),
        ("diffusion_models", "flux1-dev-Q4_K_S.gguf", 7),
        ("text_encoders", "t5xxl_fp8_e4m3fn.safetensors", 4.9),
        ("checkpoints", "v1-5-pruned-emaonly.safetensors", 2.1),
        ("loras", "flux_style_14b.safetensors", 0.2),
        ("who knows", "x.bin", 2.0),
    ],
)
def test_size_of_an_unknown_model_is_guessed_by_its_name(
    folder: str, name: str, gigabytes: float
) -> None:
    assert estimated_size(folder, name) / 1e9 == pytest.approx(gigabytes, rel=0.1)


def test_hostile_workflow_has_an_analysis() -> None:
    graph = text_to_image("x" * 1_000_000 + ".safetensors", size=(10**300, -5), batch=10**30)
    graph["4"]["inputs"]["height"] = math.nan
    graph["5"]["inputs"]["steps"] = math.inf
    graph["1"]["inputs"]["loop"] = ["7", 0]
    found = analyse(parse_workflow(graph), CATALOG)
    numbers = (found.complexity, found.needs.video_memory, found.needs.memory, found.needs.disk)
    assert all(math.isfinite(number) and 0 <= number < 2**60 for number in numbers)
    assert sum(map(len, found.levels)) == found.node_count


def flooded(class_type: str, **inputs: object) -> Graph:
    """A node with more inputs than are looked at."""
    graph = text_to_image()
    flood = {f"z{number}": ["7", 0] for number in range(MOST_INPUTS + 1)}
    graph["x"] = {"class_type": class_type, "inputs": {**flood, **inputs}}
    return graph


def test_inputs_that_a_type_does_not_have_are_not_looked_at_where_there_are_very_many() -> None:
    graph = flooded("ImageBlur", image=["6", 0], blur_radius=3)
    looked_at = without_excess(parse_workflow(graph), CATALOG)
    assert set(looked_at.nodes["x"].inputs) == {"image", "blur_radius"}
    plain = text_to_image()
    plain["x"] = {"class_type": "ImageBlur", "inputs": {"image": ["6", 0], "blur_radius": 3}}
    assert without_excess(parse_workflow(plain), CATALOG).nodes == looked_at.nodes
    assert analyse(parse_workflow(graph), CATALOG) == analyse(parse_workflow(plain), CATALOG)


def test_of_a_type_that_nobody_knows_few_inputs_are_looked_at_in_any_order() -> None:
    graph = flooded("Unknown", ckpt_name="a.safetensors")
    looked_at = without_excess(parse_workflow(graph), CATALOG).nodes["x"].inputs
    assert len(looked_at) <= MOST_INPUTS // len(graph)
    assert "ckpt_name" in looked_at
    turned = {**graph, "x": {**graph["x"], "inputs": dict(reversed(graph["x"]["inputs"].items()))}}
    first, second = (analyse(parse_workflow(each), CATALOG) for each in (graph, turned))
    assert first.signature == second.signature


def test_all_inputs_of_an_ordinary_workflow_are_looked_at() -> None:
    graph = text_to_image()
    graph["5"]["inputs"].update({f"z{number}": number for number in range(1000)})
    workflow = parse_workflow(graph)
    assert without_excess(workflow, CATALOG) is workflow
