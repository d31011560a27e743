"""What there is to know about a workflow before it runs [3.1]."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from comfyrail.planning.model_sizes import size_of_model
from comfyrail.planning.node_kinds import DEFAULT_COSTS
from comfyrail.planning.node_work import NodeWork
from comfyrail.planning.resource_needs import resource_needs
from comfyrail.planning.work import Survey
from comfyrail.workflow.capabilities import ResourceNeeds
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import Workflow
from comfyrail.workflow.models import ModelReference
from comfyrail.workflow.signature import signature_of


@dataclass(frozen=True, slots=True)
class ModelNeed:
    """A model that a workflow uses. `is_known`: a worker told its size; else it is a guess."""

    reference: ModelReference
    """Where it is named first."""
    size: int
    is_known: bool


@dataclass(frozen=True, slots=True)
class Analysis:
    signature: str
    node_count: int
    node_types: frozenset[str]
    complexity: float
    """Seconds by the default costs of its kinds of nodes: a score to compare workflows by, no
    forecast for any machine.
    """
    models: tuple[ModelNeed, ...]
    """Each once, in the order of first use."""
    levels: tuple[tuple[str, ...], ...]
    """Ids of nodes that could run side by side: each level needs the ones before it only."""
    needs: ResourceNeeds
    works: Mapping[str, NodeWork]

    @property
    def width(self) -> int:
        """How many nodes could run at once, at most."""
        return max(map(len, self.levels), default=0)


def analyse(
    workflow: Workflow, catalog: NodeCatalog, model_sizes: Mapping[str, int] | None = None
) -> Analysis:
    """Linear in nodes and inputs. `model_sizes` has bytes by `folder/name` or by name alone."""
    sizes = model_sizes or {}
    survey = Survey.of(workflow, catalog, sizes)
    works = survey.works
    models = _models(survey.references, sizes)
    return Analysis(
        signature=signature_of(survey.workflow, catalog),
        node_count=len(works),
        node_types=frozenset(work.class_type for work in works.values()),
        complexity=complexity_of(works.values()),
        models=models,
        levels=_levels(survey.levels),
        needs=resource_needs(
            works.values(), [(model.reference.folder, model.size) for model in models]
        ),
        works=works,
    )


def complexity_of(works: Iterable[NodeWork]) -> float:
    """The sum of what the nodes that run would take by the default costs of their kinds."""
    total = 0.0
    for work in works:
        if work.runs:
            base, per_step, per_unit, _ = DEFAULT_COSTS[work.kind]
            total += base + per_step * work.steps + per_unit * work.units
    return round(total, 4)


def _models(
    references: Sequence[ModelReference], sizes: Mapping[str, int]
) -> tuple[ModelNeed, ...]:
    found: dict[tuple[str, str], ModelNeed] = {}
    for reference in references:
        key = (reference.folder, reference.name)
        if key not in found:
            found[key] = ModelNeed(reference, *size_of_model(*key, sizes))
    return tuple(found.values())


def _levels(level_of: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    levels: dict[int, list[str]] = {}
    for node_id, level in level_of.items():
        levels.setdefault(level, []).append(node_id)
    return tuple(tuple(levels[level]) for level in sorted(levels))
