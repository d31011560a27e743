"""What a worker tells of itself to others: metrics for Prometheus, spans for OpenTelemetry."""

from comfyrail.engine.monitoring.monitoring import Monitoring, start_monitoring

__all__ = ["Monitoring", "start_monitoring"]
