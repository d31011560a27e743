"""All metrics of one worker, and the server that gives them out."""

import socket
from typing import Self

from prometheus_client import CollectorRegistry

from comfyrail.engine.executor import Executor
from comfyrail.engine.monitoring.engine_metrics import EngineMetrics
from comfyrail.engine.monitoring.metrics_server import MetricsServer
from comfyrail.engine.monitoring.node_metrics import NodeMetrics
from comfyrail.engine.registry import NodeRegistry


class Metrics:
    """Served on a socket that listens already. They are this worker's alone: what packs count in
    the library's own registry is not in them.
    """

    def __init__(self, listener: socket.socket, node_types: NodeRegistry) -> None:
        self.hook = NodeMetrics(node_types)
        self._registry = CollectorRegistry()
        self._registry.register(self.hook)
        self._server = MetricsServer(listener, self._registry)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()

    @property
    def url(self) -> str:
        return self._server.url

    def watch(self, executor: Executor) -> None:
        """From here on the figures of the executor are in them, too."""
        self._registry.register(EngineMetrics(executor, self.hook))
