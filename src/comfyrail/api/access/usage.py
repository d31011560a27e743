"""What the caller is, may and has used."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.access.contract import days_body, usage_body, who_am_i
from comfyrail.api.access.services import access_of
from comfyrail.api.messages import json_response
from comfyrail.api.permission_check import check_known
from comfyrail.api.services import principal_of

WHOAMI = "/v1/whoami"
USAGE = "/v1/usage"
DAYS = "/v1/usage/days"

router = APIRouter(tags=["access"])


@router.get(WHOAMI)
async def show_caller(request: Request) -> Response:
    """Who the caller is to this server, whatever it may do."""
    check_known(request.scope)
    principal = principal_of(request)
    report = await access_of(request).usage.report(principal, months=1)
    return json_response(who_am_i(principal, report))


@router.get(USAGE)
async def show_usage(
    request: Request, months: Annotated[int, Query(ge=1, le=120)] = 12
) -> Response:
    """Of the caller's tenant: this month, and those before in which it has used anything."""
    report = await access_of(request).usage.report(principal_of(request), months)
    return json_response(usage_body(report))


@router.get(DAYS)
async def show_days(request: Request, days: Annotated[int, Query(ge=1, le=366)] = 30) -> Response:
    """Of the caller's tenant: the last days, UTC, the oldest first, those without anything too."""
    used = await access_of(request).usage.days(principal_of(request), days)
    return json_response(days_body(used))
