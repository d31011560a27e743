"""Where users, keys, the audit log and blocks are seen to: at a server, or on its data folder while
it does not run.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.types import ASGIApp, Message

from comfyrail.cli.exits import CANNOT_START, call_server, explain_and_exit
from comfyrail.client import KEY_VARIABLE, ComfyrailClient, RequestFailed
from comfyrail.client.access import Access
from comfyrail.errors import ComfyrailError, ConfigurationError

Result = TypeVar("Result")
Reply = TypeVar("Reply")
Work = Callable[[Access], Coroutine[Any, Any, Result]]


@dataclass(frozen=True, slots=True)
class Desk:
    server: str
    data: Path | None

    def do(self, work: Work[Result]) -> Result:
        """What is refused becomes a sentence and an exit code."""
        if self.data is None:
            return call_server(self._at_server(work))
        try:
            return call_server(self._on_folder(self.data, work))
        except ConfigurationError as error:
            if error.code == "DATA_FOLDER_IN_USE":
                explain_and_exit(_in_use(self.data, error), CANNOT_START)
            raise
        except ComfyrailError as error:
            explain_and_exit(error.message, CANNOT_START)

    async def _at_server(self, work: Work[Result]) -> Result:
        async with ComfyrailClient(self.server) as client:
            return await work(client.access)

    async def _on_folder(self, folder: Path, work: Work[Result]) -> Result:
        # Only here: it brings the whole server along.
        from comfyrail.bootstrap.offline import offline_access  # noqa: PLC0415
        from comfyrail.telemetry.logs import configure_logs  # noqa: PLC0415

        configure_logs(level="error")
        async with offline_access(folder) as app:
            line = _Line(app)
            return await work(Access(line.ask, line.call))


class _Line:
    """To an application in this process, as the client has one to a server."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def ask(
        self,
        method: str,
        path: str,
        kind: type[Reply],
        body: Mapping[str, Any] | bytes | None = None,
    ) -> Reply:
        content = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        return msgspec.json.decode(await self._send(method, path, content or b""), type=kind)

    @asynccontextmanager
    async def call(self, method: str, path: str) -> AsyncIterator[None]:
        await self._send(method, path, b"")
        yield

    async def _send(self, method: str, path: str, content: bytes) -> bytes:
        plain_path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": unquote(plain_path),
            "raw_path": plain_path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"content-type", b"application/json")],
            "client": None,
            "server": None,
        }
        status = 0
        reply = bytearray()

        async def receive() -> Message:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                reply.extend(message.get("body", b""))

        await self._app(scope, receive, send)
        if status >= 400:
            raise RequestFailed(status, msgspec.json.decode(bytes(reply))["error"])
        return bytes(reply)


def _in_use(folder: Path, error: ConfigurationError) -> str:
    holder = error.message.partition("(")[2].partition(")")[0]
    whose = f" ({holder})" if holder else ""
    first_key = folder / "admin.key"
    where = f" (the first one is in {first_key})" if first_key.exists() else ""
    return (
        f"A server uses {folder}{whose}. Ask that one: leave --data out, give --server, and the "
        f"API key of an administrator as {KEY_VARIABLE}{where}. Or stop it, and try again."
    )
