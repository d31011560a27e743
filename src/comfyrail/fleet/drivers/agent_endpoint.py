"""The one route by which agents come in, with its credential, as an application of its own.

The server runs it on a listener of its own: agents come from other machines, while the API of a
server without access control stays on loopback.
"""

import hashlib
import hmac

import structlog
from aiohttp import web

from comfyrail.errors import ConfigurationError
from comfyrail.fleet.drivers.agent_frames import LARGEST_FRAME
from comfyrail.fleet.drivers.agent_lines import AgentLines
from comfyrail.fleet.drivers.agent_socket import CLOSE_SECONDS, AiohttpSocket

PATH = "/v1/agents/ws"
SHORTEST_TOKEN = 16

log = structlog.get_logger(__name__)


def agent_app(lines: AgentLines, token: str) -> web.Application:
    """Raises ConfigurationError for a token that anyone could guess."""
    if len(token) < SHORTEST_TOKEN:
        raise ConfigurationError(
            f"agent_token must have {SHORTEST_TOKEN} characters at least: whoever has it can add "
            'workers. Make one with: python3 -c "import secrets; print(secrets.token_urlsafe(32))"',
            code="AGENT_TOKEN_TOO_SHORT",
        )
    expected = _digest(f"Bearer {token}")

    async def serve(request: web.Request) -> web.StreamResponse:
        given = _digest(request.headers.get("Authorization", ""))
        if not hmac.compare_digest(given, expected):
            log.warning("agent_unauthorized", peer=request.remote)
            return _refusal(
                401, code="UNAUTHORIZED", message="The agent's token is missing or wrong."
            )
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return _refusal(426, code="NOT_A_WEBSOCKET", message="Agents come in over a WebSocket.")
        socket = web.WebSocketResponse(
            max_msg_size=LARGEST_FRAME, compress=False, timeout=CLOSE_SECONDS
        )
        await socket.prepare(request)
        await lines.accept(AiohttpSocket(socket), request.remote or "")
        return socket

    async def stop(_: web.Application) -> None:
        await lines.close()

    app = web.Application()
    app.router.add_get(PATH, serve)
    app.on_shutdown.append(stop)
    return app


def _digest(text: str) -> bytes:
    """Of one length whatever was given, so that comparing tells nothing."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).digest()


def _refusal(status: int, *, code: str, message: str) -> web.Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    body = {"error": {"category": "validation", "code": code, "message": message}}
    return web.json_response(body, status=status, headers=headers)
