"""API v1: webhooks of an account."""

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.messages import json_response, read_json, read_optional_json
from comfyrail.api.services import principal_of, services_of
from comfyrail.api.waiting import unless_client_leaves
from comfyrail.api.webhooks.contract import (
    ROTATE,
    ROTATE_SIGNING_SECRET,
    SIGNING_SECRET,
    TEST,
    WEBHOOK,
    WEBHOOKS,
    RotateRequest,
    TestBody,
    WebhookChange,
    WebhookList,
    WebhookRequest,
    signing_secret_body,
    try_body,
    webhook_body,
    with_secret,
)
from comfyrail.errors import NotReady
from comfyrail.usecases.webhooks import NewWebhook, WebhookChanges

SECRET = {"Cache-Control": "no-store"}

router = APIRouter(tags=["webhooks"])

_new = msgspec.json.Decoder(WebhookRequest)
_change = msgspec.json.Decoder(WebhookChange)
_rotation = msgspec.json.Decoder(RotateRequest)


@router.get(WEBHOOKS)
async def list_webhooks(request: Request) -> Response:
    """All of them, oldest first: there are 50 at most."""
    found = await services_of(request).webhooks.list(principal_of(request))
    return json_response(WebhookList(webhooks=[webhook_body(each) for each in found]))


@router.post(WEBHOOKS, status_code=201)
async def create_webhook(request: Request) -> Response:
    """Tell an address of what happens to one's jobs. The secret is shown this once."""
    body = await read_json(request, _new)
    made = await services_of(request).webhooks.create(
        principal_of(request), NewWebhook(body.url, body.settings(), body.secret, body.enabled)
    )
    location = {"Location": WEBHOOK.format(webhook_id=made.endpoint.id)}
    return json_response(with_secret(made), 201, {**SECRET, **location})


@router.get(SIGNING_SECRET)
async def show_signing_secret(request: Request) -> Response:
    """What signs the calls of jobs that bring no secret of their own."""
    secret = await services_of(request).webhooks.signing_secret(principal_of(request))
    return json_response(signing_secret_body(secret), 200, SECRET)


@router.post(ROTATE_SIGNING_SECRET)
async def rotate_signing_secret(request: Request) -> Response:
    """Sign with another one; the one before signs too for a while."""
    _, body = await read_optional_json(request, _rotation, RotateRequest())
    secret = await services_of(request).webhooks.rotate_signing_secret(
        principal_of(request), body.secret, body.overlap
    )
    return json_response(signing_secret_body(secret), 200, SECRET)


@router.get(WEBHOOK)
async def show_webhook(request: Request, webhook_id: str) -> Response:
    found = await services_of(request).webhooks.get(principal_of(request), webhook_id)
    return json_response(webhook_body(found))


@router.patch(WEBHOOK)
async def change_webhook(request: Request, webhook_id: str) -> Response:
    """What is not given stays as it is. One that was disabled is told again with `enabled`."""
    body = await read_json(request, _change)
    changes = WebhookChanges(
        None if body.url is msgspec.UNSET else body.url,
        body.settings(),
        None if body.enabled is msgspec.UNSET else body.enabled,
    )
    changed = await services_of(request).webhooks.update(principal_of(request), webhook_id, changes)
    return json_response(webhook_body(changed))


@router.delete(WEBHOOK, status_code=204)
async def delete_webhook(request: Request, webhook_id: str) -> Response:
    """With its deliveries and dead letters."""
    await services_of(request).webhooks.delete(principal_of(request), webhook_id)
    return Response(status_code=204)


@router.post(ROTATE)
async def rotate_secret(request: Request, webhook_id: str) -> Response:
    """Sign with another secret; for a while the one before signs too."""
    _, body = await read_optional_json(request, _rotation, RotateRequest())
    shown = await services_of(request).webhooks.rotate(
        principal_of(request), webhook_id, body.secret, body.overlap
    )
    return json_response(with_secret(shown), 200, SECRET)


@router.post(TEST)
async def test_webhook(request: Request, webhook_id: str) -> Response:
    """Send a message of the type `webhook.test` now, and say what came of it."""
    await request.body()
    testing = services_of(request).webhooks.test(principal_of(request), webhook_id)
    result = await unless_client_leaves(request, testing)
    if result is None:
        raise NotReady("The server stops. The test was broken off.")
    return json_response(
        TestBody(
            delivery_id=result.delivery_id,
            delivered=result.made.error is None,
            result=try_body(result.made),
        )
    )
