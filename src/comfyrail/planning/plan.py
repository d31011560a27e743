"""Everything that can be said of a workflow before it runs, and of each worker for it [3.5]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from comfyrail.planning.analysis import Analysis, analyse
from comfyrail.planning.cost import CostRates, cost_of
from comfyrail.planning.duration import DurationModel, Prediction
from comfyrail.planning.model_plan import WorkerModels, plan_models
from comfyrail.planning.model_sizes import told_sizes
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
    """Without `model_sizes` they are what the workers tell; without `bytes_per_second` models load
    as fast as history shows.
    """
    sizes = told_sizes(workers) if model_sizes is None else model_sizes
    analysis = analyse(workflow, catalog, sizes)
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
