"""API keys: the caller's own, and for those who run the server everybody's."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.access.acts import note_act
from comfyrail.api.access.contract import CreateKeyRequest, key_list, made_key_body, wanted_key
from comfyrail.api.access.services import SMALL_BODY, access_of
from comfyrail.api.messages import json_response, read_json
from comfyrail.api.services import principal_of

KEYS = "/v1/keys"
KEY = "/v1/keys/{key_id}"

router = APIRouter(tags=["access"])

_create_request = msgspec.json.Decoder(CreateKeyRequest)
_NOWHERE_KEPT = {"Cache-Control": "no-store"}


@router.post(KEYS, status_code=201)
async def make_key(request: Request) -> Response:
    """The reply is the only place where the key itself is shown."""
    wanted = wanted_key(await read_json(request, _create_request, SMALL_BODY))
    made = await access_of(request).accounts.make_key(principal_of(request), wanted)
    await note_act(
        request,
        "key.make",
        made.key.id,
        user_id=made.key.user_id,
        name=made.key.name,
        permissions=sorted(made.key.permissions),
    )
    headers = {"Location": KEY.format(key_id=made.key.id), **_NOWHERE_KEPT}
    return json_response(made_key_body(made), 201, headers)


@router.get(KEYS)
async def list_keys(
    request: Request,
    user_id: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """The caller's own; with `user_id` those of another user, or of all (`*`). Pass `next_cursor`
    back as `cursor` to go on.
    """
    keys, following = await access_of(request).accounts.list_keys(
        principal_of(request), user_id, cursor, limit
    )
    return json_response(key_list(keys, following))


@router.delete(KEY, status_code=204)
async def revoke_key(request: Request, key_id: str) -> Response:
    """It counts no more from the next request on."""
    key = await access_of(request).accounts.revoke_key(principal_of(request), key_id)
    await note_act(request, "key.revoke", key.id, user_id=key.user_id, name=key.name)
    return Response(status_code=204)
