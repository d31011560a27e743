"""What a node function may use of the engine while it runs."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from comfyrail.clock import Clock
from comfyrail.engine.caching.result import Slot
from comfyrail.engine.checkpoint import Checkpoint
from comfyrail.engine.events import (
    NodeProgress,
    Picture,
    Preview,
    PreviewFormat,
    Sink,
    TextShown,
)
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.output_names import OutputNames
from comfyrail.engine.pixels import to_picture
from comfyrail.workflow.catalog import OutputPort

log = structlog.get_logger(__name__)

PREVIEW_INTERVAL_SECONDS = 0.1
PREVIEW_SIDE = 512


class NodeContext:
    """Belongs to one run of one node. Every report is also a point where an interrupt is seen."""

    def __init__(
        self,
        node_id: str,
        *,
        execution_id: str,
        folders: Folders,
        output_names: OutputNames,
        interrupt: Interrupt,
        clock: Clock,
        emit: Sink,
        extra_data: Mapping[str, Any],
        inputs: Mapping[str, Slot],
        checkpoint: Checkpoint | None,
        key: str,
        outputs: Sequence[OutputPort],
        measure: Callable[[str, float], None],
    ) -> None:
        self.node_id = node_id
        self._key = key
        self.execution_id = execution_id
        self.inputs = inputs
        """All items of each input, also in a node that is called once for each of them."""
        self.outputs = outputs
        """What the node is to give."""
        self._measure = measure
        self._checkpoint = checkpoint
        self.folders = folders
        self.output_names = output_names
        self._interrupt = interrupt
        self._emit = emit
        self._previews_wanted = extra_data.get("preview_method") != "none"
        self.clock = clock
        self._last_preview = clock.monotonic()

    @property
    def logger(self) -> Any:
        """Writes to the worker's log, with the names of the execution and the node."""
        return log.bind(execution_id=self.execution_id, node_id=self.node_id)

    def measure(self, name: str, value: float) -> None:
        """Put a number of the node's own among the worker's metrics: its newest value counts."""
        self._measure(name, float(value))

    @property
    def saved_state(self) -> Any:
        """What this node wrote down before the execution was cut short; None in a first run."""
        return None if self._checkpoint is None else self._checkpoint.state_of(self._key)

    def save_state(self, state: Any) -> None:
        """Write down plain data to go on from, where the execution has a checkpoint."""
        self._interrupt.check()
        if self._checkpoint is not None:
            self._checkpoint.save_state(self._key, state)

    def check_interrupt(self) -> None:
        self._interrupt.check()

    def sleep(self, seconds: float) -> None:
        self._interrupt.sleep(seconds)

    def progress(self, value: float, maximum: float) -> None:
        self._interrupt.check()
        self._emit(NodeProgress(self.node_id, value, maximum))

    def send_picture(self, image: bytes, image_format: PreviewFormat) -> None:
        """Send a finished picture, encoded, to the client that asked for this execution."""
        self._interrupt.check()
        self._emit(Picture(self.node_id, image, image_format))

    def show_text(self, text: str) -> None:
        """Show a text about what is being made."""
        self._interrupt.check()
        self._emit(TextShown(self.node_id, text))

    def preview(self, image: Any) -> None:
        """Show an unfinished image [H,W,C]: not more often than clients can look at it."""
        self._interrupt.check()
        now = self.clock.monotonic()
        if not self._previews_wanted or now - self._last_preview < PREVIEW_INTERVAL_SECONDS:
            return
        self._last_preview = now
        self._emit(Preview(self.node_id, _encode_preview(image), "jpeg"))


def _encode_preview(image: Any) -> bytes:
    picture = to_picture(image).convert("RGB")
    picture.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE))
    encoded = io.BytesIO()
    picture.save(encoded, "JPEG", quality=85)
    return encoded.getvalue()
