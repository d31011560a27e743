"""The values of one execution: what is known, what is held, and until when."""

from collections.abc import Iterable

import structlog

from comfyrail.engine.caching.result import Slot
from comfyrail.engine.held_values import HeldValues
from comfyrail.engine.keys import KeyBook
from comfyrail.engine.known_results import KnownResults
from comfyrail.engine.live_graph import BoundNode, LiveGraph
from comfyrail.engine.memory.errors import SpilledValueLost

log = structlog.get_logger(__name__)


class RunValues:
    """A value is held until the last planned node that takes it has run. What is only known is
    brought here when it is asked for.
    """

    def __init__(
        self, graph: LiveGraph, keys: KeyBook, known: KnownResults, held: HeldValues
    ) -> None:
        self._graph = graph
        self._keys = keys
        self._known = known
        self._held = held
        self._readers: dict[str, int] = {}
        self._pinned: dict[str, list[str]] = {}

    def are_there(self, node_id: str) -> bool:
        """Whether the node need not run: its values are held, or known to be somewhere."""
        return self._held.holds(node_id) or self._keys[node_id] in self._known

    def get(self, node_id: str) -> tuple[Slot, ...] | None:
        """The values, or None when they prove to be lost."""
        if self._held.holds(node_id):
            try:
                return self._held.get(node_id)
            except SpilledValueLost as error:
                log.warning("offloaded_value_lost", node_id=node_id, error=str(error))
                self._held.put(node_id, (), 0)
        result = self._known.load(self._keys[node_id])
        if result is None:
            return None
        readers = self._readers.get(node_id, 0)
        if readers:
            self._held.put(node_id, result.slots, readers)
        return result.slots

    def expect(self, planned: Iterable[str]) -> None:
        """These nodes will take their inputs once each; lazy ones perhaps, so they count too."""
        for node_id in planned:
            self.expect_reader(link.source for link in self._graph[node_id].links.values())

    def expect_reader(self, sources: Iterable[str]) -> None:
        """Someone will take the values of these, once each."""
        readers = self._readers
        for source in sources:
            readers[source] = readers.get(source, 0) + 1
            if self._held.holds(source):
                self._held.add_readers(source, 1)

    def keep(self, node_id: str, slots: tuple[Slot, ...]) -> None:
        """Hold a node's values, if anybody will take them."""
        readers = self._readers.get(node_id, 0)
        if readers:
            self._held.put(node_id, slots, readers)

    def pin_inputs(self, node: BoundNode) -> None:
        """The node works on its inputs now, until it lets go of them."""
        if self._held.has_limit and node.id not in self._pinned:
            sources = [link.source for link in node.links.values()]
            self._pinned[node.id] = [each for each in sources if self._held.holds(each)]
            for source in self._pinned[node.id]:
                self._held.pin(source)

    def let_go(self, node: BoundNode) -> None:
        """The node has taken its inputs."""
        for source in self._pinned.pop(node.id, ()):
            self._held.unpin(source)
        self.reader_done(link.source for link in node.links.values())

    def reader_done(self, sources: Iterable[str]) -> None:
        for source in sources:
            self._readers[source] -= 1
            self._held.done(source)

    def lose(self, node: BoundNode, keys: Iterable[str]) -> list[str]:
        """These keys are nowhere: gives the sources of a node that must run again for it."""
        gone = set(keys)
        for key in gone:
            self._known.forget(key)
        return [
            link.source
            for link in node.links.values()
            if self._keys[link.source] in gone and not self._held.holds(link.source)
        ]

    def close(self) -> None:
        self._held.close()
