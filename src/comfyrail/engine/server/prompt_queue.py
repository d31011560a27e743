"""Prompts that wait for the executor: by number, then in the order of arrival."""

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comfyrail.engine.executor import ExecutionRequest


@dataclass(frozen=True, slots=True)
class QueuedPrompt:
    """A prompt that was found good. `extra_data` is what clients may see of it."""

    number: float
    prompt_id: str
    prompt: Mapping[str, Any]
    extra_data: Mapping[str, Any]
    outputs: Sequence[str]
    client_id: str | None

    def as_list(self) -> list[Any]:
        """ComfyUI's form: number, id, prompt, extra_data, outputs."""
        return [self.number, self.prompt_id, self.prompt, self.extra_data, list(self.outputs)]

    def request(self) -> ExecutionRequest:
        return ExecutionRequest(self.prompt, self.outputs, self.extra_data)


class PromptQueue:
    """Owned by the event loop. Removed prompts leave the heap when they come to its top."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, QueuedPrompt]] = []
        self._pending: dict[str, QueuedPrompt] = {}
        self._arrivals = itertools.count()

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, prompt_id: object) -> bool:
        return prompt_id in self._pending

    def add(self, item: QueuedPrompt) -> None:
        """Put a prompt in; its id must not be waiting already."""
        self._pending[item.prompt_id] = item
        heapq.heappush(self._heap, (item.number, next(self._arrivals), item))

    def take(self) -> QueuedPrompt | None:
        """The prompt that is next, removed from the queue."""
        while self._heap:
            _, _, item = heapq.heappop(self._heap)
            if self._pending.get(item.prompt_id) is item:
                del self._pending[item.prompt_id]
                return item
        return None

    def delete(self, prompt_ids: Iterable[str]) -> None:
        for prompt_id in prompt_ids:
            self._pending.pop(prompt_id, None)

    def clear(self) -> None:
        self._pending.clear()
        self._heap.clear()

    def in_order(self) -> list[QueuedPrompt]:
        """What waits, in the order in which it will run."""
        live = [entry for entry in self._heap if self._pending.get(entry[2].prompt_id) is entry[2]]
        return [item for _, _, item in sorted(live, key=lambda entry: entry[:2])]
