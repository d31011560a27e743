"""What a node function may use of the engine while it runs."""

import io
from collections.abc import Mapping
from typing import Any

from comfyrail.clock import Clock
from comfyrail.engine.events import NodeProgress, Preview, Sink
from comfyrail.engine.folders import Folders
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.output_names import OutputNames
from comfyrail.engine.pixels import to_picture

PREVIEW_INTERVAL_SECONDS = 0.1
PREVIEW_SIDE = 512


class NodeContext:
    """Belongs to one run of one node. Every report is also a point where an interrupt is seen."""

    def __init__(
        self,
        node_id: str,
        *,
        folders: Folders,
        output_names: OutputNames,
        interrupt: Interrupt,
        clock: Clock,
        emit: Sink,
        extra_data: Mapping[str, Any],
    ) -> None:
        self.node_id = node_id
        self.folders = folders
        self.output_names = output_names
        self._interrupt = interrupt
        self._emit = emit
        self._previews_wanted = extra_data.get("preview_method") != "none"
        self.clock = clock
        self._last_preview = clock.monotonic()

    def check_interrupt(self) -> None:
        self._interrupt.check()

    def sleep(self, seconds: float) -> None:
        self._interrupt.sleep(seconds)

    def progress(self, value: float, maximum: float) -> None:
        self._interrupt.check()
        self._emit(NodeProgress(self.node_id, value, maximum))

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
