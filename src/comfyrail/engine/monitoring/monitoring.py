"""What a worker tells of itself, as its configuration says, from its start to its end."""

import contextlib
import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import structlog

from comfyrail.engine.configuration import MonitoringSection
from comfyrail.engine.executor import Executor
from comfyrail.engine.hooks import Hook
from comfyrail.engine.registry import NodeRegistry
from comfyrail.errors import ConfigurationError
from comfyrail.process import listen

if TYPE_CHECKING:
    from comfyrail.engine.monitoring.metrics import Metrics

log = structlog.get_logger(__name__)


class Monitoring:
    """Nothing at first; what is switched on adds to it."""

    def __init__(self) -> None:
        self.hooks: list[Hook] = []
        """For the executor that is to be watched."""
        self.metrics: Metrics | None = None

    @property
    def metrics_url(self) -> str | None:
        return None if self.metrics is None else self.metrics.url

    def watch(self, executor: Executor) -> None:
        """Tell of this executor, which has the hooks."""
        if self.metrics is not None:
            self.metrics.watch(executor)


@contextlib.contextmanager
def start_monitoring(
    section: MonitoringSection, node_types: NodeRegistry, host: str, port: int | None = None
) -> Iterator[Monitoring]:
    """Serve metrics on the host, at the section's port unless another is given, and send spans.

    Metrics that cannot be served are left out, and the log says why: a second worker on a machine
    works all the same. Raises ConfigurationError for tracing that cannot be done.
    """
    monitoring = Monitoring()
    with contextlib.ExitStack() as stack:
        if section.tracing:
            _add_spans(monitoring, section, stack)
        if section.metrics:
            wanted = section.metrics_port if port is None else port
            _add_metrics(monitoring, node_types, (host, wanted), stack)
        yield monitoring


def _add_metrics(
    monitoring: Monitoring,
    node_types: NodeRegistry,
    address: tuple[str, int],
    stack: contextlib.ExitStack,
) -> None:
    host, port = address
    try:
        # Only a worker that serves them pays for the library.
        module: Any = importlib.import_module("comfyrail.engine.monitoring.metrics")
        listener = stack.enter_context(listen(host, port))
    except ImportError as error:
        log.warning("metrics_off", reason=f"prometheus-client cannot be imported: {error}")
        return
    except ConfigurationError as error:
        log.warning(
            "metrics_off",
            reason=error.message,
            advice="Set monitoring.metrics_port to another port, or monitoring.metrics to false.",
        )
        return
    metrics: Metrics = stack.enter_context(module.Metrics(listener, node_types))
    monitoring.metrics = metrics
    monitoring.hooks.append(metrics.hook)
    log.info("metrics_served", url=metrics.url)


def _add_spans(
    monitoring: Monitoring, section: MonitoringSection, stack: contextlib.ExitStack
) -> None:
    if section.otlp_endpoint is None:
        log.warning("tracing_off", reason="monitoring.otlp_endpoint is not set.")
        return
    try:
        module: Any = importlib.import_module("comfyrail.engine.monitoring.span_export")
    except ImportError as error:
        raise ConfigurationError(
            f"monitoring.tracing needs OpenTelemetry ({error}). "
            "Install it with: pip install 'comfyrail[tracing]'"
        ) from error
    export = module.export_to(section.otlp_endpoint, section.sampling)
    stack.callback(export.close)
    monitoring.hooks.append(export.hook)
