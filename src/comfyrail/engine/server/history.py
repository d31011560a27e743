"""Prompts that have ended, the oldest forgotten first."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from comfyrail.engine.server.job_list import Job
from comfyrail.engine.server.prompt_queue import OVERHEAD_BYTES

DEFAULT_HISTORY_SIZE = 10_000
DEFAULT_HISTORY_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """`content` is ComfyUI's form as JSON; `job` is what the list of jobs says of it."""

    job: Job
    content: bytes

    @property
    def size(self) -> int:
        return len(self.content) + len(self.job.content) + OVERHEAD_BYTES


class History:
    """Entries by prompt id, bounded by count and by bytes. Owned by the event loop."""

    def __init__(
        self,
        max_entries: int = DEFAULT_HISTORY_SIZE,
        max_bytes: int = DEFAULT_HISTORY_BYTES,
    ) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, HistoryEntry] = OrderedDict()
        self.used_bytes = 0

    def add(self, prompt_id: str, entry: HistoryEntry) -> None:
        """Keep an entry; the newest one stays however large it is."""
        self.delete([prompt_id])
        self._entries[prompt_id] = entry
        self.used_bytes += entry.size
        while len(self._entries) > 1 and self._is_too_much():
            self.delete([next(iter(self._entries))])

    def get(self, prompt_id: str) -> HistoryEntry | None:
        return self._entries.get(prompt_id)

    def page(
        self, max_items: int | None = None, offset: int | None = None
    ) -> dict[str, HistoryEntry]:
        """`max_items` entries from `offset` on; without an offset, the newest ones."""
        count = len(self._entries)
        wanted = count if max_items is None else max(0, min(max_items, count))
        start = count - wanted if offset is None or offset < 0 else min(offset, count)
        return dict(islice(self._entries.items(), start, start + wanted))

    def newest(self, max_bytes: int) -> list[tuple[str, HistoryEntry]]:
        """The last entries that fit, oldest first; at least one where there is any."""
        taken: list[tuple[str, HistoryEntry]] = []
        used = 0
        for prompt_id, entry in reversed(self._entries.items()):
            used += entry.size
            if taken and used > max_bytes:
                break
            taken.append((prompt_id, entry))
        return taken[::-1]

    def delete(self, prompt_ids: Iterable[str]) -> None:
        for prompt_id in prompt_ids:
            entry = self._entries.pop(prompt_id, None)
            if entry is not None:
                self.used_bytes -= entry.size

    def clear(self) -> None:
        self._entries.clear()
        self.used_bytes = 0

    def _is_too_much(self) -> bool:
        return len(self._entries) > self._max_entries or self.used_bytes > self._max_bytes
