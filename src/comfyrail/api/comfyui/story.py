"""A job's events as the messages that ComfyUI would have sent, in ComfyUI's order."""

from collections.abc import Iterator, Mapping
from typing import Any

from comfyrail.api.comfyui.frames import Frame, text_frame
from comfyrail.jobs.events import Event, EventType

MANY_NODES = 60
"""With more of them the state of all is told for a step only, not for each node that begins or
ends: what ComfyUI sends grows with the square of their number.
"""


class Story:
    """Of one job for one client. What ends it is told by whoever knows the outputs."""

    def __init__(self, prompt_id: str, node_count: int) -> None:
        self._prompt_id = prompt_id
        self._is_large = node_count > MANY_NODES
        self._begin()

    def _begin(self) -> None:
        self._nodes: dict[str, dict[str, Any]] = {}
        self._cached: list[str] | None = None
        self._steps: dict[str, tuple[float, float]] = {}
        self._started_at = 0
        self.current: str | None = None
        """The last node of which it was said that it runs."""

    def tell(self, event: Event) -> Iterator[Frame]:
        """Nothing for the final event, but what had to come before it."""
        if event.type is EventType.STARTED:
            self._begin()
            self._cached, self._started_at = [], event.at
            yield self._frame("execution_start", {}, at=event.at)
            return
        node = event.data.get("node_id")
        if event.type is EventType.NODE_COMPLETED and event.data.get("cached"):
            if self._cached is not None:
                self._cached.append(str(node))
            return
        yield from self._tell_cached()
        match event.type:
            case EventType.NODE_STARTED:
                yield from self._tell_begin(str(node))
            case EventType.NODE_COMPLETED:
                yield from self._tell_end(str(node))
            case EventType.PROGRESS:
                yield from self._tell_steps(event.data.get("node_steps"))

    def execute(self, node: str) -> Frame:
        self.current = node
        return self._frame("executing", {"node": node, "display_node": node})

    def executed(self, node: str, shown: Mapping[str, Any]) -> Frame:
        return self._frame("executed", {"node": node, "display_node": node, "output": shown})

    def over(self) -> Frame:
        """The last one of all."""
        return self._frame("executing", {"node": None})

    def _tell_cached(self) -> Iterator[Frame]:
        if self._cached is not None:
            nodes, self._cached = self._cached, None
            yield self._frame("execution_cached", {"nodes": nodes}, at=self._started_at)

    def _tell_begin(self, node: str) -> Iterator[Frame]:
        self._set(node, 0.0, 1.0, "running")
        if not self._is_large:
            yield self._states()
        yield self.execute(node)

    def _tell_end(self, node: str) -> Iterator[Frame]:
        _, most = self._steps.pop(node, (1.0, 1.0))
        self._set(node, most, most, "finished")
        if not self._is_large:
            yield self._states()

    def _tell_steps(self, steps: Any) -> Iterator[Frame]:
        for node, step in steps.items() if isinstance(steps, dict) else ():
            value, most = float(step[0]), float(step[1])
            if most <= 0 or self._steps.get(node) == (value, most) or value <= 0:
                continue
            self._steps[node] = (value, most)
            self._set(node, value, most, "running")
            yield self._states()
            data = {"value": _plain(value), "max": _plain(most), "node": node}
            yield self._frame("progress", data, is_spare=True)

    def _set(self, node: str, value: float, most: float, state: str) -> None:
        self._nodes[node] = {
            "value": value,
            "max": most,
            "state": state,
            "node_id": node,
            "prompt_id": self._prompt_id,
            "display_node_id": node,
            "parent_node_id": None,
            "real_node_id": node,
        }

    def _states(self) -> Frame:
        return self._frame("progress_state", {"nodes": self._nodes}, is_spare=True)

    def _frame(
        self,
        kind: str,
        data: Mapping[str, Any],
        *,
        at: int | None = None,
        is_spare: bool = False,
    ) -> Frame:
        stamp = {} if at is None else {"timestamp": at}
        return text_frame(kind, {**data, "prompt_id": self._prompt_id, **stamp}, is_spare=is_spare)


def _plain(number: float) -> float | int:
    return int(number) if number.is_integer() else number
