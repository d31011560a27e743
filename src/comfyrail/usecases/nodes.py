"""Looking at the node types that the fleet has."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from comfyrail.errors import NodeTypeNotFound
from comfyrail.fleet.fleet import Fleet
from comfyrail.workflow.catalog import NodeType
from comfyrail.workflow.catalog_merge import Difference
from comfyrail.workflow.nearest import did_you_mean, nearest_names


@dataclass(frozen=True, slots=True)
class KnownNodeType:
    """A node type with the workers that have it, and where their descriptions differ."""

    node_type: NodeType
    workers: Sequence[str]
    differences: Sequence[Difference]


class NodeTypes:
    """What all workers together know; see workflow.catalog_merge for those that differ."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def list(self, search: str = "") -> Iterator[KnownNodeType]:
        """Those whose name, title or category has the text in it, by name."""
        wanted = search.casefold()
        workers, differences = self._workers(), self._differences()
        for name, node_type in sorted(self._fleet.catalog.types.items()):
            shown = (name, node_type.display_name or "", node_type.category)
            if any(wanted in text.casefold() for text in shown):
                yield KnownNodeType(node_type, workers[name], differences[name])

    def show(self, name: str) -> KnownNodeType:
        node_type = self._fleet.catalog.get(name)
        if node_type is None:
            near = nearest_names(name, self._fleet.catalog.types)
            raise NodeTypeNotFound(
                f"No worker knows the node type '{name[:200]}'.{did_you_mean(near)}",
                details={"nearest": near},
            )
        return KnownNodeType(node_type, self._workers()[name], self._differences()[name])

    def _workers(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, list[str]] = defaultdict(list)
        for worker in self._fleet.capabilities:
            for name in worker.catalog.types:
                found[name].append(worker.id)
        return found

    def _differences(self) -> Mapping[str, Sequence[Difference]]:
        found: dict[str, list[Difference]] = defaultdict(list)
        for difference in self._fleet.differences:
            found[difference.node_type].append(difference)
        return found
