"""By what an endpoint is reached: the scheme of its URL says it [9.4]. Pure."""

import re
from collections.abc import Sequence
from enum import StrEnum
from urllib.parse import unquote

from comfyrail.errors import InvalidWebhook
from comfyrail.network.urls import read_scheme

MOST_RECIPIENTS = 10
_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)
_NUMBER = re.compile(r"\+[1-9][0-9]{5,14}")


class Channel(StrEnum):
    WEBHOOK = "webhook"
    EMAIL = "email"
    SMS = "sms"


_CHANNELS = {
    "https": Channel.WEBHOOK,
    "http": Channel.WEBHOOK,
    "mailto": Channel.EMAIL,
    "sms": Channel.SMS,
}


def channel_of(url: str) -> Channel:
    """Raise InvalidWebhook for a URL of none."""
    channel = _CHANNELS.get(read_scheme(url) or "")
    if channel is None:
        raise InvalidWebhook(
            "The URL begins with https:, http:, mailto: or sms:, such as https://example.com/hook, "
            "mailto:me@example.com or sms:+4915112345678."
        )
    return channel


def recipients_of(url: str) -> Sequence[str]:
    """The addresses of `mailto:a@example.com,b@example.com`. Raises InvalidWebhook."""
    found = [unquote(part).strip() for part in url.partition(":")[2].split(",")]
    if not 1 <= len(found) <= MOST_RECIPIENTS:
        raise InvalidWebhook(f"A mailto: URL has {MOST_RECIPIENTS} addresses at most.")
    for address in found:
        if len(address) > 254 or address.startswith("/") or not _ADDRESS.fullmatch(address):
            raise InvalidWebhook(
                f"{address[:80]!r} is no address of email. Write mailto:me@example.com and nothing "
                "behind it."
            )
    return found


def number_of(url: str) -> str:
    """The number of `sms:+4915112345678`. Raises InvalidWebhook."""
    number = url.partition(":")[2].strip()
    if not _NUMBER.fullmatch(number):
        raise InvalidWebhook(
            f"{number[:40]!r} is no telephone number. Write it with its country, such as "
            "sms:+4915112345678."
        )
    return number
