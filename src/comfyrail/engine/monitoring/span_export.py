"""Send spans to a collector over HTTP. Imported only where OpenTelemetry's SDK is installed."""

import threading
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from comfyrail import __version__
from comfyrail.engine.monitoring.spans import NodeSpans
from comfyrail.errors import ConfigurationError

PATH = "/v1/traces"
MOST_WAITING = 16_384
"""Spans that wait to be sent; a graph has one for each node, and may run in a moment."""
EXPORT_SECONDS = 5.0
CLOSE_SECONDS = 2.0


class SpanExport:
    """Spans of one worker on their way to a collector, which need not be up."""

    def __init__(self, processor: SpanProcessor, sampling: float) -> None:
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(sampling)),
            resource=Resource.create(
                {SERVICE_NAME: "comfyrail-worker", SERVICE_VERSION: __version__}
            ),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self.hook = NodeSpans(self._provider.get_tracer("comfyrail", __version__))

    def close(self) -> None:
        """Send what waits, if the collector takes it within a moment."""
        closing = threading.Thread(target=self._provider.shutdown, name="spans-end", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)


def export_to(endpoint: str, sampling: float) -> SpanExport:
    """Export to a collector's address, with or without its path. Raises ConfigurationError."""
    exporter = OTLPSpanExporter(endpoint=traces_url(endpoint), timeout=EXPORT_SECONDS)
    return SpanExport(BatchSpanProcessor(exporter, max_queue_size=MOST_WAITING), sampling)


def traces_url(endpoint: str) -> str:
    """Where traces are sent, as OpenTelemetry's own variables mean it."""
    try:
        parts = urlsplit(endpoint)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        raise ConfigurationError(
            f"monitoring.otlp_endpoint must be an address like http://127.0.0.1:4318, "
            f"not {endpoint!r}."
        )
    base = endpoint.rstrip("/")
    return base if base.endswith(PATH) else base + PATH
