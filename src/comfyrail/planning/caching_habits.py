"""Which nodes of a workflow a worker will have the results of already, judged by the past."""

from collections.abc import Collection, Iterable

from comfyrail.planning.node_kinds import NodeKind
from comfyrail.planning.node_work import NodeWork
from comfyrail.planning.records import ExecutionRecord, NodeRun

MEMORY = 0.85
"""What an observation still counts after the next of its kind."""
PRIOR = 0.5
"""As much as half an execution in which nothing was known."""

_Key = tuple[str, str, str | None]


class CachingHabits:
    """Shares of known results: by signature and type, and of loaders by their model.

    A loader depends on nothing but its model, so that other workflows tell about it too.
    """

    def __init__(self, records: Iterable[ExecutionRecord]) -> None:
        """`records` from old to new."""
        self._known: dict[_Key, float] = {}
        self._seen: dict[_Key, float] = {}
        for record in records:
            for node in record.nodes:
                if node.seconds is None and not node.is_cached:
                    continue
                self._note((record.signature, node.class_type, node.model), node)
                if node.kind is NodeKind.LOADER:
                    self._note(("", node.class_type, node.model), node)

    def is_known(
        self,
        signature: str,
        node: NodeWork | NodeRun,
        warm_models: Collection[str] | None,
    ) -> bool:
        """Whether it is the more likely case. `warm_models` are those of the worker, if chosen."""
        is_loader = node.kind is NodeKind.LOADER
        if is_loader and warm_models is not None:
            return node.model in warm_models
        key = (signature, node.class_type, node.model)
        if key not in self._seen:
            if not is_loader:
                return False
            key = ("", node.class_type, node.model)
        return self._known.get(key, 0.0) > 0.5 * (self._seen.get(key, 0.0) + PRIOR)

    def _note(self, key: _Key, node: NodeRun) -> None:
        self._seen[key] = MEMORY * self._seen.get(key, 0.0) + 1
        self._known[key] = MEMORY * self._known.get(key, 0.0) + float(node.is_cached)
