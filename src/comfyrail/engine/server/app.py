"""The worker as an aiohttp application."""

from collections.abc import AsyncIterator

from aiohttp import web

from comfyrail.clock import Clock, SystemClock
from comfyrail.engine.assembly import build_executor
from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.caching.build import CacheConfig
from comfyrail.engine.configuration import EngineConfiguration
from comfyrail.engine.executor import Executor
from comfyrail.engine.folders import Folders
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.retention import OutputRetention
from comfyrail.engine.server.file_routes import FileRoutes
from comfyrail.engine.server.history import DEFAULT_HISTORY_BYTES, DEFAULT_HISTORY_SIZE
from comfyrail.engine.server.info_routes import InfoRoutes
from comfyrail.engine.server.job_routes import JobRoutes
from comfyrail.engine.server.middleware import explain_malformed, guard_origin
from comfyrail.engine.server.prompt_queue import DEFAULT_WAITING_BYTES
from comfyrail.engine.server.prompt_routes import PromptRoutes
from comfyrail.engine.server.socket_route import SocketRoute
from comfyrail.engine.server.worker import Worker
from comfyrail.workflow.comfyui_features import LARGEST_BODY

WORKER: web.AppKey[Worker] = web.AppKey("worker", Worker)


def create_worker(
    folders: Folders,
    *,
    executor: Executor | None = None,
    registry: NodeRegistry | None = None,
    configuration: EngineConfiguration | None = None,
    cache: CacheConfig | None = None,
    history_size: int = DEFAULT_HISTORY_SIZE,
    history_bytes: int = DEFAULT_HISTORY_BYTES,
    waiting_bytes: int = DEFAULT_WAITING_BYTES,
    keep_outputs: int | None = None,
    clock: Clock | None = None,
) -> Worker:
    """Wire a worker on folders that exist. It does nothing until its application starts."""
    clock = clock or SystemClock()
    executor = executor or build_executor(
        registry or builtin_registry(), folders, configuration, clock=clock, cache=cache
    )
    retention = None if keep_outputs is None else OutputRetention(folders, keep_outputs, clock)
    return Worker(
        executor,
        retention=retention,
        history_size=history_size,
        history_bytes=history_bytes,
        waiting_bytes=waiting_bytes,
    )


def create_app(worker: Worker) -> web.Application:
    """Every route with and without the prefix /api, as ComfyUI has them."""
    app = web.Application(
        client_max_size=LARGEST_BODY,
        middlewares=[guard_origin, worker.visits.watch, explain_malformed],
    )
    app[WORKER] = worker
    tables = [
        *SocketRoute(worker).table(),
        *PromptRoutes(worker).table(),
        *InfoRoutes(worker).table(),
        *FileRoutes(worker).table(),
    ]
    for prefix in ("", "/api"):
        for route in [*tables, *JobRoutes(worker).table()]:
            app.router.add_route(route.method, prefix + route.path, route.handler)
    app.cleanup_ctx.append(_run_worker_thread)
    # Before the server waits for open requests to end: a socket is one.
    app.on_shutdown.append(_close_sockets)
    return app


async def _run_worker_thread(app: web.Application) -> AsyncIterator[None]:
    app[WORKER].start()
    yield
    await app[WORKER].stop()


async def _close_sockets(app: web.Application) -> None:
    await app[WORKER].sockets.close_all()
