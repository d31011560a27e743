"""`comfyrail serve`: the server process."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
import uvicorn
from fastapi import FastAPI

from comfyrail.api.app import create_app, give_services
from comfyrail.bootstrap.settings import Settings
from comfyrail.bootstrap.wiring import running_server
from comfyrail.errors import ConfigurationError
from comfyrail.process import announce_url, call_when_parent_ends, listen, url_of

log = structlog.get_logger(__name__)

GRACE_SECONDS = 3
SOCKET_MESSAGE_LIMIT = 1 << 20


def serve(settings: Settings, *, announce: bool = False, exit_with_parent: bool = False) -> None:
    """Run the server until a signal ends it. Raises ConfigurationError when it cannot start."""
    listener = listen(settings.host, settings.port)
    failure: list[ConfigurationError] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            async with running_server(settings) as services:
                give_services(app, services)
                yield
        except ConfigurationError as error:
            failure.append(error)
            raise

    config = uvicorn.Config(
        create_app(lifespan),
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="on",
        ws_max_size=SOCKET_MESSAGE_LIMIT,
        timeout_graceful_shutdown=GRACE_SECONDS,
        server_header=False,
    )
    server = _AnnouncingServer(config, url_of(listener), announce=announce)
    if exit_with_parent:
        call_when_parent_ends(lambda: setattr(server, "should_exit", True))
    with listener:
        asyncio.run(server.serve(sockets=[listener]))
    if failure:
        raise failure[0]


class _AnnouncingServer(uvicorn.Server):
    """Says where it listens once it does."""

    def __init__(self, config: uvicorn.Config, url: str, *, announce: bool) -> None:
        super().__init__(config)
        self._url = url
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            log.info("listening", url=self._url)
            if self._announce:
                announce_url(self._url)
