"""For receivers of webhooks: whether a call is from one's own Comfyrail, and a new one.

A receiver keeps the secret that it was given (`whsec_…`) and calls `verify_webhook` with the
headers and the body as they came, byte for byte.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

TOLERANCE_SECONDS = 300.0
PREFIX = "whsec_"
VERSION = "v1"


class InvalidSignature(ValueError):
    """The call is not from the one who has the secret, or is an old one sent again."""


class WebhookMessage(msgspec.Struct, kw_only=True):
    """A message that was verified. `id` is the same for every try: whoever has seen it passes it
    over. `body` has all of it.
    """

    id: str
    type: str = ""
    timestamp: datetime | None = None
    execution_id: str | None = None
    number: int | None = None
    data: dict[str, Any] = {}
    body: dict[str, Any] = {}


def verify_webhook(
    secret: str | Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> WebhookMessage:
    """The message of a call. Raises InvalidSignature.

    `secret`: one, or several of which any may have signed, as while one is replaced by another.
    `tolerance`: how many seconds old or early a call may be by this machine's clock.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        message_id = given["webhook-id"]
        timestamp = given["webhook-timestamp"]
        signatures = given["webhook-signature"].split(" ")
    except KeyError as error:
        raise InvalidSignature(f"The header {error.args[0]} is missing.") from None
    _check_time(timestamp, tolerance, time.time() if now is None else now)
    signed = f"{message_id}.{timestamp}.".encode() + body
    secrets = [secret] if isinstance(secret, str) else secret
    expected = [_base64(key_of(each), signed) for each in secrets]
    found = [each.removeprefix(f"{VERSION},") for each in signatures if each.startswith(VERSION)]
    if not any(hmac.compare_digest(a.encode(), b.encode()) for a in expected for b in found):
        raise InvalidSignature("No signature of the call is that of the secret.")
    return _message(message_id, given.get("x-webhook-event", ""), body)


def verify_signature(secret: str, body: bytes, signature: str) -> None:
    """The same by `X-Signature` alone, which does not tell old calls from new ones. Raises
    InvalidSignature.
    """
    expected = f"sha256={hmac.new(key_of(secret), body, hashlib.sha256).hexdigest()}"
    if not hmac.compare_digest(expected.encode(), signature.encode()):
        raise InvalidSignature("X-Signature is not that of the secret.")


def key_of(secret: str) -> bytes:
    """The bytes that sign: those that `whsec_…` stands for, or the text as it is."""
    if secret.startswith(PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except (binascii.Error, ValueError):
            pass
    return secret.encode()


def _check_time(timestamp: str, tolerance: float, now: float) -> None:
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 15):
        raise InvalidSignature("webhook-timestamp is no time.")
    if abs(now - int(timestamp)) > tolerance:
        raise InvalidSignature("The call is too old or too early: somebody may have sent it again.")


def _base64(key: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def _message(message_id: str, event: str, body: bytes) -> WebhookMessage:
    """What a template has made of the body may be no object, or no JSON at all."""
    try:
        whole = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        whole = None
    if not isinstance(whole, dict):
        return WebhookMessage(id=message_id, type=event)
    known = {name: whole[name] for name in WebhookMessage.__struct_fields__ if name in whole}
    try:
        message = msgspec.convert({**known, "id": message_id}, WebhookMessage)
    except msgspec.ValidationError:
        message = WebhookMessage(id=message_id)
    message.type = message.type or event
    message.body = whole
    return message
