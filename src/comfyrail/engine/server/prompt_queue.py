"""Prompts that wait for the executor: by number, then in the order of arrival."""

import heapq
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.server.wire import encode_json

DEFAULT_WAITING_BYTES = 1 << 30
OVERHEAD_BYTES = 1024
"""About what a prompt takes beside its text, so that many small ones are bounded too."""


@dataclass(frozen=True, slots=True)
class QueuedPrompt:
    """A prompt that was found good. It is kept as text: parsed it takes several times the memory.

    `listed` is ComfyUI's form: number, id, prompt, extra_data, outputs; any client may see it.
    `exact` is the same where strict JSON cannot say it: with NaN in the prompt.
    """

    number: float
    prompt_id: str
    client_id: str | None
    created_at: int
    workflow_id: str | int | None
    listed: bytes
    exact: bytes | None = None
    secrets: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """For nodes that ask for them; never listed."""

    @classmethod
    def of(
        cls,
        number: float,
        prompt_id: str,
        prompt: Mapping[str, Any],
        extra_data: Mapping[str, Any],
        outputs: Sequence[str],
        secrets: Mapping[str, Any] | None = None,
    ) -> "QueuedPrompt":
        form = [number, prompt_id, prompt, extra_data, outputs]
        listed = encode_json(form)
        has_lost_numbers = b"null" in listed and _has_odd_numbers(prompt)
        return cls(
            number=number,
            prompt_id=prompt_id,
            client_id=extra_data.get("client_id"),
            created_at=extra_data["create_time"],
            workflow_id=_workflow_id(extra_data),
            listed=listed,
            exact=json.dumps(form).encode() if has_lost_numbers else None,
            secrets=secrets or {},
        )

    @property
    def size(self) -> int:
        return len(self.listed) + len(self.exact or b"") + OVERHEAD_BYTES

    def request(self) -> ExecutionRequest:
        """What the executor needs, parsed anew."""
        _, _, prompt, extra_data, outputs = json.loads(self.exact or self.listed)
        return ExecutionRequest(prompt, outputs, extra_data, self.prompt_id, self.secrets)


class PromptQueue:
    """Owned by the event loop, bounded by bytes. Only the names of prompts are in the heap: those
    of removed ones leave it when they come to its top, or when they are most of it.
    """

    def __init__(self, max_bytes: int = DEFAULT_WAITING_BYTES) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0
        self._heap: list[tuple[float, int, str]] = []
        self._pending: dict[str, tuple[int, QueuedPrompt]] = {}
        self._arrivals = itertools.count()

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, prompt_id: object) -> bool:
        return prompt_id in self._pending

    def has_room_for(self, item: QueuedPrompt) -> bool:
        """One prompt always fits, whatever its size."""
        return not self._pending or self.used_bytes + item.size <= self.max_bytes

    def add(self, item: QueuedPrompt) -> None:
        """Put a prompt in; its id must not be waiting already."""
        arrival = next(self._arrivals)
        self._pending[item.prompt_id] = (arrival, item)
        self.used_bytes += item.size
        heapq.heappush(self._heap, (item.number, arrival, item.prompt_id))

    def take(self) -> QueuedPrompt | None:
        """The prompt that is next, removed from the queue."""
        while self._heap:
            entry = heapq.heappop(self._heap)
            if self._is_live(entry):
                return self._remove(entry[2])
        return None

    def delete(self, prompt_ids: Iterable[str]) -> None:
        for prompt_id in prompt_ids:
            if prompt_id in self._pending:
                self._remove(prompt_id)
        if len(self._heap) > 2 * len(self._pending):
            self._heap = [entry for entry in self._heap if self._is_live(entry)]
            heapq.heapify(self._heap)

    def clear(self) -> None:
        self._pending.clear()
        self._heap.clear()
        self.used_bytes = 0

    def get(self, prompt_id: str) -> QueuedPrompt | None:
        found = self._pending.get(prompt_id)
        return None if found is None else found[1]

    def in_order(self) -> list[QueuedPrompt]:
        """What waits, in the order in which it will run."""
        live = sorted(filter(self._is_live, self._heap))
        return [self._pending[prompt_id][1] for _, _, prompt_id in live]

    def _is_live(self, entry: tuple[float, int, str]) -> bool:
        _, arrival, prompt_id = entry
        return self._pending.get(prompt_id, (None,))[0] == arrival

    def _remove(self, prompt_id: str) -> QueuedPrompt:
        _, item = self._pending.pop(prompt_id)
        self.used_bytes -= item.size
        return item


def _has_odd_numbers(prompt: Mapping[str, Any]) -> bool:
    try:
        json.dumps(prompt, allow_nan=False)
    except ValueError:
        return True
    return False


def _workflow_id(extra_data: Mapping[str, Any]) -> str | int | None:
    """The id that the editor gave the workflow; clients may send anything in its place."""
    info = extra_data.get("extra_pnginfo")
    workflow = info.get("workflow") if isinstance(info, dict) else None
    found = workflow.get("id") if isinstance(workflow, dict) else None
    return found if isinstance(found, str | int) else None
