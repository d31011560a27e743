"""Run a graph and measure it."""

import asyncio

import structlog

from comfyrail.engine.events import Event, Sink
from comfyrail.engine.execution import ExecutionRequest
from comfyrail.engine.executor import Executor
from comfyrail.engine.interrupt import Interrupt
from comfyrail.engine.keys import KeyBook
from comfyrail.engine.live_graph import LiveGraph, upstream_first
from comfyrail.engine.profiling.recorder import Recorder
from comfyrail.engine.profiling.report import ProfileReport

log = structlog.get_logger(__name__)


def _ignore(_: Event) -> None:
    pass


def profile_execution(
    executor: Executor,
    recorder: Recorder,
    request: ExecutionRequest,
    interrupt: Interrupt | None = None,
    emit: Sink = _ignore,
) -> ProfileReport:
    """Run to the end, however it ends, and report.

    The executor must have been made with the recorder as a hook and with its surroundings. Raises
    ConfigurationError for options that the request should not have.
    """
    strategy = executor.check_options(request.extra_data).strategy
    levels = find_cache_levels(executor, request)
    executor.run(request, recorder.watching(emit), interrupt or Interrupt())
    report = recorder.report(strategy, levels)
    if report is None:
        raise ValueError("The executor was not made with this recorder as a hook.")
    return report


def find_cache_levels(executor: Executor, request: ExecutionRequest) -> dict[str, str]:
    """Which level of the cache holds the result of a node now, by node id.

    Fingerprints of nodes are asked for, as the execution itself will do. Not to be called where
    an event loop runs.
    """
    graph = LiveGraph(request.prompt, executor.registry.view())
    keys = KeyBook(graph, executor.folders, "not kept")
    try:
        order = upstream_first(graph, request.outputs)
        asyncio.run(keys.make(order))
    except Exception as error:  # noqa: BLE001 - the execution will say it of the node
        log.debug("cache_levels_unknown", error=str(error))
        return {}
    levels = executor.cache.find(map(keys.__getitem__, order))
    return {node_id: levels[keys[node_id]] for node_id in order if keys[node_id] in levels}
