"""Which workers could run a workflow, and what the others lack."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comfyrail.validation.context import ValidationContext
from comfyrail.validation.literals import find_fault
from comfyrail.validation.missing_models import is_told_of
from comfyrail.validation.node_checks import ExaminedNode, check_of, examine, prepare_node_check
from comfyrail.workflow.capabilities import ResourceNeeds, WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import Workflow
from comfyrail.workflow.models import ModelReference, model_folder
from comfyrail.workflow.nearest import shown
from comfyrail.workflow.values import unwrap


@dataclass(frozen=True, slots=True)
class RefusedValue:
    """A value that other workers would take, and this one does not."""

    node_id: str
    input: str
    value: Any


@dataclass(frozen=True, slots=True)
class Shortage:
    """How many bytes a worker has too few."""

    video_memory: int = 0
    memory: int = 0
    disk: int = 0

    def __bool__(self) -> bool:
        return bool(self.video_memory or self.memory or self.disk)


@dataclass(frozen=True, slots=True)
class WorkerFit:
    """Whether a worker could run a workflow, online or not."""

    worker_id: str
    can_run: bool
    is_online: bool
    missing_node_types: tuple[str, ...] = ()
    missing_models: tuple[ModelReference, ...] = ()
    refused_values: tuple[RefusedValue, ...] = ()
    short_by: Shortage = Shortage()

    def as_dict(self) -> dict[str, Any]:
        """What it lacks, as data of a message."""
        return {
            "missing_node_types": list(self.missing_node_types),
            "missing_models": [f"{model.folder}/{model.name}" for model in self.missing_models],
            "missing_choices": [
                {"node_id": each.node_id, "input": each.input, "value": shown(each.value)}
                for each in self.refused_values
            ],
            "memory": {
                "video_memory": self.short_by.video_memory,
                "memory": self.short_by.memory,
                "disk": self.short_by.disk,
            },
        }


@dataclass(frozen=True, slots=True)
class _CatalogFit:
    """What all workers with the same catalog lack."""

    node_types: tuple[str, ...]
    models: tuple[ModelReference, ...]
    values: tuple[RefusedValue, ...]


def fleet_report(workflow: Workflow, context: ValidationContext) -> list[WorkerFit]:
    """For every worker whether it could run the workflow, and if not, what it lacks."""
    workflow = workflow.expanded()
    examined = examine(workflow, context.catalog)
    needs = None if context.needs is None else context.needs(workflow)
    return list(worker_fits(examined, context, needs))


def worker_fits(
    examined: Sequence[ExaminedNode], context: ValidationContext, needs: ResourceNeeds | None
) -> Iterator[WorkerFit]:
    """The same, one after the other: who looks for one that fits need not ask them all."""
    for catalog, workers in context.groups:
        lacks = _fit_of_catalog(examined, catalog)
        for worker in workers:
            yield _fit_of_worker(worker, lacks, needs)


def _fit_of_worker(
    worker: WorkerCapabilities, lacks: _CatalogFit, needs: ResourceNeeds | None
) -> WorkerFit:
    models = lacks.models
    if models and worker.models:
        models = tuple(
            each for each in models if not is_told_of(each.name, each.folder, worker.models)
        )
    short_by = _NOT_SHORT if needs is None else _shortage(worker, needs)
    return WorkerFit(
        worker_id=worker.id,
        can_run=not (lacks.node_types or models or lacks.values or short_by),
        is_online=worker.is_online,
        missing_node_types=lacks.node_types,
        missing_models=models,
        refused_values=lacks.values,
        short_by=short_by,
    )


_NOT_SHORT = Shortage()


def _shortage(worker: WorkerCapabilities, needs: ResourceNeeds) -> Shortage:
    return Shortage(
        _too_few(needs.video_memory, worker.video_memory),
        _too_few(needs.memory, worker.memory),
        _too_few(needs.disk, worker.disk_free),
    )


def _too_few(needed: int, there: int | None) -> int:
    return 0 if there is None else max(0, needed - there)


def _fit_of_catalog(examined: Sequence[ExaminedNode], catalog: NodeCatalog) -> _CatalogFit:
    if not catalog:
        return _CatalogFit((), (), ())  # nothing is known of it, not that it has nothing
    missing: dict[str, None] = {}
    models: list[ModelReference] = []
    values: list[RefusedValue] = []
    types = catalog.types
    for each in examined:
        own = types.get(each.node.class_type)
        if own is None:
            missing[each.node.class_type] = None
        elif each.check is None or own is not each.check.type:
            for refused in _refused_values(each, catalog):
                if isinstance(refused, ModelReference):
                    models.append(refused)
                else:
                    values.append(refused)
    return _CatalogFit(tuple(missing), tuple(models), tuple(values))


def _refused_values(
    each: ExaminedNode, catalog: NodeCatalog
) -> Iterator[RefusedValue | ModelReference]:
    node = each.node
    check = catalog.prepared(prepare_node_check)[node.class_type]
    if check is None:
        return
    if check.is_dynamic:
        check = check_of(check.type, node.inputs)
    for name, value in node.inputs.items():
        port = check.ports.get(name)
        if port is None or type(value) is list or check.accepts(name, value):
            continue
        literal = unwrap(value)
        folder = model_folder(node.class_type, port, literal)
        if folder is not None and isinstance(literal, str):
            yield ModelReference(node.id, name, folder, literal)
        else:
            fault = find_fault(node.class_type, port, value)
            if fault is not None and not fault.is_warning:
                yield RefusedValue(node.id, name, value)


def lacks_of(fits: Sequence[WorkerFit], limit: int) -> Mapping[str, dict[str, Any]]:
    """What each of the first workers lacks, by its id."""
    return {fit.worker_id: fit.as_dict() for fit in fits[:limit]}
