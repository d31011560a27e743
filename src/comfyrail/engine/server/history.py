"""Prompts that have ended, the oldest forgotten first."""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from typing import Any

DEFAULT_HISTORY_SIZE = 10_000

HistoryEntry = dict[str, Any]


class History:
    """Entries in ComfyUI's shape by prompt id. Owned by the event loop."""

    def __init__(self, max_entries: int = DEFAULT_HISTORY_SIZE) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[str, HistoryEntry] = OrderedDict()

    def add(self, prompt_id: str, entry: HistoryEntry) -> None:
        self._entries.pop(prompt_id, None)
        self._entries[prompt_id] = entry
        while len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)

    def get(self, prompt_id: str) -> HistoryEntry | None:
        return self._entries.get(prompt_id)

    def page(self, max_items: int | None = None, offset: int | None = None) -> dict[str, Any]:
        """`max_items` entries from `offset` on; without an offset, the newest ones."""
        count = len(self._entries)
        if offset is None or offset < 0:
            start = 0 if max_items is None else max(0, count - max_items)
        else:
            start = offset
        stop = None if max_items is None else start + max_items
        return dict(islice(self._entries.items(), start, stop))

    def delete(self, prompt_ids: Iterable[str]) -> None:
        for prompt_id in prompt_ids:
            self._entries.pop(prompt_id, None)

    def clear(self) -> None:
        self._entries.clear()
