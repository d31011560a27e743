"""Run a worker in this process until it is told to stop."""

import asyncio
import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import sys
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

SHUTDOWN_SECONDS = 1.0
ORPHAN_SECONDS = 3.0
# A node in pure Python would let the event loop wait 5 ms for its turn, each time.
SWITCH_INTERVAL_SECONDS = 0.0005


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
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    with contextlib.closing(bind_socket(host, port)) as listener:
        folders = prepare_folders(data_dir, input_dir)
        worker = create_worker(
            folders, cache_bytes=cache_bytes, history_size=history_size, keep_outputs=keep_outputs
        )
        actual_port = listener.getsockname()[1]
        url = f"http://{_in_url(host)}:{actual_port}"

        def say_ready() -> None:
            if announce:
                line = {"event": "listening", "host": host, "port": actual_port, "url": url}
                sys.stdout.write(json.dumps(line) + "\n")
                sys.stdout.flush()
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
        _stop_with_parent(asyncio.get_running_loop(), stopping)
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


def _stop_with_parent(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    def watch() -> None:
        with contextlib.suppress(OSError, ValueError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stopping.set)
        # The clean way out may hang in a node; nobody is left to notice.
        threading.Event().wait(ORPHAN_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, name="parent watch", daemon=True).start()


def bind_socket(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ConfigurationError that says what to do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        raise ConfigurationError(_why_not_bound(error, host, port)) from error
    return listener


def _why_not_bound(error: Exception, host: str, port: int) -> str:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is in use by another process. "
            "Stop that one, or choose another port (0 takes a free one)."
        )
    if isinstance(error, OSError) and error.errno == errno.EACCES:
        return f"Port {port} needs more rights than this process has. Choose one above 1023."
    return f"Cannot listen on {host}, port {port}: {error}. Choose another host or port."


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
            f"Cannot write to the data folder {data_dir}: {error}. "
            "Choose another folder, or give this user the right to write there."
        ) from error
    return folders


def _in_url(host: str) -> str:
    if host in ("", "0.0.0.0"):  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    if host == "::":
        return "[::1]"
    return f"[{host}]" if ":" in host else host
