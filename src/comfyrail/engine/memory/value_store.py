"""The values of one running execution: in memory while there is room, else on disk [12.5]."""

import itertools
import math
import threading
from types import TracebackType
from typing import Self

import structlog

from comfyrail.engine.memory.budget import Holding, MemoryBudget
from comfyrail.engine.memory.errors import SpilledValueLost
from comfyrail.engine.memory.spill_area import SpillArea, SpillFile, SpillFolder
from comfyrail.engine.memory.spill_codec import CannotSpill, ResultCodec, Slots, SpillCodec
from comfyrail.engine.memory.victims import choose_victims

LARGEST_GROWTH = 2
"""A value that would take more than so many times its memory on disk stays where it is."""

log = structlog.get_logger(__name__)


class _Entry:
    """A value in memory, or the file that has it, and who still needs it."""

    __slots__ = ("is_stuck", "next_use", "pins", "readers", "used_at", "where")

    def __init__(self, where: Holding | SpillFile, readers: int, next_use: float) -> None:
        self.where = where
        self.readers = readers
        self.next_use = next_use
        self.pins = 0
        self.used_at = 0
        self.is_stuck = False
        """It cannot be written."""


class ValueStore:
    """Holds each value until its last reader is done; used by any thread.

    When the budget is under pressure, values are moved to disk, by the thread that put one too
    many: first those whose `next_use` is latest, and of those without one, which go before all
    others, the least recently used. Values that are small or cannot be written stay.

    A value that a node works on should be pinned: moving it to disk would free nothing.
    """

    has_limit = True

    def __init__(
        self, budget: MemoryBudget, area: SpillArea, codec: SpillCodec | None = None
    ) -> None:
        self._budget = budget
        self._area = area
        self._codec = codec or ResultCodec()
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._ticks = itertools.count()
        self._spilling = threading.Lock()
        self._folder: SpillFolder | None = None
        self._is_closed = False
        budget.register_store(self._free)

    def put(self, node_id: str, slots: Slots, readers: int, next_use: float | None = None) -> None:
        """Hold a value for so many readers; one that nobody will read is not held.

        `next_use` is where in the plan it is needed next. What was there under this id is replaced.
        """
        with self._lock:
            replaced = self._entries.pop(node_id, None)
            if replaced is not None:
                self._drop(replaced)
            if readers > 0 and not self._is_closed:
                position = math.inf if next_use is None else next_use
                entry = _Entry(self._budget.hold(slots), readers, position)
                entry.used_at = next(self._ticks)
                entry.pins = 0 if replaced is None else replaced.pins
                self._entries[node_id] = entry
        self._budget.relieve()

    def get(self, node_id: str) -> Slots:
        """The value; one that is on disk is mapped from there and takes no memory of its own.

        Raises KeyError where it is not held, and SpilledValueLost where its file is gone.
        """
        with self._lock:
            entry = self._entries[node_id]
            entry.used_at = next(self._ticks)
            if isinstance(entry.where, Holding):
                slots: Slots = entry.where.value
                return slots
            try:
                data = entry.where.map()
            except (OSError, ValueError) as error:
                raise SpilledValueLost(node_id, error) from error
        try:
            return self._codec.decode(data)
        except ValueError as error:
            raise SpilledValueLost(node_id, error) from error

    def holds(self, node_id: str) -> bool:
        return node_id in self._entries

    def add_readers(self, node_id: str, count: int) -> None:
        """Raises KeyError where it is not held."""
        with self._lock:
            self._entries[node_id].readers += count

    def expect(self, node_id: str, next_use: float) -> None:
        """Say anew where in the plan the value is needed next. Raises KeyError."""
        with self._lock:
            self._entries[node_id].next_use = next_use

    def done(self, node_id: str) -> None:
        """One reader less; the last one frees the value. Nothing happens if it is not held."""
        with self._lock:
            entry = self._entries.get(node_id)
            if entry is not None:
                entry.readers -= 1
                self._drop_if_unused(node_id, entry)

    def pin(self, node_id: str) -> None:
        """Keep the value as it is, in memory or on disk, until it is unpinned as often.

        Raises KeyError where it is not held.
        """
        with self._lock:
            self._entries[node_id].pins += 1

    def unpin(self, node_id: str) -> None:
        """Frees the value if its readers are done. Nothing happens if it is not pinned."""
        with self._lock:
            entry = self._entries.get(node_id)
            if entry is not None and entry.pins:
                entry.pins -= 1
                self._drop_if_unused(node_id, entry)

    def clear(self) -> None:
        """Free all, pinned or not."""
        with self._lock:
            entries, self._entries = self._entries, {}
            for entry in entries.values():
                self._drop(entry)

    def close(self) -> None:
        """Free all, and remove the files. What is put later is not held."""
        self._budget.unregister(self._free)
        self._is_closed = True
        self.clear()
        with self._spilling:
            if self._folder is not None:
                self._folder.close()
                self._folder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def spilled_bytes(self) -> int:
        """How much is on disk."""
        with self._lock:
            places = [entry.where for entry in self._entries.values()]
        return sum(place.size for place in places if isinstance(place, SpillFile))

    def _drop_if_unused(self, node_id: str, entry: _Entry) -> None:
        if entry.readers <= 0 and not entry.pins:
            del self._entries[node_id]
            self._drop(entry)

    def _drop(self, entry: _Entry) -> None:
        if isinstance(entry.where, Holding):
            self._budget.let_go(entry.where)
        else:
            entry.where.remove()

    def _free(self, wanted: int) -> None:
        """Move values to disk until so much is free, or nothing is left that can be moved."""
        with self._spilling:
            while wanted > 0 and (victims := self._choose(wanted)):
                for node_id, holding in victims:
                    if self._is_closed or self._area.is_paused:
                        return
                    self._spill(node_id, holding)
                wanted = self._budget.excess_bytes

    def _choose(self, wanted: int) -> list[tuple[str, Holding]]:
        with self._lock:
            candidates = sorted(
                (-entry.next_use, entry.used_at, node_id, entry.where)
                for node_id, entry in self._entries.items()
                if isinstance(entry.where, Holding)
                and not (entry.pins or entry.is_stuck)
                # It would come back to memory, not to where it was.
                and not entry.where.footprint.is_elsewhere
            )
            users = self._budget.users_of([holding for *_, holding in candidates])
        return choose_victims(
            [((node_id, holding), holding.footprint) for _, _, node_id, holding in candidates],
            users,
            wanted,
        )

    def _spill(self, node_id: str, holding: Holding) -> None:
        """Write without the lock, so that others can go on; then look whether it still matters."""
        file = self._write(node_id, holding)
        if file is None:
            return
        with self._lock:
            entry = self._entry_with(node_id, holding)
            if entry is not None and not entry.pins:
                entry.where = file
                self._budget.let_go(holding)
                return
        file.remove()

    def _entry_with(self, node_id: str, holding: Holding) -> _Entry | None:
        """The entry, unless its value has gone or changed meanwhile."""
        entry = self._entries.get(node_id)
        return entry if entry is not None and entry.where is holding else None

    def _write(self, node_id: str, holding: Holding) -> SpillFile | None:
        """The file; None where the value cannot be written, or the disk does not take it."""
        slots: Slots | None = holding.value
        if slots is None:
            return None
        try:
            parts = self._codec.encode(slots, LARGEST_GROWTH * holding.footprint.size)
            if self._folder is None:
                self._folder = self._area.new_folder()
            return self._folder.write(parts)
        except (CannotSpill, MemoryError) as error:
            log.debug("value_stays_in_memory", node_id=node_id, reason=str(error))
            with self._lock:
                entry = self._entry_with(node_id, holding)
                if entry is not None:
                    entry.is_stuck = True
        except OSError as error:
            self._area.note_failure(error)
        return None
