"""Users: for those who run the server."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.access.acts import note_act
from comfyrail.api.access.contract import (
    ChangeUserRequest,
    CreateUserRequest,
    new_user,
    quota_changes,
    user_body,
    user_change,
    user_list,
)
from comfyrail.api.access.services import SMALL_BODY, access_of
from comfyrail.api.messages import json_response, read_json
from comfyrail.api.services import principal_of

USERS = "/v1/users"
USER = "/v1/users/{user_id}"

router = APIRouter(tags=["access"])

_create_request = msgspec.json.Decoder(CreateUserRequest)
_change_request = msgspec.json.Decoder(ChangeUserRequest)


@router.post(USERS, status_code=201)
async def add_user(request: Request) -> Response:
    """She gets in with a key (POST /v1/keys), or with a token that names her."""
    wanted = new_user(await read_json(request, _create_request, SMALL_BODY))
    user = await access_of(request).accounts.add_user(principal_of(request), wanted)
    await note_act(
        request,
        "user.add",
        user.id,
        tenant=user.tenant,
        tier=user.tier,
        permissions=sorted(user.permissions),
        quotas=user.quotas,
    )
    return json_response(user_body(user), 201, {"Location": USER.format(user_id=user.id)})


@router.get(USERS)
async def list_users(
    request: Request,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """By id. Pass `next_cursor` back as `cursor` to go on."""
    users, following = await access_of(request).accounts.list_users(cursor, limit)
    return json_response(user_list(users, following))


@router.get(USER)
async def show_user(request: Request, user_id: str) -> Response:
    return json_response(user_body(await access_of(request).accounts.get_user(user_id)))


@router.patch(USER)
async def change_user(request: Request, user_id: str) -> Response:
    """Counts from the next request on, for the keys of the user too."""
    body = await read_json(request, _change_request, SMALL_BODY)
    user = await access_of(request).accounts.change_user(
        principal_of(request), user_id, user_change(body)
    )
    given = {
        "tenant": body.tenant,
        "tier": body.tier,
        "permissions": None if body.permissions is None else sorted(user.permissions),
        "quotas": quota_changes(body.quotas) or None,
        "disabled": body.disabled,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    await note_act(request, "user.change", user.id, **changes)
    return json_response(user_body(user))


@router.delete(USER, status_code=204)
async def remove_user(request: Request, user_id: str) -> Response:
    """Her keys are revoked. Jobs and files of her tenant stay."""
    await access_of(request).accounts.remove_user(user_id)
    await note_act(request, "user.remove", user_id)
    return Response(status_code=204)
