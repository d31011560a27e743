"""Signatures of calls: how a receiver knows that they are ours, and not old ones [9.3].

Standard Webhooks (id, time and body) beside the plain one of the body alone. While a secret is
being replaced both sign.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence

from comfyrail.clock import Instant
from comfyrail.errors import InvalidWebhook

PREFIX = "whsec_"
SECRET_BYTES = 32
ROTATION_SECONDS = 86_400.0
"""How long the secret before signs too."""

SHORTEST_SECRET = 8
LONGEST_SECRET = 200
SHORTEST_KEY_BYTES = 16

OWN_HEADERS = frozenset(
    {
        "x-signature",
        "x-signature-previous",
        "x-execution-id",
        "x-webhook-event",
        "x-webhook-id",
        "x-webhook-timestamp",
        "x-webhook-signature",
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
    }
)


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def check_secret(secret: str) -> None:
    """Raise InvalidWebhook for one that is easily guessed, or that receivers read otherwise."""
    if not SHORTEST_SECRET <= len(secret) <= LONGEST_SECRET or not secret.isprintable():
        raise InvalidWebhook(
            f"secret has {SHORTEST_SECRET} to {LONGEST_SECRET} printable characters. Leave it out, "
            "and the server has one."
        )
    if secret.startswith(PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) < SHORTEST_KEY_BYTES:
            raise InvalidWebhook(
                f"Behind {PREFIX} a secret has {SHORTEST_KEY_BYTES} bytes or more, in base64."
            )


def key_of(secret: str) -> bytes:
    """The bytes that sign: those that `whsec_…` stands for, or the text as it is."""
    if secret.startswith(PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except (binascii.Error, ValueError):
            pass
    return secret.encode()


def signature_headers(
    keys: Sequence[str], message_id: str, at: Instant, body: bytes
) -> dict[str, str]:
    """`keys`: the secret, and the one before it while that is still good."""
    timestamp = str(at // 1000)
    signed = f"{message_id}.{timestamp}.".encode() + body
    standard = " ".join(f"v1,{_base64(secret, signed)}" for secret in keys)
    headers = {
        "X-Signature": f"sha256={_hex(keys[0], body)}",
        "X-Webhook-ID": message_id,
        "X-Webhook-Timestamp": timestamp,
        "X-Webhook-Signature": standard,
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": standard,
    }
    if len(keys) > 1:
        headers["X-Signature-Previous"] = f"sha256={_hex(keys[1], body)}"
    return headers


def _hex(secret: str, content: bytes) -> str:
    return hmac.new(key_of(secret), content, hashlib.sha256).hexdigest()


def _base64(secret: str, content: bytes) -> str:
    return base64.b64encode(hmac.digest(key_of(secret), content, "sha256")).decode()
