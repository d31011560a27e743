"""One worker's WebSocket: kept open, shared by all of its prompts, a hint and never the truth."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import aiohttp

from comfyrail.errors import WorkerProtocolError
from comfyrail.fleet.comfyui.client import ComfyClient, decode_anywhere
from comfyrail.fleet.comfyui.messages import Message, NodeExecuting, PromptEnded, read_message
from comfyrail.fleet.comfyui.pictures import WorkerPicture, parse_picture

Listener = Callable[[Message | None], None]
"""Gets each message of its prompt, and None when the socket came or went: time to reconcile."""
PictureTaker = Callable[[WorkerPicture, str | None], Awaitable[None]]
"""Gets each picture of its prompt and the node that sent it. Nothing more is read from the socket
until it is done."""


class WorkerConnection:
    """Delivers messages to listeners by prompt id.

    `client_id` is the name by which the worker knows this server: kept over restarts, so that the
    messages of a prompt that an earlier process submitted arrive again.
    """

    def __init__(self, client: ComfyClient, client_id: str) -> None:
        self.client = client
        self.contact = client.contact
        self.first_client_id = client_id
        """Later names of this server begin with it."""
        self.client_id = client_id
        self.is_open = False
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._listeners: dict[str, Listener] = {}
        self._takers: dict[str, PictureTaker] = {}
        self._running: tuple[str, str | None] | None = None
        """The prompt and the node that the worker spoke of last: plain pictures belong to them."""

    @contextmanager
    def listening(
        self, prompt_id: str, listener: Listener, pictures: PictureTaker | None = None
    ) -> Iterator[None]:
        self._listeners[prompt_id] = listener
        if pictures is not None:
            self._takers[prompt_id] = pictures
        try:
            yield
        finally:
            del self._listeners[prompt_id]
            self._takers.pop(prompt_id, None)

    async def follow(self, opened: Callable[[], None]) -> None:
        """Hold the socket until it drops. Raises WorkerUnreachable when it cannot be opened."""
        async with self.client.socket(self.client_id) as socket:
            self._socket = socket
            self._set_open(is_open=True)
            opened()
            try:
                async for message in socket:
                    if message.type is aiohttp.WSMsgType.ERROR:
                        break
                    self.contact.note_line_heard()
                    if message.type is aiohttp.WSMsgType.TEXT:
                        await self._deliver(message.data)
                    elif message.type is aiohttp.WSMsgType.BINARY:
                        await self._deliver_picture(message.data)
                    elif message.type is aiohttp.WSMsgType.PING:
                        await socket.pong(message.data)
            finally:
                self._socket = None
                self._set_open(is_open=False)
                if isinstance(socket.exception(), asyncio.TimeoutError):
                    # The worker may not know yet that this socket is dead; when it learns of it,
                    # ComfyUI would drop the id, and with it a new socket of the same name.
                    self.client_id = f"{self.first_client_id}.{uuid.uuid4().hex}"

    async def ping(self, seconds: float) -> None:
        """Ask for a sign of life over the socket, if there is one; do not wait for it."""
        if self._socket is not None:
            with suppress(aiohttp.ClientError, OSError):  # who reads from it notices that
                async with asyncio.timeout(seconds):
                    await self._socket.ping()

    def _set_open(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self.contact.note_line(is_open=is_open)
        self._running = None
        for listener in list(self._listeners.values()):
            listener(None)

    async def _deliver(self, text: str) -> None:
        try:
            message = read_message(await decode_anywhere(text))
        except WorkerProtocolError:
            return
        if message is None:
            return
        self._note_running(message)
        listener = self._listeners.get(message.prompt_id)
        if listener is not None:
            listener(message)

    def _note_running(self, message: Message) -> None:
        if isinstance(message, PromptEnded):
            self._running = None
        elif isinstance(message, NodeExecuting):
            self._running = (message.prompt_id, message.node)
        elif self._running is None or self._running[0] != message.prompt_id:
            self._running = (message.prompt_id, None)

    async def _deliver_picture(self, frame: bytes) -> None:
        picture = parse_picture(frame)
        if picture is None:
            return
        if picture.prompt_id is not None:
            owner, node_id = picture.prompt_id, picture.node_id
        elif self._running is not None:
            owner, node_id = self._running
        else:
            return
        take = self._takers.get(owner)
        if take is not None:
            await take(picture, node_id)
