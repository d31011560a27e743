"""The values of one execution, each held until the last node that takes it has run."""

from typing import Protocol

from comfyrail.engine.caching.result import Slot


class HeldValues(Protocol):
    has_limit: bool
    """Whether values may be moved to disk: then those that a node works on are pinned."""

    def put(self, node_id: str, slots: tuple[Slot, ...], readers: int) -> None: ...

    def get(self, node_id: str) -> tuple[Slot, ...]: ...

    def holds(self, node_id: str) -> bool: ...

    def add_readers(self, node_id: str, count: int) -> None: ...

    def done(self, node_id: str) -> None:
        """One reader less; what nobody will read is let go. Unknown ids are of no account."""
        ...

    def pin(self, node_id: str) -> None: ...

    def unpin(self, node_id: str) -> None: ...

    def close(self) -> None: ...


class ValuesInMemory:
    """Without a limit."""

    has_limit = False

    def __init__(self) -> None:
        self._slots: dict[str, tuple[Slot, ...]] = {}
        self._readers: dict[str, int] = {}

    def put(self, node_id: str, slots: tuple[Slot, ...], readers: int) -> None:
        self._slots[node_id] = slots
        self._readers[node_id] = readers

    def get(self, node_id: str) -> tuple[Slot, ...]:
        return self._slots[node_id]

    def holds(self, node_id: str) -> bool:
        return node_id in self._slots

    def add_readers(self, node_id: str, count: int) -> None:
        self._readers[node_id] += count

    def done(self, node_id: str) -> None:
        left = self._readers.get(node_id)
        if left is None:
            return
        if left > 1:
            self._readers[node_id] = left - 1
        else:
            del self._slots[node_id], self._readers[node_id]

    def pin(self, node_id: str) -> None:
        """They stay where they are."""

    def unpin(self, node_id: str) -> None:
        """As `pin`."""

    def close(self) -> None:
        self._slots.clear()
        self._readers.clear()
