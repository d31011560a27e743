"""Calls about webhooks, what was delivered, and what could not be."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from comfyrail.client.calls import Ask, Call
from comfyrail.client.paths import query, quoted


class Webhook(msgspec.Struct, kw_only=True):
    webhook_id: str
    channel: str
    url: str
    enabled: bool
    disabled_reason: str | None
    events: list[str]
    workflows: list[str]
    surfaces: list[str]
    fields: list[str]
    template: str | None
    description: str
    method: str
    headers: list[str]
    timeout: float
    verify_ssl: bool
    created_at: datetime
    failing_since: datetime | None
    last_success_at: datetime | None
    previous_secret_until: datetime | None


class WebhookWithSecret(msgspec.Struct):
    """The secret is shown this once."""

    webhook: Webhook
    secret: str


class Try(msgspec.Struct):
    attempt: int
    timestamp: datetime
    duration: float
    status: int | None
    error: str | None
    reply: str | None


class WebhookTest(msgspec.Struct):
    delivery_id: str
    delivered: bool
    result: Try


class Delivery(msgspec.Struct, kw_only=True):
    delivery_id: str
    kind: str
    state: str
    webhook_id: str | None
    url: str | None
    execution_id: str | None
    number: int | None
    type: str
    attempts: int
    next_attempt_at: datetime | None
    created_at: datetime
    settled_at: datetime | None
    last_status: int | None
    last_error: str | None


class DeliveryDetail(msgspec.Struct):
    delivery: Delivery
    content_type: str | None
    body: str | None
    tries: list[Try]


class SigningSecret(msgspec.Struct):
    secret: str
    previous_secret_until: datetime | None


class _Webhooks(msgspec.Struct):
    webhooks: list[Webhook]


class _Deliveries(msgspec.Struct):
    deliveries: list[Delivery]
    next_cursor: str | None


class _Count(msgspec.Struct):
    count: int


class Webhooks:
    """`ComfyrailClient.webhooks`."""

    def __init__(self, ask: Ask, call: Call) -> None:
        self._ask = ask
        self._call = call

    async def add(self, url: str, **options: Any) -> WebhookWithSecret:
        """Tell an address (https://…, mailto:…, sms:…) of what happens to one's jobs.

        Options: events, workflows, surfaces, fields, template, html_template, subject, description,
        method, headers, timeout, verify_ssl, secret, enabled.
        """
        body = {"url": url, **options}
        return await self._ask("POST", "/v1/webhooks", WebhookWithSecret, body)

    async def all(self) -> list[Webhook]:
        return (await self._ask("GET", "/v1/webhooks", _Webhooks)).webhooks

    async def show(self, webhook_id: str) -> Webhook:
        return await self._ask("GET", _path(webhook_id), Webhook)

    async def change(self, webhook_id: str, changes: Mapping[str, Any]) -> Webhook:
        """What is not given stays as it is."""
        return await self._ask("PATCH", _path(webhook_id), Webhook, changes)

    async def delete(self, webhook_id: str) -> None:
        async with self._call("DELETE", _path(webhook_id)):
            return

    async def rotate(self, webhook_id: str, overlap: float = 86_400.0) -> WebhookWithSecret:
        """Another secret; for so many seconds the one before signs too."""
        path = _path(webhook_id, "/rotate")
        return await self._ask("POST", path, WebhookWithSecret, {"overlap": overlap})

    async def test(self, webhook_id: str) -> WebhookTest:
        """Send a test message now."""
        return await self._ask("POST", _path(webhook_id, "/test"), WebhookTest)

    async def signing_secret(self) -> SigningSecret:
        """What signs the calls of jobs that bring no secret of their own."""
        return await self._ask("GET", "/v1/webhooks/signing-secret", SigningSecret)

    async def rotate_signing_secret(self, overlap: float = 86_400.0) -> SigningSecret:
        path = "/v1/webhooks/signing-secret/rotate"
        return await self._ask("POST", path, SigningSecret, {"overlap": overlap})

    async def deliveries(
        self, page_size: int = 100, **filters: str | Sequence[str] | None
    ) -> AsyncIterator[Delivery]:
        """Newest first. Filters: state (pending, delivered, dead, cancelled), webhook_id,
        execution_id, type, created_from, created_before.
        """
        cursor: str | None = None
        while True:
            words = query(**filters, limit=str(page_size), cursor=cursor)
            page = await self._ask("GET", f"/v1/deliveries{words}", _Deliveries)
            for delivery in page.deliveries:
                yield delivery
            cursor = page.next_cursor
            if cursor is None:
                return

    async def delivery(self, delivery_id: str) -> DeliveryDetail:
        return await self._ask("GET", f"/v1/deliveries/{quoted(delivery_id)}", DeliveryDetail)

    async def redeliver(self, delivery_id: str) -> DeliveryDetail:
        path = f"/v1/deliveries/{quoted(delivery_id)}/redeliver"
        return await self._ask("POST", path, DeliveryDetail)

    async def redeliver_dead(self, **choice: str | None) -> int:
        """All dead letters that are chosen, without a choice all there are; how many."""
        body = {name: value for name, value in choice.items() if value is not None}
        return (await self._ask("POST", "/v1/dead-letters/redeliver", _Count, body)).count

    async def delete_dead(self, **choice: str | None) -> int:
        return (await self._ask("DELETE", f"/v1/dead-letters{query(**choice)}", _Count)).count


def _path(webhook_id: str, below: str = "") -> str:
    return f"/v1/webhooks/{quoted(webhook_id)}{below}"
