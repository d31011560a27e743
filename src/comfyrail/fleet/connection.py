"""One worker's WebSocket: kept open, shared by all of its prompts, a hint and never the truth."""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aiohttp

from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.comfyui.messages import Message, parse_message

Listener = Callable[[Message | None], None]
"""Gets each message of its prompt, and None when the socket came or went: time to reconcile."""


class WorkerConnection:
    """Delivers messages to listeners by prompt id.

    `client_id` is the name by which the worker knows this server: kept over restarts, so that the
    messages of a prompt that an earlier process submitted arrive again.
    """

    def __init__(self, client: ComfyClient, client_id: str) -> None:
        self.client = client
        self.client_id = client_id
        self.is_open = False
        self._listeners: dict[str, Listener] = {}

    @contextmanager
    def listening(self, prompt_id: str, listener: Listener) -> Iterator[None]:
        self._listeners[prompt_id] = listener
        try:
            yield
        finally:
            del self._listeners[prompt_id]

    async def follow(self, opened: Callable[[], None]) -> None:
        """Hold the socket until it drops. Raises WorkerUnreachable when it cannot be opened."""
        async with self.client.socket(self.client_id) as socket:
            self._set_open(is_open=True)
            opened()
            try:
                async for message in socket:
                    if message.type is aiohttp.WSMsgType.TEXT:
                        self._deliver(message.data)
            finally:
                self._set_open(is_open=False)
                if isinstance(socket.exception(), asyncio.TimeoutError):
                    # The worker may not know yet that this socket is dead; when it learns of it,
                    # ComfyUI would drop the id, and with it a new socket of the same name.
                    self.client_id = f"comfyrail-{uuid.uuid4().hex}"

    def _set_open(self, *, is_open: bool) -> None:
        self.is_open = is_open
        for listener in list(self._listeners.values()):
            listener(None)

    def _deliver(self, text: str) -> None:
        message = parse_message(text)
        if message is not None and (listener := self._listeners.get(message.prompt_id)):
            listener(message)
