"""Run a worker in this process until it is told to stop."""

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import structlog
from aiohttp import web

from comfyrail.engine.assembly import build_executor
from comfyrail.engine.caching.build import CacheConfig
from comfyrail.engine.configuration import (
    EngineConfiguration,
    MonitoringSection,
    load_configuration,
)
from comfyrail.engine.descendants import end_all_descendants
from comfyrail.engine.folders import Folders
from comfyrail.engine.monitoring import start_monitoring
from comfyrail.engine.server.app import create_app, create_worker
from comfyrail.engine.server.handover import AnewFrom, can_begin_anew, receive_handover
from comfyrail.engine.server.node_sources import NodeSources, load_nodes
from comfyrail.engine.server.pack_access import connect_packs
from comfyrail.engine.server.worker import Worker
from comfyrail.errors import ConfigurationError
from comfyrail.process import (
    announce_url,
    call_when_parent_ends,
    hand_over_quickly,
    listen,
    url_of,
)

log = structlog.get_logger(__name__)

SHUTDOWN_SECONDS = 1.0
ORPHAN_SECONDS = 3.0
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8188


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker is started.

    `announce` prints one line of JSON when the worker listens. `exit_with_parent` ends the process
    when its standard input ends, so that a worker does not outlive the one that started it,
    however that one ended. `keep_outputs` bounds the files in the output and temp folders.
    """

    data: Path
    host: str | None = None
    port: int | None = None
    """0 takes a free one."""
    input: Path | None = None
    keep_outputs: int | None = None
    config: Path | None = None
    cache: Path | None = None
    """Folder for results that outlast the worker and are shared with others; counts unless the
    configuration names one."""
    comfyui: Path | None = None
    """A ComfyUI checkout whose nodes and packs are loaded."""
    comfyui_arguments: Sequence[str] = ()
    """Flags of ComfyUI's main.py."""
    nodes: Sequence[Path] = ()
    """Packs to load."""
    metrics: bool = False
    """Whether metrics are served where the configuration has them on."""
    metrics_port: int | None = None
    """In place of the configuration's; 0 takes a free one."""
    announce: bool = False
    exit_with_parent: bool = False
    stop_after: float | None = None
    """Seconds after an interrupt until a node that cannot be stopped otherwise is ended with the
    process, which begins anew under the same id and on the same port. 0: never. None: the usual
    time; never with a ComfyUI, whose models would have to be loaded again."""


def run_worker(settings: WorkerSettings, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; `on_ready` is called with the worker's URL.

    Raises ConfigurationError when it cannot start like this.
    """
    hand_over_quickly()
    configuration = (
        EngineConfiguration() if settings.config is None else load_configuration(settings.config)
    )
    with contextlib.ExitStack() as stack:
        before = receive_handover()
        # Whoever has the port must be told before a large ComfyUI is loaded in vain.
        early = None
        if before is not None:
            early = [stack.enter_context(listener) for listener in before.listeners]
        elif not settings.comfyui:
            early = _listen(stack, settings, [DEFAULT_HOST], DEFAULT_PORT)
        nodes = load_nodes(
            settings.comfyui, settings.comfyui_arguments, settings.nodes, _comfyui_flags(settings)
        )
        if nodes.listening is None or before is not None:
            listeners = early or []
        else:
            listeners = _listen(stack, settings, nodes.listening.hosts, nodes.listening.port)
        folders = nodes.folders or prepare_folders(
            settings.data, settings.input, keeps_temp=before is not None
        )
        monitoring = stack.enter_context(
            start_monitoring(
                _monitoring_of(settings, configuration),
                nodes.registry,
                listeners[0].getsockname()[0],
                settings.metrics_port,
            )
        )
        executor = build_executor(
            nodes.registry,
            folders,
            configuration,
            cache=_cache_of(settings, configuration, nodes),
            surroundings=nodes.surroundings,
            hooks=monitoring.hooks,
        )
        monitoring.watch(executor)
        worker = create_worker(folders, executor=executor, keep_outputs=settings.keep_outputs)
        worker.pack_failures = nodes.failures
        worker.has_packs = bool(settings.nodes)
        if before is not None and before.state is not None:
            worker.take_over(before.state)
        _prepare_for_stuck_nodes(worker, settings, listeners)
        app = create_app(worker)
        if nodes.server is not None:
            connect_packs(nodes.server, worker, app)
        url = url_of(listeners[0])

        def say_ready() -> None:
            if before is not None:
                log.warning("worker_began_anew", url=url)
                return
            if settings.announce:
                announce_url(url)
            if on_ready is not None:
                on_ready(url)

        serving = _serve(app, listeners, say_ready, watch_stdin=settings.exit_with_parent)
        with asyncio.Runner(loop_factory=nodes.loop_factory) as runner:
            runner.run(serving)


def _prepare_for_stuck_nodes(
    worker: Worker, settings: WorkerSettings, listeners: Sequence[socket.socket]
) -> None:
    """Let the process begin anew as the last means, where it is the worker's own."""
    is_ours = threading.current_thread() is threading.main_thread() and can_begin_anew()
    is_wanted = settings.comfyui is None if settings.stop_after is None else settings.stop_after > 0
    if is_ours and is_wanted:
        worker.begin_anew = AnewFrom(Path.cwd(), listeners)
        worker.stop_seconds = settings.stop_after or worker.stop_seconds


def _listen(
    stack: contextlib.ExitStack, settings: WorkerSettings, hosts: Sequence[str], port: int
) -> list[socket.socket]:
    """One socket for each address; all of them have the port of the first."""
    listeners: list[socket.socket] = []
    wanted = port if settings.port is None else settings.port
    for host in hosts if settings.host is None else [settings.host]:
        listener = stack.enter_context(listen(host, wanted))
        wanted = listener.getsockname()[1]
        listeners.append(listener)
    return listeners


def _comfyui_flags(settings: WorkerSettings) -> list[str]:
    """Our own flags in ComfyUI's words: packs look at them."""
    flags = [] if settings.host is None else ["--listen", settings.host]
    return flags if settings.port is None else [*flags, "--port", str(settings.port)]


def _cache_of(
    settings: WorkerSettings, configuration: EngineConfiguration, nodes: NodeSources
) -> CacheConfig:
    """What the configuration says, changed by what ComfyUI's flags say."""
    section = configuration.cache_config()
    if section.disk_path is None:
        section = replace(section, disk_path=settings.cache)
    return section if nodes.change_cache is None else nodes.change_cache(section)


def _monitoring_of(
    settings: WorkerSettings, configuration: EngineConfiguration
) -> MonitoringSection:
    section = configuration.monitoring
    return section if settings.metrics else msgspec.structs.replace(section, metrics=False)


async def _serve(
    app: web.Application,
    listeners: Sequence[socket.socket],
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
        for listener in listeners:
            await web.SockSite(runner, listener).start()
        say_ready()
        await stopping.wait()
    finally:
        await runner.cleanup()
        if threading.current_thread() is threading.main_thread():
            # The process is the worker's own. What its nodes have started ends with it.
            await asyncio.to_thread(end_all_descendants)


def _stop_on_signals(stopping: asyncio.Event) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)


def prepare_folders(
    data_dir: Path, input_dir: Path | None = None, *, keeps_temp: bool = False
) -> Folders:
    """Make the three folders and empty temp. Raises ConfigurationError for unwritable ones."""
    folders = Folders.under(data_dir, input_dir)
    try:
        folders.make(keeps_temp=keeps_temp)
    except OSError as error:
        raise ConfigurationError(
            f"The data folder {data_dir} cannot be written: {error.strerror}. "
            "Choose another with --data, or mend its permissions.",
            code="DATA_FOLDER_UNWRITABLE",
        ) from error
    return folders
