"""Whether somebody can be told like this: checked before an endpoint or a job is kept [9.3]."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from comfyrail.errors import AddressRefused, InvalidWebhook
from comfyrail.jobs.events import EventType
from comfyrail.jobs.job import SURFACES
from comfyrail.jobs.output_config import OutputConfig, UploadTarget
from comfyrail.jobs.webhooks import LONGEST_URL, JobWebhook
from comfyrail.network.addresses import Network, is_public_name
from comfyrail.network.outgoing import check_headers
from comfyrail.network.urls import read_web_url, without_secrets
from comfyrail.notifications.channels import Channel, channel_of, number_of, recipients_of
from comfyrail.notifications.signatures import OWN_HEADERS, check_secret
from comfyrail.notifications.templates import (
    check_json_template,
    check_path,
    check_template,
    is_json,
)
from comfyrail.store.notifications import ALL_EVENTS, LOUD_EVENTS, EndpointSettings

LONGEST_NAME = 200
LONGEST_HEADER = 4096
MOST_NAMES = 50
MOST_HEADERS = 20
SHORTEST_TIMEOUT_SECONDS = 1.0
LONGEST_TIMEOUT_SECONDS = 300.0
NETWORKS_SETTING = "COMFYRAIL_WEBHOOK_NETWORKS"

_OF_THE_CONNECTION = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "accept-encoding",
        "proxy-authorization",
        "proxy-connection",
    }
)
FORBIDDEN_HEADERS = OWN_HEADERS | _OF_THE_CONNECTION


@dataclass(frozen=True, slots=True)
class EndpointRules:
    """What this server can do. `networks` count as public."""

    networks: Sequence[Network] = ()
    channels: frozenset[Channel] = frozenset({Channel.WEBHOOK})

    def check(self, url: str, settings: EndpointSettings) -> None:
        """Raise InvalidWebhook for an endpoint of an account to which nothing could be sent."""
        channel = self._check_address(url)
        check_events(settings.events)
        if channel is not Channel.WEBHOOK:
            _refuse_loud_events(settings.events, channel)
        _check_names(settings.workflows, "workflows")
        _check_surfaces(settings.surfaces)
        _check_texts(settings, channel)
        _check_headers(settings.headers)
        if not SHORTEST_TIMEOUT_SECONDS <= settings.timeout <= LONGEST_TIMEOUT_SECONDS:
            raise InvalidWebhook(
                f"timeout is in seconds, from {SHORTEST_TIMEOUT_SECONDS:g} to "
                f"{LONGEST_TIMEOUT_SECONDS:g}."
            )
        if len(settings.description) > LONGEST_NAME or not settings.description.isprintable():
            raise InvalidWebhook(f"description has {LONGEST_NAME} printable characters at most.")

    def check_submission(self, webhook: JobWebhook | None, output_config: OutputConfig) -> None:
        """Whom a job is to tell, and where its outputs are to go. Raises InvalidWebhook."""
        if webhook is not None:
            self.check_job(webhook)
        for target in output_config.uploads:
            self.check_upload(target)

    def check_job(self, webhook: JobWebhook) -> None:
        """The same for a job's own, which is called over HTTP."""
        self.check_web_url(webhook.url, "The URL of the webhook")
        _check_headers(webhook.headers)
        if webhook.secret is not None:
            check_secret(webhook.secret)

    def check_upload(self, target: UploadTarget) -> None:
        self.check_web_url(target.url, "The URL of an upload")
        _check_headers(target.headers, _OF_THE_CONNECTION)

    def check_web_url(self, url: str, what: str) -> None:
        try:
            host = read_web_url(url).host
        except AddressRefused as error:
            raise InvalidWebhook(
                f"{what} cannot be used: {error.message} It was {without_secrets(url)[:200]!r}.",
                details=error.details,
            ) from error
        if not is_public_name(host, self.networks):
            raise InvalidWebhook(
                f"{what} leads to {host!r}, which is no public address: the server does not call "
                "those, so that nobody reaches through it what only it can reach. Whoever runs the "
                f"server can allow a network with {NETWORKS_SETTING}.",
                details={"reason": "private_address"},
            )

    def _check_address(self, url: str) -> Channel:
        if len(url) > LONGEST_URL:
            raise InvalidWebhook(f"The URL has more than {LONGEST_URL} characters.")
        channel = channel_of(url)
        match channel:
            case Channel.WEBHOOK:
                self.check_web_url(url, "The URL of the webhook")
            case Channel.EMAIL:
                recipients_of(url)
            case Channel.SMS:
                number_of(url)
        if channel not in self.channels:
            variable = "COMFYRAIL_SMTP_URL" if channel is Channel.EMAIL else "COMFYRAIL_SMS_URL"
            raise InvalidWebhook(
                f"This server sends no {channel}: {variable} is not set.",
                details={"reason": "channel_not_set_up"},
            )
        return channel


def check_events(events: Sequence[str]) -> None:
    _check_names(events, "events")
    for event in events:
        if event != ALL_EVENTS and event not in set(EventType):
            raise InvalidWebhook(
                f"{event[:80]!r} is no type of event. There are {', '.join(EventType)}, and "
                f"{ALL_EVENTS} for all of one's jobs."
            )


def names_operator_events(events: Iterable[str]) -> bool:
    """Whether it is to be told of workers and the server, which are everybody's."""
    own = {ALL_EVENTS, EventType.WEBHOOK_DISABLED}
    return any(event not in own and not EventType(event).is_of_a_job for event in events)


def _refuse_loud_events(events: Sequence[str], channel: Channel) -> None:
    for event in events:
        if event == ALL_EVENTS or event in LOUD_EVENTS:
            raise InvalidWebhook(
                f"events has {event!r}, which comes many times a second: that is for programs, and "
                f"no {channel}. Leave events out to be told of all that is not as loud."
            )


def _check_surfaces(names: Sequence[str]) -> None:
    _check_names(names, "surfaces")
    for name in names:
        if name not in SURFACES:
            raise InvalidWebhook(
                f"{name[:80]!r} is no surface. There are {', '.join(sorted(SURFACES))}."
            )


def _check_names(names: Sequence[str], field: str) -> None:
    if len(names) > MOST_NAMES or any(not 0 < len(name) <= LONGEST_NAME for name in names):
        raise InvalidWebhook(
            f"{field} has {MOST_NAMES} names of {LONGEST_NAME} characters at most."
        )


def _check_texts(settings: EndpointSettings, channel: Channel) -> None:
    _check_names(settings.fields, "fields")
    for path in settings.fields:
        check_path(path, "fields")
    if settings.fields and settings.template is not None:
        raise InvalidWebhook("Give fields or a template, not both.")
    if settings.template is not None:
        is_body = channel is Channel.WEBHOOK and is_json(settings.template)
        (check_json_template if is_body else check_template)(settings.template)
    for text, name in ((settings.html_template, "html_template"), (settings.subject, "subject")):
        if text is None:
            continue
        check_template(text, name)
        if channel is not Channel.EMAIL:
            raise InvalidWebhook(f"{name} is for emails only.")
    if settings.subject is not None and not settings.subject.isprintable():
        raise InvalidWebhook("subject has characters that cannot be printed.")


def _check_headers(
    headers: Mapping[str, str], forbidden: frozenset[str] = FORBIDDEN_HEADERS
) -> None:
    if len(headers) > MOST_HEADERS:
        raise InvalidWebhook(f"There are {MOST_HEADERS} headers at most.")
    try:
        check_headers(headers)
    except AddressRefused as error:
        raise InvalidWebhook(error.message) from error
    for name, value in headers.items():
        if name.lower() in forbidden:
            raise InvalidWebhook(f"The header {name!r} is set by the server, and by it alone.")
        if len(value) > LONGEST_HEADER or not _is_sendable(value):
            raise InvalidWebhook(
                f"The header {name!r} is longer than {LONGEST_HEADER} characters, or has some that "
                "headers cannot have."
            )


def _is_sendable(value: str) -> bool:
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True
