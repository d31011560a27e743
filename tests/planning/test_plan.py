"""Model loading plans [3.3], costs [3.4] and the plan of a workflow [3.5]."""

import math

import msgspec
import pytest

from comfyrail.planning.analysis import analyse
from comfyrail.planning.cost import CostRates, cost_of
from comfyrail.planning.duration import DurationModel
from comfyrail.planning.model_plan import learn_load_rate, plan_models
from comfyrail.planning.model_sizes import size_of_model, told_sizes
from comfyrail.planning.plan import make_plan
from comfyrail.workflow.capabilities import GIBIBYTE, WorkerCapabilities
from comfyrail.workflow.graph import parse_workflow
from tests.planning.simulated_history import CATALOG, DEVICES, simulated_history, text_to_image

CHECKPOINT, LORA = "v1-5-pruned.safetensors", "style.safetensors"


def graph_with_lora() -> dict[str, dict[str, object]]:
    graph = text_to_image(CHECKPOINT)
    lora = {"model": ["1", 0], "clip": ["1", 1], "lora_name": LORA}
    graph["l"] = {"class_type": "LoraLoader", "inputs": lora}
    graph["5"]["inputs"]["model"] = ["l", 0]
    return graph


WORKFLOW = parse_workflow(graph_with_lora())
COLD = WorkerCapabilities("cold", CATALOG, device="cpu")
WARM = WorkerCapabilities(
    "warm",
    CATALOG,
    device="cuda:0 NVIDIA GeForce RTX 4090",
    models={"checkpoints": {CHECKPOINT: 4_000_000_000}, "loras": {}},
    warm_models=frozenset((CHECKPOINT,)),
)


def test_what_is_not_warm_is_loaded_in_the_order_of_first_use() -> None:
    analysis = analyse(WORKFLOW, CATALOG)
    cold, warm = plan_models(analysis, [COLD, WARM], bytes_per_second=1e9)
    assert [load.name for load in cold.loads] == [CHECKPOINT, LORA]
    assert (cold.warm, cold.missing) == ((), ())
    assert cold.size == sum(load.size for load in cold.loads)
    assert cold.seconds == pytest.approx(2.3)
    assert warm.warm == (CHECKPOINT,)
    assert [load.name for load in warm.loads] == [LORA]
    assert warm.missing == (LORA,)


def test_size_that_the_worker_tells_counts() -> None:
    told = WorkerCapabilities("w", CATALOG, models=WARM.models)
    (plan,) = plan_models(analyse(WORKFLOW, CATALOG), [told], bytes_per_second=1e9)
    assert (plan.loads[0].size, plan.loads[0].is_known) == (4_000_000_000, True)
    assert not plan.loads[1].is_known


def test_rate_of_loading_is_learned_from_loaders() -> None:
    assert learn_load_rate(()) == 1e9
    assert 5e8 < learn_load_rate(simulated_history(100)) < 3e9


@pytest.mark.parametrize(
    ("device", "rate"),
    [
        ("cuda:0 NVIDIA GeForce RTX 4090", 0.0005),
        ("CUDA:1 nvidia rtx 4090 laptop", 0.0003),
        ("cuda:0 NVIDIA H200", 0.002),
        ("cuda:0 a GPU that nobody knows", 0.0005),
        (None, 0.0005),
        ("cpu", 0.0),
    ],
)
def test_rate_is_that_of_the_longest_name_that_fits(device: str | None, rate: float) -> None:
    rates = CostRates({"RTX 4090": 0.0005, "RTX 4090 Laptop": 0.0003, "H200": 0.002})
    assert rates.rate_of(device) == rate


def test_cost_is_seconds_by_rate_by_memory() -> None:
    device = "cuda:0 NVIDIA GeForce RTX 4090"
    assert cost_of(100, device, 0, CostRates()) == pytest.approx(0.05)
    assert cost_of(100, device, 24 * GIBIBYTE, CostRates()) == pytest.approx(0.075)
    assert cost_of(100, "cpu", 24 * GIBIBYTE, CostRates()) == 0
    for senseless in (-1.0, math.nan, math.inf):
        assert cost_of(senseless, device, -5, CostRates()) == 0


def test_plan_has_all_of_it_for_every_worker() -> None:
    plan = make_plan(WORKFLOW, CATALOG, [COLD, WARM], DurationModel(), CostRates())
    assert plan.prediction.source == "heuristic"
    assert plan.analysis.needs.seconds == plan.prediction.seconds
    assert set(plan.node_seconds) == set(WORKFLOW.nodes)
    assert plan.analysis.models[0].size == 4_000_000_000
    cold, warm = plan.workers
    assert (cold.worker_id, cold.cost) == ("cold", 0.0)
    assert warm.cost > 0
    assert warm.models.seconds < cold.models.seconds
    assert msgspec.json.decode(msgspec.json.encode(plan))["workers"][1]["worker_id"] == "warm"


def test_worker_with_warm_models_is_expected_to_be_faster() -> None:
    device = next(iter(DEVICES))
    workers = [
        WorkerCapabilities("cold", CATALOG, device=device),
        WorkerCapabilities("warm", CATALOG, device=device, warm_models=frozenset((CHECKPOINT,))),
    ]
    model = DurationModel.fit(simulated_history(300))
    cold, warm = make_plan(
        parse_workflow(text_to_image()), CATALOG, workers, model, CostRates()
    ).workers
    assert warm.prediction.seconds < cold.prediction.seconds
    assert warm.cost < cold.cost


def test_where_workers_disagree_the_smallest_size_of_a_model_counts() -> None:
    def worker(size: int | None, folder: str = "checkpoints") -> WorkerCapabilities:
        return WorkerCapabilities("w", CATALOG, models={folder: {CHECKPOINT: size}})

    workers = [worker(1 << 60), worker(2_000_000_000), worker(None), worker(0), worker(-1)]
    sizes = told_sizes([*workers, worker(3_000_000_000, "loras")])
    assert size_of_model("checkpoints", CHECKPOINT, sizes) == (2_000_000_000, True)
    assert size_of_model("loras", CHECKPOINT, sizes) == (3_000_000_000, True)
    assert not size_of_model("vae", CHECKPOINT, sizes)[1]
    assert size_of_model("models", CHECKPOINT, sizes) == (2_000_000_000, True)


def test_given_sizes_count_in_place_of_those_that_the_workers_tell() -> None:
    given = {f"checkpoints/{CHECKPOINT}": 5}
    plan = make_plan(WORKFLOW, CATALOG, [WARM], DurationModel(), CostRates(), model_sizes=given)
    assert plan.analysis.models[0].size == 5
    assert not plan.analysis.models[1].is_known
