"""What a workflow is validated against."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from comfyrail.validation.findings import Stage
from comfyrail.validation.policy import SecurityPolicy
from comfyrail.workflow.capabilities import ResourceNeeds, WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import Workflow

ERROR_STAGES: frozenset[Stage] = frozenset(("syntax", "semantic", "security", "resources"))
"""The stages that can refuse a workflow: those of a submission."""
ALL_STAGES: frozenset[Stage] = ERROR_STAGES | {"optimization"}


@dataclass(frozen=True)
class ValidationContext:
    """Made once for a fleet and a policy, and used for many workflows.

    `catalog` has every node type that some worker has; `needs` says what a run of a workflow
    takes. `stages` are those that are run.
    """

    catalog: NodeCatalog = field(default_factory=NodeCatalog)
    workers: Sequence[WorkerCapabilities] = ()
    policy: SecurityPolicy = field(default_factory=SecurityPolicy)
    needs: Callable[[Workflow], ResourceNeeds] | None = None
    stages: frozenset[Stage] = ALL_STAGES

    @cached_property
    def groups(self) -> tuple[tuple[NodeCatalog, tuple[WorkerCapabilities, ...]], ...]:
        """The workers by their catalogs: those that are alike share one object."""
        groups: dict[int, tuple[NodeCatalog, list[WorkerCapabilities]]] = {}
        for worker in self.workers:
            groups.setdefault(id(worker.catalog), (worker.catalog, []))[1].append(worker)
        return tuple((catalog, tuple(workers)) for catalog, workers in groups.values())

    @cached_property
    def models(self) -> Mapping[str, frozenset[str]]:
        """Names of models by folder, as far as workers have told of them."""
        found: dict[str, set[str]] = {}
        for worker in self.workers:
            for folder, names in worker.models.items():
                found.setdefault(folder, set()).update(names)
        return {folder: frozenset(names) for folder, names in found.items()}
