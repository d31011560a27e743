"""Whom an account tells of its jobs, what was told, and what could not be [9.3, 9.4]."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

from comfyrail.access.permissions import Permission
from comfyrail.access.principal import Principal
from comfyrail.clock import Clock, after
from comfyrail.errors import InvalidWebhook, TooManyRequests
from comfyrail.ids import TenantId, new_uuid
from comfyrail.notifications.bodies import freeze, test_message
from comfyrail.notifications.channels import channel_of
from comfyrail.notifications.courier import Courier
from comfyrail.notifications.dispatcher import Dispatcher
from comfyrail.notifications.endpoints import EndpointRules, names_operator_events
from comfyrail.notifications.signatures import ROTATION_SECONDS, check_secret, new_secret
from comfyrail.notifications.verdicts import Verdict
from comfyrail.store.notifications import (
    TEST_EVENT,
    Delivery,
    DeliveryDesk,
    DeliveryFilter,
    DeliveryPage,
    Endpoint,
    EndpointSettings,
    EndpointStore,
    SigningSecret,
    TestDelivery,
    Try,
)

MOST_ENDPOINTS = 50
TESTS_AT_ONCE = 4
"""Of one tenant."""
MOST_TESTS_AT_ONCE = 64
LONGEST_TEST_SECONDS = 15.0
TEST_RETRY_SECONDS = 5.0
LONGEST_ROTATION_SECONDS = 7 * 86_400.0
BY_HAND = "It was disabled by hand."

_OF_A_JOB = frozenset({"max_retries", "retry_delay"})


class WebhookStore(EndpointStore, DeliveryDesk, Protocol):
    """The side of the store that is needed here."""


@dataclass(frozen=True, slots=True)
class NewWebhook:
    """`secret`: None has the server make one. Fields of `settings` are checked when it is made."""

    url: str
    settings: EndpointSettings = field(default_factory=EndpointSettings)
    secret: str | None = field(default=None, repr=False)
    is_enabled: bool = True


@dataclass(frozen=True, slots=True)
class WebhookChanges:
    """What is to be other than it was. `settings`: only the fields that are given are changed."""

    url: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_enabled: bool | None = None


@dataclass(frozen=True, slots=True)
class SecretShown:
    """A webhook with its secret, which is shown this once."""

    endpoint: Endpoint
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TestResult:
    """What came of a test: `delivery_id` is where it is in the log."""

    __test__ = False

    delivery_id: str
    made: Try


class Webhooks:
    """Every method sees the principal's own webhooks and deliveries only; others do not exist for
    it. Those of single jobs are no webhooks of the account; their deliveries are in the log.
    """

    def __init__(
        self,
        store: WebhookStore,
        rules: EndpointRules,
        dispatcher: Dispatcher,
        courier: Courier,
        clock: Clock,
    ) -> None:
        self._store = store
        self._rules = rules
        self._dispatcher = dispatcher
        self._courier = courier
        self._clock = clock
        self._testing: Counter[TenantId] = Counter()

    # Webhooks

    async def create(self, principal: Principal, wanted: NewWebhook) -> SecretShown:
        """Raises InvalidWebhook for what could never be delivered, Conflict (TOO_MANY_WEBHOOKS)
        where there are enough, Forbidden where it names events of workers or of the server and the
        caller may not look at those.
        """
        self._check(principal, wanted.url, wanted.settings)
        if wanted.secret is not None:
            check_secret(wanted.secret)
        secret = wanted.secret or new_secret()
        now = self._clock.now()
        endpoint = Endpoint(
            id=f"wh_{new_uuid()}",
            tenant=principal.tenant,
            url=wanted.url,
            settings=wanted.settings,
            created_at=now,
            changed_at=now,
            secret=secret,
            is_enabled=wanted.is_enabled,
            disabled_reason=None if wanted.is_enabled else BY_HAND,
            made_by=principal.user_id,
        )
        await self._store.add_endpoint(endpoint, MOST_ENDPOINTS)
        return SecretShown(endpoint, secret)

    async def list(self, principal: Principal) -> Sequence[Endpoint]:
        """All of them, oldest first: there are MOST_ENDPOINTS at most."""
        return await self._store.list_endpoints(principal.tenant)

    async def get(self, principal: Principal, webhook_id: str) -> Endpoint:
        """Raises EndpointNotFound."""
        return await self._store.get_endpoint(principal.tenant, webhook_id)

    async def update(
        self, principal: Principal, webhook_id: str, changes: WebhookChanges
    ) -> Endpoint:
        """What waits is sent as the webhook is then; what was tried before keeps its bytes. One
        that is disabled is told nothing; what waited for it is in the dead letters. Raises as
        `create`; what is an address of email stays one, and so on.
        """

        def change(before: Endpoint) -> Endpoint:
            return self._changed(principal, before, changes)

        endpoint = await self._store.change_endpoint(principal.tenant, webhook_id, change)
        self._courier.forget(endpoint.address)
        return endpoint

    async def delete(self, principal: Principal, webhook_id: str) -> None:
        """With its deliveries and dead letters. Raises EndpointNotFound."""
        await self._store.delete_endpoint(principal.tenant, webhook_id)
        self._courier.forget(webhook_id)

    async def rotate(
        self,
        principal: Principal,
        webhook_id: str,
        secret: str | None = None,
        overlap_seconds: float = ROTATION_SECONDS,
    ) -> SecretShown:
        """Sign with another secret, and for so long with the one before too. Raises as `create`,
        and Conflict (SECRET_IN_ROTATION) while the one before that one signs, unless
        `overlap_seconds` is 0.
        """
        made = _rotated(secret, overlap_seconds)
        until = after(self._clock.now(), overlap_seconds)
        endpoint = await self._store.rotate_secret(principal.tenant, webhook_id, made, until)
        self._courier.forget(endpoint.address)
        return SecretShown(endpoint, made)

    async def test(self, principal: Principal, webhook_id: str) -> TestResult:
        """Send a message of the type `webhook.test` now, once, also to one that is disabled; what
        came of it is in the log too. Nobody waits longer than LONGEST_TEST_SECONDS. Raises
        EndpointNotFound, and TooManyRequests where enough of the tenant's are under way, or where
        she has sent as many emails or text messages as she may.
        """
        endpoint = _hurried(await self.get(principal, webhook_id))
        message_id = f"msg_{new_uuid()}"
        at, began = self._clock.now(), self._clock.monotonic()
        body = freeze(test_message(message_id, endpoint, at), endpoint.url, endpoint.settings)
        with self._place_for_test(principal.tenant):
            answer = await self._dispatcher.send_to(endpoint, message_id, TEST_EVENT, None, body)
        if answer.verdict is Verdict.POSTPONED:
            raise TooManyRequests(answer.error or "", retry_after=answer.retry_after)
        seconds = round(self._clock.monotonic() - began, 3)
        made = Try(at, seconds, answer.status, answer.error, answer.reply, 1)
        await self._store.add_test(endpoint, TestDelivery(message_id, body, made))
        return TestResult(message_id, made)

    # The secret of jobs that bring none

    async def signing_secret(self, principal: Principal) -> SigningSecret:
        """What signs the calls of jobs that brought no secret. It is made when first asked for."""
        return await self._store.signing_secret(principal.tenant, new_secret())

    async def rotate_signing_secret(
        self,
        principal: Principal,
        secret: str | None = None,
        overlap_seconds: float = ROTATION_SECONDS,
    ) -> SigningSecret:
        made = _rotated(secret, overlap_seconds)
        until = after(self._clock.now(), overlap_seconds)
        return await self._store.rotate_signing_secret(principal.tenant, made, until)

    # Deliveries

    async def deliveries(
        self, principal: Principal, where: DeliveryFilter, after: int | None, limit: int
    ) -> DeliveryPage:
        """The log, newest first; with the state `dead` the dead letters."""
        return await self._store.list_deliveries(principal.tenant, where, after, limit)

    async def delivery(self, principal: Principal, delivery_id: str) -> Delivery:
        """One with its body and every try. Raises DeliveryNotFound."""
        return await self._store.get_delivery(principal.tenant, delivery_id)

    async def redeliver(self, principal: Principal, delivery_id: str) -> Delivery:
        """Send one again that was delivered, is dead or was cancelled: the same id and bytes, fresh
        tries. Raises DeliveryNotFound, and Conflict (DELIVERY_PENDING, WEBHOOK_DISABLED,
        DELIVERY_IS_A_TEST).
        """
        await self._store.redeliver(principal.tenant, delivery_id)
        return await self._store.get_delivery(principal.tenant, delivery_id)

    async def redeliver_dead(self, principal: Principal, where: DeliveryFilter) -> int:
        """All dead letters that are meant, in their order; how many. Those of webhooks that are
        disabled stay where they are.
        """
        return await self._store.redeliver_dead(principal.tenant, where)

    async def delete_delivery(self, principal: Principal, delivery_id: str) -> None:
        """Raises DeliveryNotFound, and Conflict (DELIVERY_PENDING)."""
        await self._store.delete_delivery(principal.tenant, delivery_id)

    async def delete_dead(self, principal: Principal, where: DeliveryFilter) -> int:
        """Forget all dead letters that are meant; how many."""
        return await self._store.delete_dead(principal.tenant, where)

    def _changed(self, principal: Principal, before: Endpoint, changes: WebhookChanges) -> Endpoint:
        settings = change_settings(before.settings, changes.settings)
        url = before.url if changes.url is None else changes.url
        is_enabled = before.is_enabled if changes.is_enabled is None else changes.is_enabled
        self._check(principal, url, settings)
        if channel_of(url) is not channel_of(before.url):
            raise InvalidWebhook(
                f"This one is reached by {channel_of(before.url)}, and what waits for it was made "
                "for that. Add another webhook for the new address."
            )
        return replace(
            before,
            url=url,
            settings=settings,
            is_enabled=is_enabled,
            disabled_reason=None if is_enabled else before.disabled_reason or BY_HAND,
            changed_at=self._clock.now(),
            made_by=principal.user_id,
        )

    @contextmanager
    def _place_for_test(self, tenant: TenantId) -> Iterator[None]:
        """Raise TooManyRequests where enough are under way."""
        total = self._testing.total()
        if self._testing[tenant] >= TESTS_AT_ONCE or total >= MOST_TESTS_AT_ONCE:
            raise TooManyRequests(
                f"{TESTS_AT_ONCE} tests are under way. Wait for one to end.",
                retry_after=TEST_RETRY_SECONDS,
            )
        self._testing[tenant] += 1
        try:
            yield
        finally:
            self._testing[tenant] -= 1
            if not self._testing[tenant]:
                del self._testing[tenant]

    def _check(self, principal: Principal, url: str, settings: EndpointSettings) -> None:
        self._rules.check(url, settings)
        if settings.max_retries is not None or settings.retry_delay is not None:
            raise InvalidWebhook(
                "max_retries and retry_delay are for webhooks of single jobs: those of an account "
                "are tried for more than a day."
            )
        if names_operator_events(settings.events):
            principal.check_may(Permission.FLEET_READ)


def change_settings(before: EndpointSettings, changes: Mapping[str, Any]) -> EndpointSettings:
    """Raises InvalidWebhook for a field that there is not, or a value that does not fit."""
    unknown = sorted(set(changes) - (set(EndpointSettings.__struct_fields__) - _OF_A_JOB))
    if unknown:
        raise InvalidWebhook(f"A webhook has no field {unknown[0][:80]!r}.")
    values = {**msgspec.structs.asdict(before), **changes}
    try:
        return msgspec.convert(values, EndpointSettings)
    except msgspec.ValidationError as error:
        raise InvalidWebhook(f"The webhook cannot be like this: {error}.") from error


def _hurried(endpoint: Endpoint) -> Endpoint:
    """One who tests waits for the answer."""
    timeout = min(endpoint.settings.timeout, LONGEST_TEST_SECONDS)
    return replace(endpoint, settings=msgspec.structs.replace(endpoint.settings, timeout=timeout))


def _rotated(secret: str | None, overlap_seconds: float) -> str:
    if not 0 <= overlap_seconds <= LONGEST_ROTATION_SECONDS:
        raise InvalidWebhook(
            f"The secret before is good for {LONGEST_ROTATION_SECONDS:g} seconds more at most."
        )
    if secret is None:
        return new_secret()
    check_secret(secret)
    return secret
