"""Which models are warm on which worker, and what must be loaded in which order [3.3]."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from comfyrail.planning.analysis import Analysis, ModelNeed
from comfyrail.planning.measured_runs import SHORTEST
from comfyrail.planning.model_sizes import GIGABYTE
from comfyrail.planning.node_kinds import NodeKind
from comfyrail.planning.records import ExecutionRecord
from comfyrail.workflow.capabilities import WorkerCapabilities

DEFAULT_BYTES_PER_SECOND = 1_000_000_000.0
"""From a fast disk to a GPU, with what a loader does on the way."""
LEAST_LOADS = 3


@dataclass(frozen=True, slots=True)
class ModelLoad:
    folder: str
    name: str
    size: int
    is_known: bool
    """Whether the size was told; else it is a guess by the name."""
    seconds: float


@dataclass(frozen=True, slots=True)
class WorkerModels:
    """The models of a workflow as one worker has them."""

    worker_id: str
    warm: tuple[str, ...]
    loads: tuple[ModelLoad, ...]
    """What is not warm, in the order of first use."""
    missing: tuple[str, ...]
    """Those of the loads that the worker says it does not have."""
    size: int
    """Bytes to load."""
    seconds: float


def plan_models(
    analysis: Analysis,
    workers: Sequence[WorkerCapabilities],
    *,
    bytes_per_second: float = DEFAULT_BYTES_PER_SECOND,
) -> tuple[WorkerModels, ...]:
    """One plan for each worker, in their order."""
    return tuple(_plan_for(worker, analysis.models, bytes_per_second) for worker in workers)


def learn_load_rate(records: Iterable[ExecutionRecord]) -> float:
    """Bytes a second that loaders have shown; the default until some have."""
    rates = [
        node.units * GIGABYTE / max(node.seconds, SHORTEST)
        for record in records
        for node in record.nodes
        if node.kind is NodeKind.LOADER and node.seconds and node.units
    ]
    return median(rates) if len(rates) >= LEAST_LOADS else DEFAULT_BYTES_PER_SECOND


def _plan_for(
    worker: WorkerCapabilities, models: Iterable[ModelNeed], bytes_per_second: float
) -> WorkerModels:
    warm: list[str] = []
    loads: list[ModelLoad] = []
    missing: list[str] = []
    for need in models:
        name = need.reference.name
        if name in worker.warm_models:
            warm.append(name)
            continue
        told, is_there = _on_worker(worker.models, need)
        size = told or need.size
        seconds = size / max(1.0, bytes_per_second)
        is_known = told is not None or need.is_known
        loads.append(ModelLoad(need.reference.folder, name, size, is_known, seconds))
        if not is_there:
            missing.append(name)
    return WorkerModels(
        worker.id,
        tuple(warm),
        tuple(loads),
        tuple(missing),
        sum(load.size for load in loads),
        sum(load.seconds for load in loads),
    )


def _on_worker(
    folders: Mapping[str, Mapping[str, int | None]], need: ModelNeed
) -> tuple[int | None, bool]:
    """The size that the worker tells, and whether it has the model, as far as it says."""
    folder = folders.get(need.reference.folder)
    if folder is None:
        return None, True
    return folder.get(need.reference.name), need.reference.name in folder
