"""WebSocket clients: a bounded queue for each, so that none can hold up the others."""

import asyncio
from collections import deque
from collections.abc import Iterable

from aiohttp import WSCloseCode, web

from comfyrail.engine.server.wire import BinaryMessage, Message, PreviewMessage, TextMessage

MOST_WAITING_MESSAGES = 100_000
MOST_WAITING_BYTES = 32 << 20
CLOSE_SECONDS = 0.5
MOST_SOCKETS = 512


class Connection:
    """One socket. Messages are put in without waiting; a task of the socket's own sends them."""

    def __init__(self, socket: web.WebSocketResponse, transport: asyncio.Transport | None) -> None:
        self._socket = socket
        self._transport = transport
        self._waiting: deque[Message] = deque()
        self._waiting_bytes = 0
        self._wake = asyncio.Event()
        self.wants_metadata = False

    def offer(self, message: Message) -> None:
        """Queue a message. When full, what can be spared goes first, then the client itself."""
        if self._is_full():
            if message.droppable:
                return
            self._drop_what_can_be_spared()
            if self._is_full():
                self.abort()
                return
        self._waiting.append(message)
        self._waiting_bytes += message.size
        self._wake.set()

    def abort(self) -> None:
        """Cut the connection: a client that does not read would not see a polite close either."""
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._socket.close(code=WSCloseCode.GOING_AWAY)
        except (TimeoutError, ConnectionError):
            self.abort()

    async def send_forever(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                message = self._waiting.popleft()
                self._waiting_bytes -= message.size
                await self._send(message)

    async def _send(self, message: Message) -> None:
        match message:
            case TextMessage(text):
                await self._socket.send_str(text)
            case PreviewMessage(plain, with_metadata):
                await self._socket.send_bytes(with_metadata if self.wants_metadata else plain)
            case BinaryMessage(content):
                await self._socket.send_bytes(content)

    def _is_full(self) -> bool:
        return (
            len(self._waiting) >= MOST_WAITING_MESSAGES or self._waiting_bytes > MOST_WAITING_BYTES
        )

    def _drop_what_can_be_spared(self) -> None:
        self._waiting = deque(message for message in self._waiting if not message.droppable)
        self._waiting_bytes = sum(message.size for message in self._waiting)


class SocketHub:
    """Who is connected under which client id; several sockets may share one."""

    def __init__(self) -> None:
        self._connections: dict[str, set[Connection]] = {}
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Every socket holds a file descriptor: some must be left for requests and files."""
        return self._count >= MOST_SOCKETS

    def add(self, client_id: str, connection: Connection) -> None:
        self._connections.setdefault(client_id, set()).add(connection)
        self._count += 1

    def remove(self, client_id: str, connection: Connection) -> None:
        connections = self._connections.get(client_id, set())
        if connection in connections:
            connections.remove(connection)
            self._count -= 1
        if not connections:
            self._connections.pop(client_id, None)

    def is_connected(self, client_id: str) -> bool:
        return client_id in self._connections

    def send(self, client_id: str | None, messages: Iterable[Message]) -> None:
        """To every socket of one client; a prompt without a client is nobody's business."""
        if client_id is None:
            return
        connections = self._connections.get(client_id, ())
        for message in messages:
            for connection in tuple(connections):
                connection.offer(message)

    def broadcast(self, message: Message) -> None:
        for connections in tuple(self._connections.values()):
            for connection in tuple(connections):
                connection.offer(message)

    async def close_all(self) -> None:
        """Say goodbye to everybody, and wait for no one who does not answer."""
        open_now = [each for group in self._connections.values() for each in group]
        await asyncio.gather(*(connection.close() for connection in open_now))
