"""Whether the process lives, and whether it can work."""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from comfyrail import __version__
from comfyrail.api.contract import Health, Readiness
from comfyrail.api.messages import json_response
from comfyrail.api.services import services_of

router = APIRouter(tags=["health"])

START_PAGE = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Comfyrail</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/comfyrail.css">
<h1>Comfyrail {__version__} is running</h1>
<p>Submit workflows to <code>POST /v1/workflows/execute</code>, or with
<code>comfyrail run FILE --server</code> and this address.</p>
<ul>
<li><a href="/v1/workflows/executions">Executions</a></li>
<li><a href="/v1/workers">Workers</a></li>
<li><a href="/ready">Readiness</a></li>
<li><a href="/openapi.json">OpenAPI</a></li>
</ul></html>
"""


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


@router.get("/", include_in_schema=False)
async def start_page() -> Response:
    return HTMLResponse(START_PAGE)
