"""`comfyrail serve`: the server process."""

import asyncio
import contextlib
import gc
import importlib
import os
import signal
import socket
from collections.abc import Callable, Iterator

import structlog
import uvicorn
from starlette.types import ASGIApp

from comfyrail.api.app import create_app
from comfyrail.bootstrap.exposure import tell_where_it_listens
from comfyrail.bootstrap.http_connections import (
    connections_within,
    protocol_for,
    raise_file_limit,
)
from comfyrail.bootstrap.settings import Settings
from comfyrail.bootstrap.wiring import running_server
from comfyrail.errors import ConfigurationError, StoreUnavailable
from comfyrail.process import (
    announce_url,
    call_when_parent_ends,
    hand_over_quickly,
    listen,
    url_of,
)
from comfyrail.store.disk_trouble import message_of_a_start
from comfyrail.usecases.shutdown import Shutdown

log = structlog.get_logger(__name__)

GRACE_SECONDS = 3
KEEP_ALIVE_SECONDS = 75
"""Longer than the 60 of common proxies: a connection is not closed under a request."""
SOCKET_MESSAGE_LIMIT = 1 << 20


def serve(settings: Settings, *, announce: bool = False, exit_with_parent: bool = False) -> None:
    """Run the server until a signal ends it. Raises ConfigurationError when it cannot start."""
    hand_over_quickly()
    with (
        listen(settings.host, settings.port) as listener,
        asyncio.Runner(loop_factory=_loop_factory()) as runner,
    ):
        runner.run(_serve(settings, listener, announce, exit_with_parent))
    # The interpreter would look through all objects for rubbish once more: half a second.
    gc.freeze()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The fastest event loop that is installed."""
    try:
        return importlib.import_module("uvloop").new_event_loop  # type: ignore[no-any-return]
    except ImportError:
        return asyncio.new_event_loop


async def _serve(
    settings: Settings, listener: socket.socket, announce: bool, exit_with_parent: bool
) -> None:
    stop = _StopRequests()
    if exit_with_parent:
        call_when_parent_ends(stop.at_once_from_any_thread)
    try:
        async with running_server(settings) as services:
            stop.has_started()
            config = _http_config(create_app(services), settings.max_connections)
            server = _Server(config, listener, announce)
            ending = asyncio.create_task(
                _end_when_asked(server, stop, services.shutdown, settings.shutdown_seconds),
                name="ending",
            )
            try:
                await server.serve(sockets=[listener])
            finally:
                ending.cancel()
                await asyncio.gather(ending, return_exceptions=True)
            log.info("stopping")
    except asyncio.CancelledError:
        if not stop.has_broken_off_the_start():
            raise
        log.info("stopped_before_it_was_ready")
    except StoreUnavailable as error:
        if stop.is_starting:
            raise ConfigurationError(
                f"The server cannot start. {message_of_a_start(error)}", code=error.code
            ) from error
        raise


async def _end_when_asked(
    server: "_Server", stop: "_StopRequests", shutdown: Shutdown, limit: float
) -> None:
    """Serve on while jobs end; then close all streams and requests."""
    await stop.asked.wait()
    stop.hurry = shutdown.hurry
    try:
        await shutdown.drain(0.0 if stop.is_urgent else limit)
    finally:
        server.handle_exit(signal.SIGTERM, None)


def _http_config(app: ASGIApp, max_connections: int) -> uvicorn.Config:
    most = connections_within(max_connections, raise_file_limit())
    if most < max_connections:
        log.warning("fewer_connections", max_connections=most, why="the limit of open files")
    return uvicorn.Config(
        app,
        http=protocol_for(most),
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws_max_size=SOCKET_MESSAGE_LIMIT,
        timeout_graceful_shutdown=GRACE_SECONDS,
        server_header=False,
        proxy_headers=False,
    )


class _StopRequests:
    """What signals ask for: the first one that jobs end and the server stops, the second one that
    it stops at once, the third one ends the process. During the start the first one breaks it off.

    A terminal that was closed says so more than once: that counts as one, and as none where the
    server was told to outlive it (nohup).
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.is_starting = True
        self.is_urgent = False
        self.hurry: Callable[[], None] = lambda: None
        self._was_broken_off = False
        self._loop = asyncio.get_running_loop()
        self._starting = asyncio.current_task()
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self._take, number)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            self._loop.add_signal_handler(signal.SIGHUP, self._ask)

    def has_started(self) -> None:
        self.is_starting = False

    def has_broken_off_the_start(self) -> bool:
        """Whether the start was cancelled from here; it counts as cancelled no longer then."""
        if self._was_broken_off and self._starting is not None:
            self._starting.uncancel()
        return self._was_broken_off

    def at_once_from_any_thread(self) -> None:
        self._loop.call_soon_threadsafe(self._at_once)

    def _take(self, number: int) -> None:
        if self.is_urgent or self._was_broken_off:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif self.asked.is_set():
            self._at_once()
        else:
            self._ask()

    def _at_once(self) -> None:
        self.is_urgent = True
        self.hurry()
        self._ask()

    def _ask(self) -> None:
        self.asked.set()
        if self.is_starting and self._starting is not None and not self._was_broken_off:
            self._was_broken_off = True
            self._starting.cancel()


class _Server(uvicorn.Server):
    """Says where it listens once it does, and leaves the signals to us.

    Uvicorn's own handling raises the signal again at the end, which would end the process before
    the store is closed.
    """

    def __init__(self, config: uvicorn.Config, listener: socket.socket, announce: bool) -> None:
        super().__init__(config)
        self._listener = listener
        self._announce = announce

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        tell_where_it_listens(self._listener)
        if self._announce:
            announce_url(url_of(self._listener))
