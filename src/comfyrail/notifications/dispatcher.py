"""Sends one delivery by the way that its endpoint is reached."""

from collections.abc import Sequence
from dataclasses import dataclass

from comfyrail.clock import Clock, Instant
from comfyrail.ids import JobId
from comfyrail.notifications.allowances import HourlyAllowance
from comfyrail.notifications.channels import Channel, channel_of, recipients_of
from comfyrail.notifications.senders.email import EmailSender
from comfyrail.notifications.senders.sms import SmsSender
from comfyrail.notifications.senders.uploads import UploadSender
from comfyrail.notifications.senders.web import WebhookSender
from comfyrail.notifications.signatures import new_secret
from comfyrail.notifications.verdicts import Answer, Verdict
from comfyrail.store.notifications import (
    DeliveryQueue,
    DueDelivery,
    Endpoint,
    FrozenBody,
    SigningSecret,
)

EMAILS_PER_HOUR = 100
SMS_PER_HOUR = 20


@dataclass(frozen=True, slots=True)
class Senders:
    """None: this server does not send by that way."""

    web: WebhookSender
    uploads: UploadSender
    email: EmailSender | None = None
    sms: SmsSender | None = None

    def close(self) -> None:
        if self.email is not None:
            self.email.close()


class Dispatcher:
    def __init__(
        self,
        store: DeliveryQueue,
        senders: Senders,
        clock: Clock,
        *,
        emails_per_hour: int = EMAILS_PER_HOUR,
        sms_per_hour: int = SMS_PER_HOUR,
    ) -> None:
        self._emails = HourlyAllowance(emails_per_hour, clock)
        self._sms = HourlyAllowance(sms_per_hour, clock)
        self._store = store
        self._senders = senders
        self._clock = clock

    async def send(self, due: DueDelivery, body: FrozenBody | None) -> Answer:
        """`body` is None for uploads only."""
        if due.upload is not None:
            return await self._senders.uploads.send(due.upload)
        if due.endpoint is None or body is None:
            raise AssertionError("what is no upload has an endpoint and a body")
        return await self.send_to(
            due.endpoint, due.id, due.type, due.job_id, body, due.tenant_secret
        )

    async def send_to(
        self,
        endpoint: Endpoint,
        message_id: str,
        event_type: str,
        job_id: JobId | None,
        body: FrozenBody,
        of_tenant: SigningSecret | None = None,
    ) -> Answer:
        match channel_of(endpoint.url):
            case Channel.WEBHOOK:
                keys = await self._keys(endpoint, of_tenant)
                return await self._senders.web.send(
                    endpoint, keys, message_id, event_type, job_id, body
                )
            case Channel.EMAIL if self._senders.email is not None:
                amount = len(recipients_of(endpoint.url))
                wait = self._emails.take(endpoint.tenant, amount)
                if wait:
                    return _postponed("emails", wait)
                return await self._senders.email.send(endpoint, message_id, body)
            case Channel.SMS if self._senders.sms is not None:
                wait = self._sms.take(endpoint.tenant)
                if wait:
                    return _postponed("text messages", wait)
                return await self._senders.sms.send(endpoint, message_id, body)
            case channel:
                return Answer(Verdict.RETRY, error=f"This server sends no {channel} at present.")

    async def _keys(self, endpoint: Endpoint, of_tenant: SigningSecret | None) -> Sequence[str]:
        if endpoint.secret is not None:
            own = SigningSecret(endpoint.secret, endpoint.previous_secret, endpoint.previous_until)
        else:
            own = of_tenant or await self._store.signing_secret(endpoint.tenant, new_secret())
        return keys_at(own, self._clock.now())


def _postponed(what: str, seconds: float) -> Answer:
    said = f"You have sent as many {what} as you may in an hour. It is sent later."
    return Answer(Verdict.POSTPONED, error=said, retry_after=seconds)


def keys_at(secret: SigningSecret, now: Instant) -> Sequence[str]:
    """The secret, and the one before it while that is still good."""
    until = secret.previous_until
    if secret.previous_secret is None or until is None or until <= now:
        return [secret.secret]
    return [secret.secret, secret.previous_secret]
