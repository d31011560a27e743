"""Everything that can be said of a workflow before it runs, and of each worker for it [3.5]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from comfyrail.planning.analysis import Analysis, analyse
from comfyrail.planning.cost import CostRates, cost_of
from comfyrail.planning.duration import DurationModel, Prediction
from comfyrail.planning.model_plan import WorkerModels, plan_models
from comfyrail.workflow.capabilities import WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import Workflow


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """A run on one worker. Whether it could run there at all is for others to say."""

    worker_id: str
    device: str | None
    models: WorkerModels
    prediction: Prediction
    cost: float
    """Dollars."""


@dataclass(frozen=True, slots=True)
class Plan:
    analysis: Analysis
    """Its `needs` have the expected seconds too."""
    prediction: Prediction
    """On whichever worker it may be."""
    node_seconds: Mapping[str, float]
    workers: tuple[WorkerPlan, ...]


def make_plan(
    workflow: Workflow,
    catalog: NodeCatalog,
    workers: Sequence[WorkerCapabilities],
    model: DurationModel,
    rates: CostRates,
    *,
    model_sizes: Mapping[str, int] | None = None,
    bytes_per_second: float | None = None,
) -> Plan:
    """Without `bytes_per_second` models load as fast as history shows. Sizes that the workers tell
    are added to `model_sizes`.
    """
    analysis = analyse(workflow, catalog, {**told_sizes(workers), **(model_sizes or {})})
    prediction = model.predict(analysis)
    needs = replace(analysis.needs, seconds=prediction.seconds)
    rate = model.bytes_per_second if bytes_per_second is None else bytes_per_second
    loading = plan_models(analysis, workers, bytes_per_second=rate)
    return Plan(
        replace(analysis, needs=needs),
        prediction,
        model.node_seconds(analysis),
        tuple(
            _worker_plan(analysis, worker, models, model, rates)
            for worker, models in zip(workers, loading, strict=True)
        ),
    )


def told_sizes(workers: Sequence[WorkerCapabilities]) -> dict[str, int]:
    """Sizes of models by `folder/name`, of all workers that tell; the first one counts."""
    sizes: dict[str, int] = {}
    for worker in workers:
        for folder, models in worker.models.items():
            for name, size in models.items():
                if size:
                    sizes.setdefault(f"{folder}/{name}", size)
    return sizes


def _worker_plan(
    analysis: Analysis,
    worker: WorkerCapabilities,
    models: WorkerModels,
    model: DurationModel,
    rates: CostRates,
) -> WorkerPlan:
    prediction = model.predict(analysis, worker.device, warm_models=worker.warm_models)
    cost = cost_of(prediction.seconds, worker.device, analysis.needs.video_memory, rates)
    return WorkerPlan(worker.id, worker.device, models, prediction, cost)
