"""The audit log: for those who run the server."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.access.contract import audit_list
from comfyrail.api.access.services import access_of
from comfyrail.api.messages import json_response
from comfyrail.store.access import AuditFilter

AUDIT = "/v1/audit"

router = APIRouter(tags=["access"])


@router.get(AUDIT)
async def list_acts(
    request: Request,
    actor: Annotated[str | None, Query(max_length=64)] = None,
    act: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[int | None, Query(ge=0, le=1 << 53)] = None,
) -> Response:
    """Newest first. Pass `next_cursor` back as `cursor` to go on."""
    where = AuditFilter(actor, act)
    entries, following = await access_of(request).audit.page(where, cursor, limit)
    return json_response(audit_list(entries, following))
