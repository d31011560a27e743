"""Progress that ComfyUI's nodes report, as events of the engine."""

from typing import Any

from comfyrail.engine.comfyui.pictures import encode_picture
from comfyrail.engine.events import NodeProgress, Picture, Preview
from comfyrail.engine.surroundings import RunView


class ProgressReporter:
    """In the shape of a progress handler of ComfyUI's registry; belongs to one execution."""

    name = "comfyrail"

    def __init__(self, run: RunView) -> None:
        self._run = run
        self._previews_wanted = run.extra_data.get("preview_method") != "none"
        self.enabled = True

    def set_registry(self, registry: Any) -> None:
        """The registry tells who it is; nothing of it is needed."""

    def start_handler(self, node_id: str, state: Any, prompt_id: str) -> None:
        """The engine says itself when a node starts."""

    def update_handler(
        self,
        node_id: str,
        value: float,
        max_value: float,
        state: Any,  # noqa: ARG002 - ComfyUI's form
        prompt_id: str,  # noqa: ARG002
        image: Any = None,
    ) -> None:
        self._run.emit(NodeProgress(node_id, value, max_value))
        if image is not None:
            self._show(node_id, image)

    def finish_handler(self, node_id: str, state: Any, prompt_id: str) -> None:
        """The engine says itself when a node has ended."""

    def reset(self) -> None:
        self.enabled = False

    def enable(self) -> None:
        self.enabled = True

    def disable(self) -> None:
        self.enabled = False

    def _show(self, node_id: str, image: Any) -> None:
        picture = encode_picture(image)
        if picture is None:
            return
        if picture.is_result:
            self._run.emit(Picture(node_id, picture.content, picture.format))
        elif self._previews_wanted:
            self._run.emit(Preview(node_id, picture.content, picture.format))
