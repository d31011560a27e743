"""Rows of endpoints and deliveries as the values that the rooms use, and back."""

import sqlite3
from typing import Any

import msgspec

from comfyrail.clock import Instant
from comfyrail.ids import JobId, TenantId
from comfyrail.jobs.events import EventType, FeedEntry
from comfyrail.store.notifications import (
    Delivery,
    DeliveryState,
    Endpoint,
    EndpointSettings,
    FrozenBody,
    SigningSecret,
    Try,
    UploadOrder,
)
from comfyrail.store.sqlite.rows import decode_object, encode

_read_settings = msgspec.json.Decoder(EndpointSettings).decode
read_upload = msgspec.json.Decoder(UploadOrder).decode


def endpoint_values(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "id": endpoint.id,
        "tenant": endpoint.tenant,
        "job_id": endpoint.job_id,
        "url": endpoint.url,
        "address": endpoint.address,
        "settings": encode(endpoint.settings),
        "patience": round(endpoint.settings.patience * 1000),
        "secret": endpoint.secret,
        "is_enabled": endpoint.is_enabled,
        "disabled_reason": endpoint.disabled_reason,
        "created_at": endpoint.created_at,
        "changed_at": endpoint.changed_at,
        "made_by": endpoint.made_by,
    }


def read_endpoint(row: sqlite3.Row) -> Endpoint:
    return Endpoint(
        id=row["id"],
        tenant=TenantId(row["tenant"]),
        url=row["url"],
        settings=_read_settings(row["settings"]),
        created_at=Instant(row["created_at"]),
        changed_at=Instant(row["changed_at"]),
        job_id=row["job_id"],
        secret=row["secret"],
        previous_secret=row["previous_secret"],
        previous_until=row["previous_until"],
        is_enabled=bool(row["is_enabled"]),
        disabled_reason=row["disabled_reason"],
        failing_since=row["failing_since"],
        last_success_at=row["last_success_at"],
        made_by=row["made_by"],
        dropped=row["dropped"],
    )


def read_signing_secret(row: sqlite3.Row) -> SigningSecret:
    return SigningSecret(row["secret"], row["previous_secret"], row["previous_until"])


def read_subject_event(row: sqlite3.Row) -> FeedEntry:
    return FeedEntry(
        sequence=row["sequence"],
        job_id=row["job_id"],
        number=row["number"],
        type=EventType(row["type"]),
        at=Instant(row["at"]),
        data=decode_object(row["data"]),
    )


def read_body(row: sqlite3.Row | None) -> FrozenBody | None:
    if row is None:
        return None
    return FrozenBody(row["content_type"], row["body"])


def read_delivery(row: sqlite3.Row) -> Delivery:
    url = row["url"]
    if url is None and row["target"] is not None:
        url = read_upload(row["target"]).url
    return Delivery(
        id=row["id"],
        kind=row["kind"],
        state=DeliveryState(row["state"]),
        endpoint_id=row["endpoint_id"],
        url=url,
        job_id=None if row["job_id"] is None else JobId(row["job_id"]),
        number=row["number"],
        type=row["type"],
        attempts=row["attempts"],
        next_at=row["next_at"],
        created_at=Instant(row["created_at"]),
        settled_at=row["settled_at"],
        last_status=row["last_status"],
        last_error=row["last_error"],
        sequence=row["sequence"],
    )


def read_try(row: sqlite3.Row) -> Try:
    return Try(
        at=Instant(row["at"]),
        seconds=row["seconds"],
        status=row["status"],
        error=row["error"],
        reply=row["reply"],
        number=row["number"],
    )
