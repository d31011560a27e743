"""What packs may do to the worker through their stand-in for ComfyUI's server."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from comfyrail.engine.comfyui.prompt_server import PromptServer
from comfyrail.engine.events import PreviewFormat
from comfyrail.engine.server.wire import BinaryMessage, Message, preview_message, text_message
from comfyrail.engine.server.worker import Worker


def connect_packs(server: PromptServer, worker: Worker, app: web.Application) -> None:
    """Give packs their way to clients and the queue, and clients their way to packs' routes."""
    server.connect(PackMessages(worker), PackQueue(worker, server.loop), worker.post)
    worker.change_request = server.trigger_on_prompt
    server.join(app)


class PackMessages:
    """Used on the event loop."""

    def __init__(self, worker: Worker) -> None:
        self._sockets = worker.sockets

    def send_json(self, kind: str, data: Any, client_id: str | None) -> None:
        self._send(text_message(kind, data), client_id)

    def send_bytes(self, content: bytes, client_id: str | None) -> None:
        self._send(BinaryMessage(content, droppable=False), client_id)

    def send_picture(
        self,
        image: bytes,
        image_format: PreviewFormat,
        metadata: Mapping[str, Any],
        client_id: str | None,
    ) -> None:
        # A finished picture is sent so, too: SaveImageWebsocket's are all that there is of them.
        droppable = image_format == "jpeg"
        self._send(preview_message(image, image_format, metadata, droppable=droppable), client_id)

    def _send(self, message: Message, client_id: str | None) -> None:
        if client_id is None:
            self._sockets.broadcast(message)
        else:
            self._sockets.send(client_id, [message])


class PackQueue:
    """Used from any thread."""

    def __init__(self, worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
        self._worker = worker
        self._loop = loop

    def running(self) -> Sequence[Sequence[Any]]:
        item = self._worker.running
        return [] if item is None else [json.loads(item.listed)]

    def pending(self) -> Sequence[Sequence[Any]]:
        return [json.loads(item.listed) for item in self._worker.queue.in_order()]

    def remaining(self) -> int:
        return self._worker.remaining

    def history(self) -> Mapping[str, Any]:
        page = self._worker.history.page()
        return {prompt_id: json.loads(entry.content) for prompt_id, entry in page.items()}

    def delete(self, prompt_ids: Sequence[str] | None) -> None:
        if prompt_ids is None:
            self._loop.call_soon_threadsafe(self._worker.clear_pending)
        else:
            self._loop.call_soon_threadsafe(self._worker.delete_pending, list(prompt_ids))

    def free(self, *, unload_models: bool, free_memory: bool) -> None:
        self._loop.call_soon_threadsafe(
            lambda: self._worker.free(unload_models=unload_models, free_memory=free_memory)
        )
