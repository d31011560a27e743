"""Receivers can tell our calls from others, also while a secret is being replaced [9.3]."""

import base64
import hashlib
import hmac
import json
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from comfyrail.jobs.webhooks import JobWebhook
from comfyrail.notifications.signatures import key_of, new_secret
from comfyrail.usecases.webhooks import NewWebhook
from tests.notifications.parts import ALICE, MovedClock, eventually, post_office
from tests.services.webhook_receiver import Call, receiver

HOUR = 3600.0


def verifies(call: Call, secret: str) -> bool:
    """As the package that receivers use has it."""
    try:
        Webhook(secret).verify(call.body, call.headers)
    except WebhookVerificationError:
        return False
    return True


def plain_signature(secret: bytes, body: bytes) -> str:
    """The recipe of the docs."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


async def test_calls_verify_with_standard_webhooks_and_by_hand(tmp_path: Path) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        made = await post.webhooks.create(ALICE, NewWebhook(site.url))
        await post.job()
        await eventually(lambda: site.taken)
        call = site.taken[0]
        assert verifies(call, made.secret)
        assert not verifies(call, new_secret())
        assert call.headers["x-signature"] == plain_signature(key_of(made.secret), call.body)
        assert call.headers["x-webhook-signature"] == call.headers["webhook-signature"]
        assert call.headers["x-webhook-timestamp"] == call.headers["webhook-timestamp"]
        assert call.headers["x-webhook-id"] == call.headers["webhook-id"] == call.json["id"]
        forged = Call(call.method, call.path, {}, call.headers, call.body + b" ")
        assert not verifies(forged, made.secret)


async def test_a_secret_of_ones_own_signs_as_its_text(tmp_path: Path) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        await post.run(webhook=JobWebhook(url=site.url, secret="correct horse battery"))
        await eventually(lambda: site.taken)
        (call,) = site.taken
        assert call.headers["x-signature"] == plain_signature(b"correct horse battery", call.body)


async def test_a_job_without_a_secret_is_signed_with_that_of_its_tenant(tmp_path: Path) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        await post.run(webhook=JobWebhook(url=site.url))
        await eventually(lambda: site.taken)
        secret = await post.webhooks.signing_secret(ALICE)
        assert verifies(site.taken[0], secret.secret)
        assert await post.webhooks.signing_secret(ALICE) == secret
        changed = await post.webhooks.rotate_signing_secret(ALICE)
        await post.run(webhook=JobWebhook(url=site.url))
        await eventually(lambda: len(site.taken) == 2)
        assert verifies(site.taken[1], changed.secret)
        assert verifies(site.taken[1], secret.secret)


async def test_two_signatures_while_a_secret_is_replaced_and_one_afterwards(
    tmp_path: Path,
) -> None:
    clock = MovedClock()
    async with receiver() as site, post_office(tmp_path, clock) as post:
        old = await post.webhooks.create(ALICE, NewWebhook(site.url))
        new = await post.webhooks.rotate(ALICE, old.endpoint.id, overlap_seconds=24 * HOUR)
        await post.job()
        await eventually(lambda: len(site.taken) == 1)
        (during,) = site.taken
        assert during.headers["webhook-signature"].count("v1,") == 2
        assert verifies(during, old.secret)
        assert verifies(during, new.secret)
        assert during.headers["x-signature"] == plain_signature(key_of(new.secret), during.body)
        assert during.headers["x-signature-previous"] == plain_signature(
            key_of(old.secret), during.body
        )
        post.pass_time(25 * HOUR)
        await post.job()
        await eventually(lambda: len(site.taken) == 2)
        after = site.taken[1]
        assert after.headers["webhook-signature"].count("v1,") == 1
        assert "x-signature-previous" not in after.headers
        signed = f"{after.id}.{after.headers['webhook-timestamp']}.".encode() + after.body
        digest = hmac.digest(key_of(new.secret), signed, "sha256")
        assert after.headers["webhook-signature"].startswith("v1,")
        assert digest in _signatures(after)


def _signatures(call: Call) -> list[bytes]:
    parts = call.headers["webhook-signature"].split()
    return [base64.b64decode(part.removeprefix("v1,")) for part in parts]


async def test_secrets_are_in_no_text_that_is_shown_or_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        made = await post.webhooks.create(ALICE, NewWebhook(site.url))
        await post.job()
        await eventually(lambda: site.taken)
        await post.webhooks.test(ALICE, made.endpoint.id)
        shown = [
            repr(made),
            repr(await post.webhooks.list(ALICE)),
            repr(await post.webhooks.signing_secret(ALICE)),
            json.dumps([call.headers for call in site.calls]),
            capsys.readouterr().out,
        ]
        assert not any(made.secret in text for text in shown)
