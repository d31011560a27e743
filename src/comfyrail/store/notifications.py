"""The store's side of telling others: endpoints, what is to be delivered, what became of it."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

import msgspec
from yarl import URL

from comfyrail.clock import Instant
from comfyrail.ids import JobId, OutputId, TenantId
from comfyrail.jobs.delivery_schedule import ACCOUNT_DELAYS, delays_of_job, patience
from comfyrail.jobs.events import EventType, FeedEntry
from comfyrail.jobs.job import Job, Output
from comfyrail.jobs.webhooks import DEFAULT_TIMEOUT_SECONDS, JobWebhook
from comfyrail.store.signals import Signals

ALL_EVENTS = "*"
LOUD_EVENTS = frozenset(
    {
        EventType.PROGRESS,
        EventType.NODE_STARTED,
        EventType.NODE_COMPLETED,
        EventType.MODEL_LOADING,
    }
)
"""They come many a second: only who names them, or asks for all, gets them."""
TEST_EVENT = "webhook.test"
UPLOAD = "output.upload"
"""What stands for the type of an event where an output is sent."""

DeliveryKind = Literal["event", "upload", "test"]
WebhookMethod = Literal["POST", "PUT", "PATCH"]


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"
    """No try is left: it waits for somebody to look, in the dead letters."""
    CANCELLED = "cancelled"
    """What it was about is gone."""


class EndpointSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is told, and how. `events`: types; empty: all but the loud ones, `*`: every one.
    `workflows`: only jobs of these, `name` or `name@version`; `surfaces`: only jobs that came
    through these doors. `fields`: dotted paths of the body that are sent; `template`: a text with
    `{{ dotted.path }}` in the body's place. `subject` and `html_template` are for emails.
    `max_retries` and `retry_delay` are None for endpoints of an account, which are tried for days.
    """

    events: list[str] = []
    workflows: list[str] = []
    surfaces: list[str] = []
    fields: list[str] = []
    template: str | None = None
    html_template: str | None = None
    subject: str | None = None
    description: str = ""
    method: WebhookMethod = "POST"
    headers: dict[str, str] = {}
    timeout: float = DEFAULT_TIMEOUT_SECONDS
    verify_ssl: bool = True
    max_retries: int | None = None
    retry_delay: float | None = None

    @property
    def delays(self) -> Sequence[float]:
        """Seconds before each further try."""
        if self.max_retries is None:
            return ACCOUNT_DELAYS
        return delays_of_job(self.max_retries, self.retry_delay or 0.0)

    @property
    def patience(self) -> float:
        return patience(self.delays, self.timeout)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Somebody to be told. `job_id`: it is that job's own."""

    id: str
    tenant: TenantId
    url: str
    settings: EndpointSettings
    created_at: Instant
    changed_at: Instant
    job_id: JobId | None = None
    secret: str | None = field(default=None, repr=False)
    """None: calls are signed with that of the tenant."""
    previous_secret: str | None = field(default=None, repr=False)
    """The one before, which signs too until `previous_until`."""
    previous_until: Instant | None = None
    is_enabled: bool = True
    disabled_reason: str | None = None
    failing_since: Instant | None = None
    """Of the first failure since the last success."""
    last_success_at: Instant | None = None
    made_by: str | None = None
    """The user who has made or last changed it; None where the table of users has her not."""
    dropped: int = 0
    """Events that it was not told because too much waited."""

    @property
    def address(self) -> str:
        """Whose tries are counted together: the endpoint's, or those of all jobs of a tenant at
        the same origin.
        """
        return self.id if self.job_id is None else origin_address(self.tenant, self.url)


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """What signs the calls of jobs that brought no secret."""

    secret: str = field(repr=False)
    previous_secret: str | None = field(default=None, repr=False)
    previous_until: Instant | None = None


class UploadOrder(msgspec.Struct, frozen=True, kw_only=True):
    """An output that is to be sent to a URL of the caller's own storage."""

    url: str
    method: str
    headers: dict[str, str]
    output_id: OutputId
    filename: str
    content_type: str
    size: int
    blob_key: str


@dataclass(frozen=True, slots=True)
class FrozenBody:
    content_type: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a message is about. `outputs` only where the job has ended; no `job` for events of
    workers and of the server.
    """

    event: FeedEntry
    job: Job | None = None
    outputs: Sequence[Output] = ()


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """Something to be sent now. It has a `body`, or a `subject` to make one of, or an `upload`;
    none of them where what it was about is gone.
    """

    sequence: int
    id: str
    kind: DeliveryKind
    tenant: TenantId
    address: str
    type: str
    job_id: JobId | None
    failures: int
    expires_at: Instant
    endpoint: Endpoint | None
    tenant_secret: SigningSecret | None = None
    body: FrozenBody | None = None
    subject: Subject | None = None
    upload: UploadOrder | None = None

    @property
    def line(self) -> tuple[str, str | None]:
        """Those of one line go one after the other."""
        return (self.endpoint.id, self.job_id) if self.endpoint else (self.id, None)


@dataclass(frozen=True, slots=True)
class DueNow:
    """Addresses with something due, and when there is more: None where nothing waits."""

    addresses: Sequence[str]
    next_at: Instant | None


@dataclass(frozen=True, slots=True)
class Try:
    """One call, and what came of it. `reply` is the beginning of what was answered."""

    at: Instant
    seconds: float
    status: int | None = None
    error: str | None = None
    reply: bytes | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class TryResult:
    """What becomes of a delivery after a try: delivered without an `error` in the try, tried again
    at `next_at`, or dead. `disables`: why its endpoint is to be told nothing more. `is_used_up`: it
    is dead because no try was left. `body`: what is sent from now on, where a part has arrived.
    """

    made: Try
    next_at: Instant | None = None
    disables: str | None = None
    is_used_up: bool = False
    body: FrozenBody | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """As its owner sees it."""

    id: str
    kind: DeliveryKind
    state: DeliveryState
    endpoint_id: str | None
    url: str | None
    """Where it goes; None where its endpoint is gone."""
    job_id: JobId | None
    number: int | None
    type: str
    attempts: int
    next_at: Instant | None
    created_at: Instant
    settled_at: Instant | None
    last_status: int | None
    last_error: str | None
    sequence: int
    body: FrozenBody | None = None
    """Only where one is shown; None before the first try."""
    tries: Sequence[Try] = ()


@dataclass(frozen=True, slots=True)
class DeliveryFilter:
    """Which deliveries are meant; None: whatever it is."""

    state: DeliveryState | None = None
    endpoint_id: str | None = None
    job_id: JobId | None = None
    type: str | None = None
    created_from: Instant | None = None
    created_before: Instant | None = None


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    """Newest first. `next_cursor`: the sequence to go on behind."""

    deliveries: Sequence[Delivery]
    next_cursor: int | None


class EndpointStore(Protocol):
    async def add_endpoint(self, endpoint: Endpoint, most: int) -> None:
        """Raise Conflict where the tenant has `most` of them already."""
        ...

    async def get_endpoint(self, tenant: TenantId, endpoint_id: str) -> Endpoint:
        """One of the account's. Raises EndpointNotFound for unknown ones, those of other tenants
        and those of jobs alike.
        """
        ...

    async def list_endpoints(self, tenant: TenantId) -> Sequence[Endpoint]:
        """Those of the account, oldest first."""
        ...

    async def change_endpoint(
        self, tenant: TenantId, endpoint_id: str, change: Callable[[Endpoint], Endpoint]
    ) -> Endpoint:
        """Keep the url, settings, maker, and whether and why it is enabled, of what `change` makes
        of it; nobody else changes it meanwhile. What waits for one that is no longer enabled
        becomes dead letters. Raises EndpointNotFound, and what `change` raises.
        """
        ...

    async def delete_endpoint(self, tenant: TenantId, endpoint_id: str) -> None:
        """With all its deliveries. Raises EndpointNotFound."""
        ...

    async def rotate_secret(
        self, tenant: TenantId, endpoint_id: str, secret: str, previous_until: Instant
    ) -> Endpoint:
        """Sign with another secret, and until then with the one before too. Raises Conflict where
        the one before still signs and `previous_until` is yet to come.
        """
        ...

    async def signing_secret(self, tenant: TenantId, proposal: str) -> SigningSecret:
        """That of the tenant; it is `proposal` from now on where there was none."""
        ...

    async def rotate_signing_secret(
        self, tenant: TenantId, secret: str, previous_until: Instant
    ) -> SigningSecret:
        """Raises Conflict as `rotate_secret`."""
        ...


class DeliveryQueue(Protocol):
    """The side that the courier needs. The topic DELIVERIES says that there is something new."""

    signals: Signals

    async def due_addresses(self, after: str, limit: int) -> Sequence[tuple[str, Instant]]:
        """Addresses behind `after` with something pending, and when the first of it is due."""
        ...

    async def due_now(self, limit: int) -> DueNow | None:
        """What is due; None where more deliveries are than `limit`."""
        ...

    async def due_deliveries(
        self, address: str, limit: int, most_bytes: int, besides: AbstractSet[int] = frozenset()
    ) -> Sequence[DueDelivery]:
        """What may be sent to an address now besides some sequences, the longest due first: of each
        line the first. It ends where the bodies have so many bytes; there is one at least.
        """
        ...

    async def freeze_bodies(self, bodies: Mapping[int, FrozenBody]) -> None:
        """Keep what is about to be sent, by sequence. One that is kept already stays."""
        ...

    async def note_try(self, due: DueDelivery, result: TryResult) -> bool:
        """Write down what came of it, and let the next one of its line go. Whether this has
        disabled the endpoint: as `disables` says, or because it has failed for too long.
        """
        ...

    async def cancel_delivery(self, due: DueDelivery, reason: str) -> None:
        """What it was about is gone."""
        ...

    async def postpone_delivery(self, due: DueDelivery, next_at: Instant, reason: str) -> None:
        """It is looked at again then; that was no try."""
        ...

    async def expire_deliveries(self, address: str) -> int:
        """Make dead letters of what has waited so long for an address that all tries would have
        been over; how many that were.
        """
        ...

    async def signing_secret(self, tenant: TenantId, proposal: str) -> SigningSecret: ...

    async def settle_clock(self) -> int: ...

    async def prune_deliveries(self, before: Instant, limit: int) -> int:
        """Forget what was settled before; how many. Bodies of what was delivered more than
        a day ago are forgotten too, in the background.
        """
        ...

    async def count_deliveries(self) -> Mapping[DeliveryState, int]:
        """Pending ones and dead letters of all tenants."""
        ...


class DeliveryDesk(Protocol):
    """The side that owners look at."""

    async def list_deliveries(
        self, tenant: TenantId, where: DeliveryFilter, after: int | None, limit: int
    ) -> DeliveryPage: ...

    async def get_delivery(self, tenant: TenantId, delivery_id: str) -> Delivery:
        """With its body and tries. Raises DeliveryNotFound."""
        ...

    async def redeliver(self, tenant: TenantId, delivery_id: str) -> None:
        """Send it again under the same id with the same bytes, with fresh tries. Raises
        DeliveryNotFound, and Conflict where it is pending or its endpoint is disabled.
        """
        ...

    async def redeliver_dead(self, tenant: TenantId, where: DeliveryFilter) -> int:
        """The same for all dead letters that are meant, in their order; how many. Those of disabled
        endpoints stay.
        """
        ...

    async def delete_delivery(self, tenant: TenantId, delivery_id: str) -> None:
        """Raises DeliveryNotFound, and Conflict where it is pending."""
        ...

    async def delete_dead(self, tenant: TenantId, where: DeliveryFilter) -> int:
        """Forget all dead letters that are meant; how many."""
        ...

    async def add_test(self, endpoint: Endpoint, test: "TestDelivery") -> str:
        """Keep what came of a test; its id is that of the test."""
        ...


@dataclass(frozen=True, slots=True)
class TestDelivery:
    """A call that was made to see whether an endpoint works."""

    __test__ = False

    id: str
    body: FrozenBody
    made: Try


class NotificationStore(EndpointStore, DeliveryQueue, DeliveryDesk, Protocol):
    pass


def origin_address(tenant: TenantId, url: str) -> str:
    """Of calls of a tenant's jobs: all that go to one origin."""
    try:
        origin = str(URL(url).origin())
    except ValueError:
        origin = url.partition("?")[0][:200]
    return f"{tenant}|{origin}"


def upload_address(tenant: TenantId, url: str) -> str:
    """Of uploads of a tenant's jobs: they hold up no calls."""
    return f"upload|{origin_address(tenant, url)}"


def settings_of_job(webhook: JobWebhook) -> EndpointSettings:
    return EndpointSettings(
        events=[str(event) for event in webhook.events],
        method=webhook.method,
        headers=webhook.headers,
        timeout=webhook.timeout,
        verify_ssl=webhook.verify_ssl,
        max_retries=webhook.max_retries,
        retry_delay=webhook.retry_delay,
    )


def webhook_of(endpoint: Endpoint) -> JobWebhook:
    """What a job was submitted with."""
    settings = endpoint.settings
    return JobWebhook(
        url=endpoint.url,
        method=settings.method,
        headers=settings.headers,
        timeout=settings.timeout,
        max_retries=settings.max_retries or 0,
        retry_delay=settings.retry_delay or 0.0,
        verify_ssl=settings.verify_ssl,
        secret=endpoint.secret,
        events=[EventType(event) for event in settings.events],
    )
