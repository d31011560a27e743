"""Whether the process lives, and whether it can work."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail import __version__
from comfyrail.api.contract import Health, Readiness
from comfyrail.api.messages import json_response
from comfyrail.api.services import services_of

router = APIRouter(tags=["health"])


@router.head("/health", include_in_schema=False)
@router.get("/health")
async def health() -> Response:
    """The process answers."""
    return json_response(Health(status="ok", version=__version__))


@router.head("/ready", include_in_schema=False)
@router.get("/ready")
async def ready(request: Request) -> Response:
    """A submitted job would be kept and run now: a write reaches the disk, a worker is ready."""
    report = await services_of(request).check_readiness()
    return json_response(
        Readiness(
            status="ready",
            queued=report.queued,
            processing=report.processing,
            workers=dict(report.workers),
            can_start=report.can_start,
            paused=report.is_paused,
        )
    )
