"""The bodies of the webhooks' API."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from comfyrail.api.contract import moment, time_of
from comfyrail.jobs.webhooks import LONGEST_URL
from comfyrail.network.urls import without_secrets
from comfyrail.notifications.channels import channel_of
from comfyrail.store.notifications import (
    Delivery,
    Endpoint,
    EndpointSettings,
    SigningSecret,
    Try,
)
from comfyrail.usecases.webhooks import SecretShown

WEBHOOKS = "/v1/webhooks"
SIGNING_SECRET = "/v1/webhooks/signing-secret"  # noqa: S105 - a path
ROTATE_SIGNING_SECRET = "/v1/webhooks/signing-secret/rotate"  # noqa: S105 - a path
WEBHOOK = "/v1/webhooks/{webhook_id}"
ROTATE = "/v1/webhooks/{webhook_id}/rotate"
TEST = "/v1/webhooks/{webhook_id}/test"
DELIVERIES = "/v1/deliveries"
DELIVERY = "/v1/deliveries/{delivery_id}"
REDELIVER = "/v1/deliveries/{delivery_id}/redeliver"
DEAD_LETTERS = "/v1/dead-letters"
REDELIVER_DEAD = "/v1/dead-letters/redeliver"

LONGEST_SHOWN = 1 << 16
"""Characters of a message's body that a reply has in it."""

Text = Annotated[str, msgspec.Meta(max_length=200)]
Names = Annotated[list[Text], msgspec.Meta(max_length=50)]
Url = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_URL)]
Template = Annotated[str, msgspec.Meta(max_length=65536)]
Seconds = Annotated[float, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": 300})]
Headers = Annotated[dict[str, str], msgspec.Meta(max_length=20)]
Secret = Annotated[str, msgspec.Meta(min_length=8, max_length=200)]
Overlap = Annotated[float, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": 604800})]


class WebhookRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Whom to tell of what. `url`: https://…, mailto:… or sms:…; without `events` all but progress
    and single nodes; without a `secret` the server makes one.
    """

    url: Url
    events: Names = []
    workflows: Names = []
    surfaces: Names = []
    fields: Names = []
    template: Template | None = None
    html_template: Template | None = None
    subject: Text | None = None
    description: Text = ""
    method: Literal["POST", "PUT", "PATCH"] = "POST"
    headers: Headers = {}
    timeout: Seconds = 30.0
    verify_ssl: bool = True
    secret: Secret | None = None
    enabled: bool = True

    def settings(self) -> EndpointSettings:
        return EndpointSettings(
            events=self.events,
            workflows=self.workflows,
            surfaces=self.surfaces,
            fields=self.fields,
            template=self.template,
            html_template=self.html_template,
            subject=self.subject,
            description=self.description,
            method=self.method,
            headers=self.headers,
            timeout=self.timeout,
            verify_ssl=self.verify_ssl,
        )


class WebhookChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is not given stays as it is."""

    url: Url | msgspec.UnsetType = msgspec.UNSET
    events: Names | msgspec.UnsetType = msgspec.UNSET
    workflows: Names | msgspec.UnsetType = msgspec.UNSET
    surfaces: Names | msgspec.UnsetType = msgspec.UNSET
    fields: Names | msgspec.UnsetType = msgspec.UNSET
    template: Template | msgspec.UnsetType | None = msgspec.UNSET
    html_template: Template | msgspec.UnsetType | None = msgspec.UNSET
    subject: Text | msgspec.UnsetType | None = msgspec.UNSET
    description: Text | msgspec.UnsetType = msgspec.UNSET
    method: Literal["POST", "PUT", "PATCH"] | msgspec.UnsetType = msgspec.UNSET
    headers: Headers | msgspec.UnsetType = msgspec.UNSET
    timeout: Seconds | msgspec.UnsetType = msgspec.UNSET
    verify_ssl: bool | msgspec.UnsetType = msgspec.UNSET
    enabled: bool | msgspec.UnsetType = msgspec.UNSET

    def settings(self) -> dict[str, Any]:
        """The changed fields of its settings."""
        given = msgspec.structs.asdict(self)
        return {
            name: value
            for name, value in given.items()
            if value is not msgspec.UNSET and name not in {"url", "enabled"}
        }


class RotateRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`overlap`: seconds for which the secret before signs too."""

    secret: Secret | None = None
    overlap: Overlap = 86_400.0


class WebhookBody(msgspec.Struct, kw_only=True):
    """`headers` are only named: what they say may be secret."""

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
    html_template: str | None
    subject: str | None
    description: str
    method: str
    headers: list[str]
    timeout: float
    verify_ssl: bool
    created_at: datetime
    changed_at: datetime
    failing_since: datetime | None
    last_success_at: datetime | None
    previous_secret_until: datetime | None
    dropped: int


class WebhookWithSecret(msgspec.Struct, kw_only=True):
    """The secret is shown this once."""

    webhook: WebhookBody
    secret: str


class WebhookList(msgspec.Struct, kw_only=True):
    webhooks: list[WebhookBody]


class SigningSecretBody(msgspec.Struct, kw_only=True):
    secret: str
    previous_secret_until: datetime | None


class TryBody(msgspec.Struct, kw_only=True):
    """One call. `duration` in seconds; `reply` is the beginning of what was answered."""

    attempt: int
    timestamp: datetime
    duration: float
    status: int | None
    error: str | None
    reply: str | None


class DeliveryBody(msgspec.Struct, kw_only=True):
    """Something that was told or is to be. `kind`: event, upload or test."""

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


class DeliveryDetail(msgspec.Struct, kw_only=True):
    """With its body, null before the first try, and every try."""

    delivery: DeliveryBody
    content_type: str | None
    body: str | None
    tries: list[TryBody]


class DeliveryList(msgspec.Struct, kw_only=True):
    deliveries: list[DeliveryBody]
    next_cursor: str | None


class TestBody(msgspec.Struct, kw_only=True):
    """What came of a test."""

    __test__ = False

    delivery_id: str
    delivered: bool
    result: TryBody


class DeadLetterChoice(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters are meant: without any field all."""

    webhook_id: Text | None = None
    execution_id: Text | None = None
    type: Text | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None


class DeadLetterCount(msgspec.Struct, kw_only=True):
    count: int


def webhook_body(endpoint: Endpoint) -> WebhookBody:
    settings = endpoint.settings
    return WebhookBody(
        webhook_id=endpoint.id,
        channel=channel_of(endpoint.url),
        url=endpoint.url,
        enabled=endpoint.is_enabled,
        disabled_reason=endpoint.disabled_reason,
        events=settings.events,
        workflows=settings.workflows,
        surfaces=settings.surfaces,
        fields=settings.fields,
        template=settings.template,
        html_template=settings.html_template,
        subject=settings.subject,
        description=settings.description,
        method=settings.method,
        headers=sorted(settings.headers),
        timeout=settings.timeout,
        verify_ssl=settings.verify_ssl,
        created_at=moment(endpoint.created_at),
        changed_at=moment(endpoint.changed_at),
        failing_since=time_of(endpoint.failing_since),
        last_success_at=time_of(endpoint.last_success_at),
        previous_secret_until=time_of(endpoint.previous_until),
        dropped=endpoint.dropped,
    )


def with_secret(shown: SecretShown) -> WebhookWithSecret:
    return WebhookWithSecret(webhook=webhook_body(shown.endpoint), secret=shown.secret)


def signing_secret_body(secret: SigningSecret) -> SigningSecretBody:
    return SigningSecretBody(
        secret=secret.secret, previous_secret_until=time_of(secret.previous_until)
    )


def delivery_body(delivery: Delivery) -> DeliveryBody:
    return DeliveryBody(
        delivery_id=delivery.id,
        kind=delivery.kind,
        state=delivery.state,
        webhook_id=delivery.endpoint_id,
        url=None if delivery.url is None else without_secrets(delivery.url),
        execution_id=delivery.job_id,
        number=delivery.number,
        type=delivery.type,
        attempts=delivery.attempts,
        next_attempt_at=time_of(delivery.next_at),
        created_at=moment(delivery.created_at),
        settled_at=time_of(delivery.settled_at),
        last_status=delivery.last_status,
        last_error=delivery.last_error,
    )


def delivery_detail(delivery: Delivery) -> DeliveryDetail:
    body = delivery.body
    shown = None if body is None else body.content.decode("utf-8", "replace")[:LONGEST_SHOWN]
    return DeliveryDetail(
        delivery=delivery_body(delivery),
        content_type=None if body is None else body.content_type,
        body=shown,
        tries=[try_body(each) for each in delivery.tries],
    )


def try_body(made: Try) -> TryBody:
    reply = None if made.reply is None else made.reply.decode("utf-8", "replace")
    return TryBody(
        attempt=made.number,
        timestamp=moment(made.at),
        duration=made.seconds,
        status=made.status,
        error=made.error,
        reply=reply,
    )
