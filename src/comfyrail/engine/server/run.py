"""Run a worker in this process until it is told to stop."""

import asyncio
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from comfyrail.engine.cache import DEFAULT_CACHE_BYTES
from comfyrail.engine.folders import Folders
from comfyrail.engine.server.app import create_app, create_worker
from comfyrail.engine.server.history import DEFAULT_HISTORY_SIZE
from comfyrail.errors import ConfigurationError
from comfyrail.process import (
    announce_url,
    call_when_parent_ends,
    hand_over_quickly,
    listen,
    url_of,
)

SHUTDOWN_SECONDS = 1.0
ORPHAN_SECONDS = 3.0


def run_worker(
    host: str,
    port: int,
    data_dir: Path,
    *,
    input_dir: Path | None = None,
    exit_with_parent: bool = False,
    announce: bool = False,
    keep_outputs: int | None = None,
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    history_size: int = DEFAULT_HISTORY_SIZE,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT. Port 0 takes a free one.

    `announce` prints one line of JSON when the worker listens; `on_ready` is called with its URL.
    `exit_with_parent` ends the process when its standard input ends, so that a worker does not
    outlive the one that started it, however that one ended. `keep_outputs` bounds the files in the
    output and temp folders. Raises ConfigurationError when it cannot start like this.
    """
    hand_over_quickly()
    with listen(host, port) as listener:
        folders = prepare_folders(data_dir, input_dir)
        worker = create_worker(
            folders, cache_bytes=cache_bytes, history_size=history_size, keep_outputs=keep_outputs
        )
        url = url_of(listener)

        def say_ready() -> None:
            if announce:
                announce_url(url)
            if on_ready is not None:
                on_ready(url)

        asyncio.run(_serve(create_app(worker), listener, say_ready, watch_stdin=exit_with_parent))


async def _serve(
    app: web.Application,
    listener: socket.socket,
    say_ready: Callable[[], None],
    *,
    watch_stdin: bool,
) -> None:
    stopping = asyncio.Event()
    _stop_on_signals(stopping)
    if watch_stdin:
        loop = asyncio.get_running_loop()
        call_when_parent_ends(lambda: loop.call_soon_threadsafe(stopping.set), ORPHAN_SECONDS)
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        say_ready()
        await stopping.wait()
    finally:
        await runner.cleanup()


def _stop_on_signals(stopping: asyncio.Event) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)


def prepare_folders(data_dir: Path, input_dir: Path | None = None) -> Folders:
    """Make the three folders and empty temp. Raises ConfigurationError for unwritable ones."""
    folders = Folders.under(data_dir, input_dir)
    try:
        shutil.rmtree(folders.temp, ignore_errors=True)
        for folder in (folders.input, folders.output, folders.temp):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (folders.output, folders.temp):
            with tempfile.TemporaryFile(dir=folder):
                pass
    except OSError as error:
        raise ConfigurationError(
            f"The data folder {data_dir} cannot be written: {error.strerror}. "
            "Choose another with --data, or mend its permissions.",
            code="DATA_FOLDER_UNWRITABLE",
        ) from error
    return folders
