"""`comfyrail serve`: the server process."""

import asyncio
import contextlib
import importlib
import signal
import socket
from collections.abc import Callable, Iterator

import structlog
import uvicorn
from starlette.types import ASGIApp

from comfyrail.api.app import create_app
from comfyrail.bootstrap.settings import Settings
from comfyrail.bootstrap.wiring import running_server
from comfyrail.process import (
    announce_url,
    call_when_parent_ends,
    hand_over_quickly,
    listen,
    url_of,
)

log = structlog.get_logger(__name__)

GRACE_SECONDS = 3
SOCKET_MESSAGE_LIMIT = 1 << 20


def serve(settings: Settings, *, announce: bool = False, exit_with_parent: bool = False) -> None:
    """Run the server until a signal ends it. Raises ConfigurationError when it cannot start."""
    hand_over_quickly()
    with (
        listen(settings.host, settings.port) as listener,
        asyncio.Runner(loop_factory=_loop_factory()) as runner,
    ):
        runner.run(_serve(settings, listener, announce, exit_with_parent))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The fastest event loop that is installed."""
    try:
        return importlib.import_module("uvloop").new_event_loop  # type: ignore[no-any-return]
    except ImportError:
        return asyncio.new_event_loop


async def _serve(
    settings: Settings, listener: socket.socket, announce: bool, exit_with_parent: bool
) -> None:
    async with running_server(settings) as services:
        await _answer(create_app(services), listener, announce, exit_with_parent)


async def _answer(
    app: ASGIApp, listener: socket.socket, announce: bool, exit_with_parent: bool
) -> None:
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws_max_size=SOCKET_MESSAGE_LIMIT,
        timeout_graceful_shutdown=GRACE_SECONDS,
        server_header=False,
        proxy_headers=False,
    )
    server = _Server(config, url_of(listener), announce=announce)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, server.handle_exit, number, None)
    if exit_with_parent:
        call_when_parent_ends(lambda: setattr(server, "should_exit", True))
    await server.serve(sockets=[listener])
    log.info("stopping")


class _Server(uvicorn.Server):
    """Says where it listens once it does, and leaves the signals to us.

    Uvicorn's own handling raises the signal again at the end, which would end the process before
    the store is closed.
    """

    def __init__(self, config: uvicorn.Config, url: str, *, announce: bool) -> None:
        super().__init__(config)
        self._url = url
        self._announce = announce

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        log.info("listening", url=self._url)
        if self._announce:
            announce_url(self._url)
