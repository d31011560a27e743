"""The body of a plan. Light on imports, as check_contract."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from comfyrail.api.check_contract import WORKERS_SHOWN, WorkerFitBody, fit_body
from comfyrail.planning.analysis import ModelNeed
from comfyrail.planning.duration import Prediction
from comfyrail.planning.plan import Plan, WorkerPlan
from comfyrail.validation.findings import Finding, most_important
from comfyrail.validation.fleet_fit import WorkerFit


class PlannedModel(msgspec.Struct, kw_only=True):
    """`size_known`: a worker told the size in bytes; else it is a guess by the name."""

    folder: str
    name: str
    node_id: str
    size: int
    size_known: bool


class PlannedResources(msgspec.Struct, kw_only=True):
    """Bytes at the peak."""

    video_memory: int
    memory: int
    disk: int


class PlannedDuration(msgspec.Struct, kw_only=True):
    """Seconds; eight of ten runs lie between `low` and `high`.

    `source` is history or heuristic; `median_error` is that of the model on past executions that it
    had not seen (0.1 is 10 %).
    """

    seconds: float
    low: float
    high: float
    source: str
    similar: int
    median_error: float | None


class PlannedLoad(msgspec.Struct, kw_only=True):
    folder: str
    name: str
    size: int
    seconds: float


class WorkerPlanBody(WorkerFitBody, kw_only=True):
    """A run on this worker: `loads` in the order of first use, `cost` in US dollars."""

    device: str | None
    warm_models: list[str]
    loads: list[PlannedLoad]
    load_seconds: float
    duration: PlannedDuration
    cost: float


class PlanBody(msgspec.Struct, kw_only=True):
    signature: str
    nodes: int
    complexity: float
    levels: list[list[str]]
    width: int
    models: list[PlannedModel]
    resources: PlannedResources
    duration: PlannedDuration
    cost: float
    node_seconds: dict[str, float]
    workers: list[WorkerPlanBody]
    findings: list[Finding]


def plan_body(
    plan: Plan, fits: Sequence[WorkerFit], findings: Sequence[Finding], cost: float
) -> PlanBody:
    analysis = plan.analysis
    fit_of: Mapping[str, WorkerFit] = {fit.worker_id: fit for fit in fits}
    return PlanBody(
        signature=analysis.signature,
        nodes=analysis.node_count,
        complexity=analysis.complexity,
        levels=[list(level) for level in analysis.levels],
        width=analysis.width,
        models=[_model_body(model) for model in analysis.models],
        resources=PlannedResources(
            video_memory=analysis.needs.video_memory,
            memory=analysis.needs.memory,
            disk=analysis.needs.disk,
        ),
        duration=_duration_body(plan.prediction),
        cost=_dollars(cost),
        node_seconds={node: round(seconds, 4) for node, seconds in plan.node_seconds.items()},
        workers=[
            _worker_body(worker, fit_of[worker.worker_id])
            for worker in plan.workers
            # The fleet may have changed between the two, and nobody fits what is endless.
            if worker.worker_id in fit_of
        ][:WORKERS_SHOWN],
        findings=most_important(findings),
    )


def _model_body(model: ModelNeed) -> PlannedModel:
    return PlannedModel(
        folder=model.reference.folder,
        name=model.reference.name,
        node_id=model.reference.node_id,
        size=model.size,
        size_known=model.is_known,
    )


def _duration_body(prediction: Prediction) -> PlannedDuration:
    return PlannedDuration(
        seconds=round(prediction.seconds, 3),
        low=round(prediction.low, 3),
        high=round(prediction.high, 3),
        source=prediction.source,
        similar=prediction.similar,
        median_error=prediction.median_error,
    )


def _worker_body(worker: WorkerPlan, fit: WorkerFit) -> WorkerPlanBody:
    lacks: dict[str, Any] = msgspec.structs.asdict(fit_body(fit))
    return WorkerPlanBody(
        **lacks,
        device=worker.device,
        warm_models=list(worker.models.warm),
        loads=[
            PlannedLoad(
                folder=load.folder, name=load.name, size=load.size, seconds=round(load.seconds, 2)
            )
            for load in worker.models.loads
        ],
        load_seconds=round(worker.models.seconds, 2),
        duration=_duration_body(worker.prediction),
        cost=_dollars(worker.cost),
    )


def _dollars(cost: float) -> float:
    return round(cost, 6)
