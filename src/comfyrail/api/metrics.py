"""Figures for Prometheus."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.services import services_of

METRICS = "/metrics"

router = APIRouter(tags=["metrics"])


@router.get(METRICS)
async def metrics(request: Request) -> Response:
    """In Prometheus' text format."""
    # Only here: the server starts without it.
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest  # noqa: PLC0415

    figures = await services_of(request).figures()
    registry = CollectorRegistry()
    for figure in figures:
        if not figure.samples:
            continue  # nothing is known yet, which is not the same as 0
        labels = sorted({name for sample in figure.samples for name in sample.labels})
        gauge = Gauge(figure.name, figure.meaning, labels, registry=registry)
        for sample in figure.samples:
            (gauge.labels(**sample.labels) if labels else gauge).set(sample.value)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
