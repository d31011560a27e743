"""GET /ws."""

import asyncio
import contextlib
import json
import uuid
from typing import Any

from aiohttp import WSMsgType, web

from comfyrail.engine.server.replies import LONGEST_ID, refuse
from comfyrail.engine.server.sockets import Connection
from comfyrail.engine.server.wire import text_message
from comfyrail.engine.server.worker import Worker
from comfyrail.workflow.comfyui_features import FEATURES

HEARTBEAT_SECONDS = 20.0
LARGEST_MESSAGE = 256 << 10


class SocketRoute:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def table(self) -> list[web.RouteDef]:
        return [web.get("/ws", self.open)]

    async def open(self, request: web.Request) -> web.StreamResponse:
        if self._worker.sockets.is_full:
            return refuse("Too many clients are connected to this worker. Try again later.", 503)
        client_id = request.query.get("clientId") or uuid.uuid4().hex
        if len(client_id) > LONGEST_ID:
            return refuse(f"The clientId must not have more than {LONGEST_ID} characters.")
        socket = web.WebSocketResponse(
            heartbeat=HEARTBEAT_SECONDS, compress=False, max_msg_size=LARGEST_MESSAGE
        )
        await socket.prepare(request)
        connection = Connection(socket, request.transport)
        sender = asyncio.create_task(connection.send_forever(), name=f"socket {client_id}")
        self._worker.connect(client_id, connection)
        try:
            await self._listen(socket, connection)
        finally:
            self._worker.disconnect(client_id, connection)
            sender.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await sender
        return socket

    async def _listen(self, socket: web.WebSocketResponse, connection: Connection) -> None:
        """The first message may negotiate features; nothing else is read, as in ComfyUI."""
        first = True
        async for message in socket:
            if message.type is WSMsgType.TEXT and first:
                flags = _read_feature_flags(message.data)
                if flags is not None:
                    connection.wants_metadata = flags.get("supports_preview_metadata") is True
                    connection.offer(text_message("feature_flags", FEATURES))
            first = False


def _read_feature_flags(text: str) -> dict[str, Any] | None:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("type") != "feature_flags":
        return None
    data = message.get("data")
    return data if isinstance(data, dict) else {}
