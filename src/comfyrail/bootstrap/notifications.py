"""Puts together what tells others: the courier and the ways in which it sends."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import ip_network

import aiohttp
import msgspec

from comfyrail.bootstrap.machinery import Loop
from comfyrail.bootstrap.settings import Settings
from comfyrail.clock import Clock, after
from comfyrail.errors import AddressRefused, ConfigurationError, InvalidWebhook
from comfyrail.ids import TenantId
from comfyrail.jobs.job import Output
from comfyrail.network.addresses import Network
from comfyrail.network.outgoing import OutgoingHttp, PatientResolver, check_headers
from comfyrail.network.urls import read_scheme
from comfyrail.notifications.bodies import LinkTo, own_path
from comfyrail.notifications.channels import Channel
from comfyrail.notifications.courier import MOST_AT_ONCE, Courier
from comfyrail.notifications.dispatcher import Dispatcher, Senders
from comfyrail.notifications.endpoints import EndpointRules
from comfyrail.notifications.log_keeper import DeliveryLogKeeper
from comfyrail.notifications.senders.email import EmailSender, read_smtp_url
from comfyrail.notifications.senders.sms import SmsGateway, SmsSender
from comfyrail.notifications.senders.uploads import Files, UploadSender
from comfyrail.notifications.senders.web import WebhookSender
from comfyrail.notifications.templates import check_json_template, check_template, is_json
from comfyrail.results.links import FileLink, LinkSigner, link_path
from comfyrail.store.sqlite.store import SqliteStore
from comfyrail.usecases.webhooks import Webhooks

RESOLVING_AT_ONCE = MOST_AT_ONCE // 2
LINK_SECONDS = 7 * 86_400.0
"""How long links in messages are good."""


@dataclass(frozen=True, slots=True)
class NotificationParts:
    webhooks: Webhooks
    rules: EndpointRules
    courier: Courier
    loops: Mapping[str, Loop]


async def open_notifications(
    settings: Settings,
    stack: AsyncExitStack,
    store: SqliteStore,
    files: Files,
    http: aiohttp.ClientSession,
    clock: Clock,
    link_to: LinkTo = own_path,
) -> NotificationParts:
    """Raises ConfigurationError. `http` is for the gateway of text messages."""
    networks = webhook_networks(settings)
    outgoing = await stack.enter_async_context(
        OutgoingHttp(
            exceptions=networks,
            resolver=PatientResolver(RESOLVING_AT_ONCE),
            most_connections=0,
        )
    )
    email = _email_sender(settings)
    gateway = sms_gateway(settings)
    senders = Senders(
        WebhookSender(outgoing, clock),
        UploadSender(outgoing, files, clock),
        email,
        None if gateway is None else SmsSender(gateway, http, clock),
    )
    stack.callback(senders.close)
    rules = EndpointRules(networks, _channels(senders))
    dispatcher = Dispatcher(
        store,
        senders,
        clock,
        emails_per_hour=settings.email_per_hour,
        sms_per_hour=settings.sms_per_hour,
    )
    courier = Courier(store, dispatcher, clock, link_to=link_to)
    keeper = DeliveryLogKeeper(store, clock, settings.webhook_log_days)
    return NotificationParts(
        Webhooks(store, rules, dispatcher, courier, clock),
        rules,
        courier,
        {"courier": courier, "delivery-log": keeper},
    )


def link_to_outputs(signer: LinkSigner, base: str | None) -> LinkTo:
    """Signed links that open without a key where it is known how the server is reached from
    outside; else its own paths. The same output has the same link every time.
    """
    if base is None:
        return own_path

    def link_to(tenant: TenantId, output: Output) -> str:
        expires_at = after(output.created_at, LINK_SECONDS)
        token = signer.sign(FileLink(tenant, output.job_id, output.file.id, expires_at))
        return base.rstrip("/") + link_path(token, output.file.filename)

    return link_to


def webhook_networks(settings: Settings) -> tuple[Network, ...]:
    return tuple(ip_network(name) for name in settings.webhook_networks)


def sms_gateway(settings: Settings) -> SmsGateway | None:
    """As the settings describe it. Raises ConfigurationError."""
    if settings.sms_url is None:
        return None
    url = settings.sms_url.get_secret_value()
    if read_scheme(url) not in {"http", "https"}:
        raise ConfigurationError("sms_url (COMFYRAIL_SMS_URL) begins with http:// or https://.")
    gateway = SmsGateway(url, settings.sms_method, _sms_headers(settings), settings.sms_body)
    try:
        (check_json_template if is_json(gateway.body) else check_template)(gateway.body)
    except InvalidWebhook as error:
        raise ConfigurationError(f"sms_body (COMFYRAIL_SMS_BODY): {error.message}") from error
    rendered = gateway.render("0123456789", "abcdefgh")
    if b"0123456789" not in rendered or b"abcdefgh" not in rendered:
        raise ConfigurationError("sms_body (COMFYRAIL_SMS_BODY) has {{ to }} and {{ text }} in it.")
    return gateway


def _sms_headers(settings: Settings) -> dict[str, str]:
    if settings.sms_headers is None:
        return {}
    try:
        headers = msgspec.json.decode(settings.sms_headers.get_secret_value(), type=dict[str, str])
        check_headers(headers)
    except (msgspec.DecodeError, AddressRefused) as error:
        raise ConfigurationError(
            "sms_headers (COMFYRAIL_SMS_HEADERS) is a JSON object of headers, such as "
            '{"Authorization": "Bearer …"}.'
        ) from error
    return headers


def _email_sender(settings: Settings) -> EmailSender | None:
    if settings.smtp_url is None:
        return None
    return EmailSender(read_smtp_url(settings.smtp_url.get_secret_value(), settings.smtp_from))


def _channels(senders: Senders) -> frozenset[Channel]:
    found = {Channel.WEBHOOK}
    if senders.email is not None:
        found.add(Channel.EMAIL)
    if senders.sms is not None:
        found.add(Channel.SMS)
    return frozenset(found)
