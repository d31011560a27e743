"""API v1: what was told, what is to be, and what could not be."""

import uuid
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.contract import instant_in, instant_of
from comfyrail.api.cursors import LONGEST_CURSOR, invalid_cursor, read_cursor, write_cursor
from comfyrail.api.messages import json_response, read_optional_json
from comfyrail.api.services import principal_of, services_of
from comfyrail.api.webhooks.contract import (
    DEAD_LETTERS,
    DELIVERIES,
    DELIVERY,
    REDELIVER,
    REDELIVER_DEAD,
    DeadLetterChoice,
    DeadLetterCount,
    DeliveryList,
    delivery_body,
    delivery_detail,
)
from comfyrail.clock import Instant
from comfyrail.ids import JobId
from comfyrail.store.notifications import DeliveryFilter, DeliveryState

Word = Annotated[str | None, Query(max_length=200)]
Time = Annotated[str | None, Query(json_schema_extra={"format": "date-time"})]
Limit = Annotated[int, Query(ge=1, le=500)]
Cursor = Annotated[str | None, Query(max_length=LONGEST_CURSOR)]
StateName = Literal["pending", "delivered", "dead", "cancelled"]
LARGEST_SEQUENCE = (1 << 63) - 1

router = APIRouter(tags=["webhooks"])

_choice = msgspec.json.Decoder(DeadLetterChoice)


@router.get(DELIVERIES)
async def list_deliveries(
    request: Request,
    state: StateName | None = None,
    webhook_id: Word = None,
    execution_id: Word = None,
    type: Word = None,  # noqa: A002 - the word of the API
    created_from: Time = None,
    created_before: Time = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """The log, newest first. Pass `next_cursor` back as `cursor` to go on."""
    where = _filter(
        None if state is None else DeliveryState(state),
        webhook_id,
        execution_id,
        type,
        instant_in(created_from, "created_from"),
        instant_in(created_before, "created_before"),
    )
    return await _page(request, where, limit, cursor)


@router.get(DEAD_LETTERS)
async def list_dead_letters(
    request: Request,
    webhook_id: Word = None,
    execution_id: Word = None,
    type: Word = None,  # noqa: A002 - the word of the API
    created_from: Time = None,
    created_before: Time = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """What could not be delivered, newest first."""
    where = _filter(
        DeliveryState.DEAD,
        webhook_id,
        execution_id,
        type,
        instant_in(created_from, "created_from"),
        instant_in(created_before, "created_before"),
    )
    return await _page(request, where, limit, cursor)


@router.get(DELIVERY)
async def show_delivery(request: Request, delivery_id: str) -> Response:
    """With its body and every try."""
    found = await services_of(request).webhooks.delivery(principal_of(request), delivery_id)
    return json_response(delivery_detail(found))


@router.delete(DELIVERY, status_code=204)
async def delete_delivery(request: Request, delivery_id: str) -> Response:
    """Forget one that is not pending."""
    await services_of(request).webhooks.delete_delivery(principal_of(request), delivery_id)
    return Response(status_code=204)


@router.post(REDELIVER, status_code=202)
async def redeliver(request: Request, delivery_id: str) -> Response:
    """Send it once more, under the same id and with the same bytes."""
    found = await services_of(request).webhooks.redeliver(principal_of(request), delivery_id)
    return json_response(delivery_detail(found), 202)


@router.post(REDELIVER_DEAD, status_code=202)
async def redeliver_dead_letters(request: Request) -> Response:
    """All dead letters that the body chooses; without a body all there are."""
    _, body = await read_optional_json(request, _choice, DeadLetterChoice())
    count = await services_of(request).webhooks.redeliver_dead(principal_of(request), _chosen(body))
    return json_response(DeadLetterCount(count=count), 202)


@router.delete(DEAD_LETTERS)
async def delete_dead_letters(
    request: Request,
    webhook_id: Word = None,
    execution_id: Word = None,
    type: Word = None,  # noqa: A002 - the word of the API
    created_from: Time = None,
    created_before: Time = None,
) -> Response:
    """Forget all dead letters that the query chooses; without one all there are."""
    where = _filter(
        DeliveryState.DEAD,
        webhook_id,
        execution_id,
        type,
        instant_in(created_from, "created_from"),
        instant_in(created_before, "created_before"),
    )
    count = await services_of(request).webhooks.delete_dead(principal_of(request), where)
    return json_response(DeadLetterCount(count=count))


async def _page(
    request: Request, where: DeliveryFilter, limit: int, cursor: str | None
) -> Response:
    page = await services_of(request).webhooks.deliveries(
        principal_of(request), where, _read_position(cursor), limit
    )
    return json_response(
        DeliveryList(
            deliveries=[delivery_body(each) for each in page.deliveries],
            next_cursor=_write_position(page.next_cursor),
        )
    )


def _filter(
    state: DeliveryState | None,
    webhook_id: str | None,
    execution_id: str | None,
    event_type: str | None,
    created_from: Instant | None,
    created_before: Instant | None,
) -> DeliveryFilter:
    return DeliveryFilter(
        state,
        webhook_id or None,
        JobId(execution_id) if execution_id else None,
        event_type or None,
        created_from,
        created_before,
    )


def _chosen(body: DeadLetterChoice) -> DeliveryFilter:
    return _filter(
        DeliveryState.DEAD,
        body.webhook_id,
        body.execution_id,
        body.type,
        instant_of(body.created_from, "created_from"),
        instant_of(body.created_before, "created_before"),
    )


def _write_position(sequence: int | None) -> str | None:
    return None if sequence is None else write_cursor(str(uuid.UUID(int=sequence)))


def _read_position(cursor: str | None) -> int | None:
    given = read_cursor(cursor)
    if given is None:
        return None
    sequence = uuid.UUID(given).int
    if sequence > LARGEST_SEQUENCE:
        raise invalid_cursor()
    return sequence
