"""What packs find when they import ComfyUI's `server`: the worker, in the shape of PromptServer.

Packs add routes, send messages to clients, and look at the queue. ComfyUI's own server is never
imported. The stand-in is made before packs load; `connect` ties it to a worker once there is one.
"""

import asyncio
import struct
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Protocol

import structlog
from aiohttp import web

from comfyrail.engine.comfyui.pictures import encode_picture
from comfyrail.engine.events import PreviewFormat, Sink, TextShown

log = structlog.get_logger(__name__)

OnPrompt = Callable[[Any], Any]
Post = Callable[[Callable[[], None]], None]


class BinaryEventTypes:
    """The numbers of ComfyUI's binary messages."""

    PREVIEW_IMAGE = 1
    UNENCODED_PREVIEW_IMAGE = 2
    TEXT = 3
    PREVIEW_IMAGE_WITH_METADATA = 4


class Sender(Protocol):
    """How messages of packs get to clients. Called on the event loop.

    `client_id` None means all of them.
    """

    def send_json(self, kind: str, data: Any, client_id: str | None) -> None: ...

    def send_bytes(self, content: bytes, client_id: str | None) -> None:
        """A whole binary message, with the number of its event in front."""
        ...

    def send_picture(
        self,
        image: bytes,
        image_format: PreviewFormat,
        metadata: Mapping[str, Any],
        client_id: str | None,
    ) -> None:
        """As a preview in the form that the client asked for: with metadata or without."""
        ...


class QueueAccess(Protocol):
    """What packs may see of the queue and do to it. Called from any thread."""

    def running(self) -> Sequence[Sequence[Any]]:
        """Prompts as (number, id, prompt, extra_data, outputs)."""
        ...

    def pending(self) -> Sequence[Sequence[Any]]: ...

    def remaining(self) -> int: ...

    def history(self) -> Mapping[str, Any]: ...

    def delete(self, prompt_ids: Sequence[str] | None) -> None:
        """Take prompts out that wait; None means all."""
        ...

    def free(self, *, unload_models: bool, free_memory: bool) -> None: ...


class _NoQueue:
    """Before a worker is there."""

    def running(self) -> Sequence[Sequence[Any]]:
        return ()

    def pending(self) -> Sequence[Sequence[Any]]:
        return ()

    def remaining(self) -> int:
        return 0

    def history(self) -> Mapping[str, Any]:
        return {}

    def delete(self, prompt_ids: Sequence[str] | None) -> None:
        pass

    def free(self, *, unload_models: bool, free_memory: bool) -> None:
        pass


class PromptQueueView:
    """In place of ComfyUI's queue object: reads of it, and the few changes that packs make."""

    def __init__(self) -> None:
        self.access: QueueAccess = _NoQueue()
        self.mutex = threading.RLock()

    @property
    def queue(self) -> list[tuple[Any, ...]]:
        return [tuple(item) for item in self.access.pending()]

    @property
    def currently_running(self) -> dict[int, tuple[Any, ...]]:
        return {index: tuple(item) for index, item in enumerate(self.access.running())}

    @property
    def history(self) -> dict[str, Any]:
        return dict(self.access.history())

    def get_current_queue(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        return list(self.currently_running.values()), self.queue

    def get_current_queue_volatile(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        return self.get_current_queue()

    def get_tasks_remaining(self) -> int:
        return self.access.remaining()

    def get_history(
        self,
        prompt_id: str | None = None,
        max_items: int | None = None,
        offset: int = -1,
        map_function: Callable[[Any], Any] | None = None,
    ) -> dict[str, Any]:
        entries = list(self.history.items())
        if prompt_id is not None:
            entries = [entry for entry in entries if entry[0] == prompt_id]
        elif max_items is not None:
            start = max(len(entries) - max_items, 0) if offset < 0 else offset
            entries = entries[start : start + max_items]
        return {key: map_function(item) if map_function else item for key, item in entries}

    def wipe_queue(self) -> None:
        self.access.delete(None)

    def delete_queue_item(self, function: Callable[[Any], Any]) -> bool:
        for item in self.queue:
            if function(item):
                self.access.delete([item[1]])
                return True
        return False

    def set_flag(self, name: str, data: Any) -> None:
        self.access.free(
            unload_models=name == "unload_models" and bool(data),
            free_memory=name == "free_memory" and bool(data),
        )

    def get_flags(self, reset: bool = True) -> dict[str, Any]:  # noqa: ARG002 - ComfyUI's form
        """Flags are acted upon at once: there are never any left."""
        return {}


class PromptServer:
    """The one object of its kind; packs find it as `PromptServer.instance`."""

    instance: ClassVar["PromptServer"]

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        PromptServer.instance = self
        self.loop = loop
        self.routes = web.RouteTableDef()
        self.app = web.Application()
        self.prompt_queue = PromptQueueView()
        self.client_id: str | None = None
        self.last_node_id: str | None = None
        self.last_prompt_id: str | None = None
        self.sockets: dict[str, Any] = {}
        self.sockets_metadata: dict[str, Any] = {}
        self.client_session: Any = None
        self.supports = ["custom_nodes_from_web"]
        self.on_prompt_handlers: list[OnPrompt] = []
        self.number = 0
        self.address = "127.0.0.1"
        self.port = 8188
        self._sender: Sender | None = None
        self._emit: Sink | None = None
        self._post: Post | None = None

    def connect(self, sender: Sender, queue: QueueAccess, post: Post | None = None) -> None:
        """Tie it to a worker. What was sent before went nowhere: nobody was listening.

        `post` brings a call to the event loop, from any thread: one that keeps the order of the
        calls and of the events of executions lets a node's message come before the node's end.
        """
        self._sender = sender
        self._post = post
        self.prompt_queue.access = queue

    def follow(self, emit: Sink | None) -> None:
        """From here on texts about nodes belong to this execution; None: to none."""
        self._emit = emit

    def join(self, app: web.Application) -> None:
        """Give the worker's application what packs have added to theirs. Its own routes win.

        Routes of the table are added with and without the prefix /api, as ComfyUI does it.
        """
        for route in self.routes:
            if isinstance(route, web.RouteDef):
                for prefix in ("/api", ""):
                    _add_route(app, route, prefix + route.path)
            else:
                _guarded(partial(route.register, app.router), str(route))
        for resource in self.app.router.resources():
            _guarded(partial(app.router.register_resource, resource), str(resource))
        app.middlewares.extend(self.app.middlewares)
        for signal in ("on_startup", "on_shutdown", "on_cleanup", "cleanup_ctx"):
            getattr(app, signal).extend(getattr(self.app, signal))
        self.app = app

    def send_sync(self, event: str | int, data: Any, sid: str | None = None) -> None:
        """Send from any thread; pictures are encoded here, not on the event loop."""
        send = self._delivery(event, data, sid)
        if send is None:
            return
        if self._post is not None:
            self._post(send)
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(send)

    async def send(self, event: str | int, data: Any, sid: str | None = None) -> None:
        send = self._delivery(event, data, sid)
        if send is not None:
            send()

    async def send_json(self, event: str, data: Any, sid: str | None = None) -> None:
        await self.send(event, data, sid)

    async def send_bytes(self, event: int, data: bytes, sid: str | None = None) -> None:
        await self.send(event, bytes(data), sid)

    async def send_image(self, image_data: Any, sid: str | None = None) -> None:
        await self.send(BinaryEventTypes.UNENCODED_PREVIEW_IMAGE, image_data, sid)

    def send_progress_text(
        self, text: str | bytes | bytearray, node_id: str, sid: str | None = None
    ) -> None:
        """A text about a node: a part of the execution that is running, else a message."""
        if self._emit is not None and sid in {None, self.client_id}:
            shown = text if isinstance(text, str) else bytes(text).decode("utf-8", "replace")
            self._emit(TextShown(str(node_id), shown))
            return
        content = text.encode() if isinstance(text, str) else bytes(text)
        name = str(node_id).encode()
        self.send_sync(BinaryEventTypes.TEXT, struct.pack(">I", len(name)) + name + content, sid)

    def queue_updated(self) -> None:
        self.send_sync("status", {"status": self.get_queue_info()})

    def get_queue_info(self) -> dict[str, Any]:
        return {"exec_info": {"queue_remaining": self.prompt_queue.get_tasks_remaining()}}

    def add_on_prompt_handler(self, handler: OnPrompt) -> None:
        """`handler` gets the body of each POST /prompt and gives the one that counts."""
        self.on_prompt_handlers.append(handler)

    def trigger_on_prompt(self, json_data: Any) -> Any:
        """The body after all handlers. One that raises is passed over."""
        for handler in self.on_prompt_handlers:
            try:
                json_data = handler(json_data)
            except Exception:
                log.exception("prompt_handler_failed", handler=getattr(handler, "__name__", ""))
        return json_data

    def _delivery(
        self, event: str | int, data: Any, client_id: str | None
    ) -> Callable[[], None] | None:
        sender = self._sender
        if sender is None:
            return None
        if event == BinaryEventTypes.UNENCODED_PREVIEW_IMAGE:
            return self._picture_delivery(sender, data, {}, client_id)
        if event == BinaryEventTypes.PREVIEW_IMAGE_WITH_METADATA and isinstance(data, tuple):
            return self._picture_delivery(sender, data[0], data[1] or {}, client_id)
        if isinstance(data, bytes | bytearray):
            content = struct.pack(">I", int(event)) + data
            return lambda: sender.send_bytes(content, client_id)
        return lambda: sender.send_json(str(event), data, client_id)

    def _picture_delivery(
        self, sender: Sender, shown: Any, metadata: Mapping[str, Any], client_id: str | None
    ) -> Callable[[], None] | None:
        picture = encode_picture(shown)
        if picture is None:
            return None
        return lambda: sender.send_picture(picture.content, picture.format, metadata, client_id)


def install_stand_in(loop: asyncio.AbstractEventLoop, checkout: Path) -> PromptServer:
    """Make the stand-in and have `import server` find it. Must come before packs are imported."""
    module: Any = ModuleType("server", "Comfyrail's worker in the shape of ComfyUI's server.")
    module.__file__ = str(checkout / "server.py")
    module.PromptServer = PromptServer
    module.BinaryEventTypes = BinaryEventTypes
    module.web = web
    sys.modules["server"] = module
    return PromptServer(loop)


def _add_route(app: web.Application, route: web.RouteDef, path: str) -> None:
    _guarded(
        lambda: app.router.add_route(route.method, path, route.handler, **route.kwargs),
        f"{route.method} {path}",
    )


def _guarded(add: Callable[[], object], what: str) -> None:
    try:
        add()
    except (RuntimeError, ValueError) as error:
        log.warning("pack_route_not_added", route=what, error=str(error))
