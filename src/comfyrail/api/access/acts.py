"""Acts of those who run the server, written down when they are done [11.3]."""

from typing import Any

import structlog
from starlette.requests import Request

from comfyrail.api.access.services import access_of
from comfyrail.api.services import principal_of
from comfyrail.errors import StoreUnavailable

log = structlog.get_logger(__name__)


async def note_act(request: Request, act: str, target: str, **details: Any) -> None:
    """`details` hold no secret. What is done stays done where it cannot be written down: the
    server's own log has it then.
    """
    principal = principal_of(request)
    scope = request.scope
    address = scope.get("client_address") or (request.client.host if request.client else None)
    try:
        await access_of(request).audit.note(
            principal,
            act,
            target,
            details,
            None if address is None else str(address),
            scope.get("request_id"),
        )
    except StoreUnavailable as error:
        log.warning(
            "act_not_noted", act=act, target=target, actor=principal.user_id, error=error.message
        )
