"""What can be an endpoint, and what cannot [9.3, 9.4]."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from comfyrail.access.permissions import Permission
from comfyrail.api.comfy_v2 import words as comfy_v2
from comfyrail.api.runpod import words as runpod
from comfyrail.api.tasks import words as tasks
from comfyrail.api.v2 import executions as v2
from comfyrail.api.webhooks.contract import delivery_body
from comfyrail.errors import Conflict, EndpointNotFound, Forbidden, InvalidWebhook
from comfyrail.jobs.events import EventType
from comfyrail.jobs.job import SURFACES
from comfyrail.jobs.output_config import OutputConfig, UploadTarget
from comfyrail.jobs.quotas import Quotas
from comfyrail.jobs.webhooks import JobWebhook
from comfyrail.notifications.channels import Channel
from comfyrail.notifications.endpoints import EndpointRules
from comfyrail.notifications.templates import render_json
from comfyrail.store.access import User
from comfyrail.store.feed import OPERATOR
from comfyrail.store.notifications import DeliveryState, EndpointSettings
from comfyrail.usecases import comfyui_records, run_record
from comfyrail.usecases import webhooks as usecase
from comfyrail.usecases.webhooks import NewWebhook, WebhookChanges
from tests.notifications.parts import ALICE, BOB, eventually, post_office
from tests.services.webhook_receiver import answering, receiver

RULES = EndpointRules(channels=frozenset(Channel))
GOOD = "https://example.com/hook"


@pytest.mark.parametrize(
    "url",
    [
        GOOD,
        "http://example.com:8080/a?b=c",
        "mailto:me@example.com",
        "mailto:me@example.com,you@example.org",
        "sms:+4915112345678",
    ],
)
def test_what_can_be_reached_is_accepted(url: str) -> None:
    RULES.check(url, EndpointSettings())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com/hook",
        "ftp://example.com/",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "https://user:secret@example.com/",
        "https://exa mple.com/",
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://[::1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://localhost:8080/",
        "http://10.0.0.7/",
        "https://" + "a" * 2100 + ".example.com/",
        "mailto:",
        "mailto:me",
        "mailto:me@example.com?bcc=all@example.com",
        "mailto:me@example.com%0d%0aBcc:all@example.com",
        "mailto:" + ",".join(["a@example.com"] * 11),
        "sms:12345",
        "sms:+49 151;rm",
    ],
    ids=range(21),
)
def test_what_cannot_or_must_not_be_reached_is_refused(url: str) -> None:
    with pytest.raises(InvalidWebhook) as refused:
        RULES.check(url, EndpointSettings())
    assert refused.value.code == "INVALID_WEBHOOK"
    assert "secret" not in refused.value.message


def test_the_refusal_of_a_private_address_names_the_setting() -> None:
    with pytest.raises(InvalidWebhook, match="COMFYRAIL_WEBHOOK_NETWORKS"):
        RULES.check("http://127.0.0.1:9000/", EndpointSettings())


@pytest.mark.parametrize(
    ("url", "variable"),
    [("mailto:me@example.com", "SMTP_URL"), ("sms:+4915112345678", "SMS_URL")],
    ids=["email", "sms"],
)
def test_a_channel_that_is_not_set_up_is_refused(url: str, variable: str) -> None:
    with pytest.raises(InvalidWebhook, match=variable):
        EndpointRules().check(url, EndpointSettings())


@pytest.mark.parametrize(
    "settings",
    [
        {"events": ["execution.exploded"]},
        {"headers": {"X-Signature": "mine"}},
        {"headers": {"Webhook-Id": "mine"}},
        {"headers": {"host": "other.example"}},
        {"headers": {"Content-Length": "1"}},
        {"headers": {"Transfer-Encoding": "chunked"}},
        {"headers": {"X-A": "a\r\nX-B: b"}},
        {"headers": {"X A": "b"}},
        {"headers": {"X-A": "日本"}},
        {"headers": {f"X-{number}": "a" for number in range(21)}},
        {"timeout": 0},
        {"timeout": 301},
        {"timeout": float("nan")},
        {"fields": ["a b"]},
        {"fields": ["id"], "template": "{{ id }}"},
        {"template": '{"a": {{ id }}'},
        {"template": "{ {{ id }}: 1}"},
        {"template": "{{ __class__() }}"},
        {"template": "x" * 20_000},
        {"template": "{{ id }}" * 101},
        {"subject": "for emails only"},
        {"description": "a\nb"},
        {"workflows": [""]},
        {"workflows": ["w"] * 51},
        {"surfaces": ["nonsense"]},
        {"timeout": 0.5},
    ],
    ids=range(26),
)
def test_settings_that_do_not_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidWebhook):
        RULES.check(GOOD, EndpointSettings(**settings))


def test_a_submission_is_refused_for_where_it_would_send() -> None:
    RULES.check_submission(JobWebhook(url=GOOD), OutputConfig())
    with pytest.raises(InvalidWebhook):
        RULES.check_submission(JobWebhook(url="http://127.0.0.1/"), OutputConfig())
    with pytest.raises(InvalidWebhook):
        RULES.check_submission(JobWebhook(url="mailto:me@example.com"), OutputConfig())
    upload = OutputConfig(uploads=[UploadTarget(url="http://10.0.0.1/bucket?sig=1")])
    with pytest.raises(InvalidWebhook):
        RULES.check_submission(None, upload)


def test_what_is_filled_into_json_can_end_no_string() -> None:
    values = {"a": '", "admin": true, "x": "\\', "b": {"c": [1, None]}}
    text = render_json('{"x": "\\"{{ a }}", "y": {{ b }}, "z": "{{ b.c }}"}', values)
    assert text == (
        '{"x": "\\"\\", \\"admin\\": true, \\"x\\": \\"\\\\", "y": {"c":[1,null]}, "z": "[1,null]"}'
    )


async def test_webhooks_are_listed_changed_and_deleted_by_their_owner_alone(
    tmp_path: Path,
) -> None:
    async with post_office(tmp_path, is_at_work=False) as post:
        mine = await post.endpoint("http://127.0.0.1:9/", description="mine")
        theirs = await post.endpoint("http://127.0.0.1:9/", BOB)
        assert [each.id for each in await post.webhooks.list(ALICE)] == [mine.id]
        changes = WebhookChanges(settings={"description": "other", "events": ["execution.failed"]})
        changed = await post.webhooks.update(ALICE, mine.id, changes)
        assert changed.settings.description == "other"
        assert changed == await post.webhooks.get(ALICE, mine.id)
        for webhook_id in (theirs.id, "wh_unknown"):
            with pytest.raises(EndpointNotFound):
                await post.webhooks.get(ALICE, webhook_id)
            with pytest.raises(EndpointNotFound):
                await post.webhooks.update(ALICE, webhook_id, changes)
            with pytest.raises(EndpointNotFound):
                await post.webhooks.rotate(ALICE, webhook_id)
            with pytest.raises(EndpointNotFound):
                await post.webhooks.delete(ALICE, webhook_id)
        with pytest.raises(InvalidWebhook):
            await post.webhooks.update(ALICE, mine.id, WebhookChanges(settings={"tenant": "bob"}))
        with pytest.raises(InvalidWebhook):
            await post.webhooks.update(ALICE, mine.id, WebhookChanges(settings={"timeout": "x"}))
        await post.webhooks.delete(ALICE, mine.id)
        assert await post.webhooks.list(ALICE) == []
        assert len(await post.webhooks.list(BOB)) == 1


async def test_a_tenant_has_so_many_webhooks_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usecase, "MOST_ENDPOINTS", 2)
    async with post_office(tmp_path, is_at_work=False) as post:
        await post.endpoint("http://127.0.0.1:9/")
        await post.endpoint("http://127.0.0.1:9/")
        with pytest.raises(Conflict) as refused:
            await post.endpoint("http://127.0.0.1:9/")
        assert refused.value.code == "TOO_MANY_WEBHOOKS"
        await post.endpoint("http://127.0.0.1:9/", BOB)


@pytest.mark.parametrize(
    "secret", ["short", "a" * 201, "line\nend and more", "whsec_!", "whsec_YQ=="]
)
async def test_weak_and_unreadable_secrets_are_refused(tmp_path: Path, secret: str) -> None:
    async with post_office(tmp_path, is_at_work=False) as post:
        with pytest.raises(InvalidWebhook):
            await post.webhooks.create(ALICE, NewWebhook("http://127.0.0.1:9/", secret=secret))


async def test_events_of_the_server_are_for_those_who_may_look_at_it(tmp_path: Path) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        wanted = NewWebhook(site.url, EndpointSettings(events=["system.queue_paused"]))
        nobody = replace(BOB, permissions=frozenset({Permission.WEBHOOKS_WRITE}))
        with pytest.raises(Forbidden):
            await post.webhooks.create(nobody, wanted)
        await post.webhooks.create(ALICE, wanted)
        await post.webhooks.create(BOB, NewWebhook(site.url, EndpointSettings(events=["*"])))
        await post.webhooks.create(BOB, NewWebhook(site.url))
        await post.store.add_notice(OPERATOR, EventType.QUEUE_PAUSED, {"reason": "night"})
        await eventually(lambda: site.taken)
        await post.settled()
        (call,) = site.taken
        assert call.json["data"] == {"reason": "night"}
        assert call.json["execution_id"] is None
        assert "x-execution-id" not in call.headers


async def test_a_test_is_sent_at_once_and_is_in_the_log(tmp_path: Path) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        endpoint = await post.endpoint(site.url)
        await post.webhooks.update(ALICE, endpoint.id, WebhookChanges(is_enabled=False))
        worked = await post.webhooks.test(ALICE, endpoint.id)
        assert (worked.made.status, worked.made.error) == (200, None)
        assert site.taken[0].json["type"] == "webhook.test"
        site.behave = answering(404)
        failed = await post.webhooks.test(ALICE, endpoint.id)
        assert failed.made.status == 404
        states = [DeliveryState.DELIVERED, DeliveryState.DEAD]
        found = await post.wait_for_states(*states)
        assert [each.id for each in found] == [worked.delivery_id, failed.delivery_id]
        with pytest.raises(Conflict) as refused:
            await post.webhooks.redeliver(ALICE, failed.delivery_id)
        assert refused.value.code == "DELIVERY_IS_A_TEST"
        with pytest.raises(EndpointNotFound):
            await post.webhooks.test(BOB, endpoint.id)


async def test_what_was_disabled_while_the_server_was_down_is_finished_at_its_start(
    tmp_path: Path,
) -> None:
    async with post_office(tmp_path, is_at_work=False) as post:
        endpoint = await post.endpoint("http://127.0.0.1:9/")
        await post.run()
        # As a crash between the two steps would leave it.
        await post.store._writer.write(
            lambda tx: tx.run(
                "disable_endpoint", endpoint_id=endpoint.id, reason="a test", now=tx.now
            )
        )
    async with post_office(tmp_path, is_at_work=False) as post:
        dead = await post.wait_for_states(*[DeliveryState.DEAD] * 3)
        assert {each.last_error for each in dead} == {"a test"}


@pytest.mark.parametrize("event", ["*", "execution.progress"])
@pytest.mark.parametrize("url", ["mailto:me@example.com", "sms:+4915112345678"])
def test_what_comes_many_times_a_second_is_for_programs_only(url: str, event: str) -> None:
    with pytest.raises(InvalidWebhook, match="many times a second"):
        RULES.check(url, EndpointSettings(events=[event]))


@pytest.mark.parametrize("secret", ["whsec_==", "whsec_not base64!", "tab\tbetween"])
def test_the_secret_of_a_job_is_checked_as_that_of_an_account(secret: str) -> None:
    with pytest.raises(InvalidWebhook, match="secret"):
        RULES.check_job(JobWebhook(url=GOOD, secret=secret))


def test_every_door_through_which_jobs_come_can_be_named() -> None:
    doors = [run_record, comfyui_records, comfy_v2, tasks, v2, runpod]
    assert {"v1", *(door.SURFACE for door in doors)} == SURFACES


async def test_changes_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    async with post_office(tmp_path, is_at_work=False) as post:
        endpoint = await post.endpoint("http://127.0.0.1:9/")
        await asyncio.gather(
            post.webhooks.update(ALICE, endpoint.id, WebhookChanges(settings={"timeout": 5.0})),
            post.webhooks.update(ALICE, endpoint.id, WebhookChanges(settings={"subject": None})),
            post.webhooks.update(ALICE, endpoint.id, WebhookChanges(settings={"fields": ["id"]})),
            post.webhooks.update(ALICE, endpoint.id, WebhookChanges(is_enabled=False)),
        )
        changed = await post.webhooks.get(ALICE, endpoint.id)
        assert (changed.settings.timeout, changed.settings.fields) == (5.0, ["id"])
        assert not changed.is_enabled


async def test_an_endpoint_keeps_its_channel(tmp_path: Path) -> None:
    async with post_office(tmp_path, is_at_work=False) as post:
        endpoint = await post.endpoint("http://127.0.0.1:9/")
        with pytest.raises(InvalidWebhook, match="Add another webhook"):
            await post.webhooks.update(
                ALICE, endpoint.id, WebhookChanges(url="mailto:me@example.com")
            )
        await post.webhooks.update(ALICE, endpoint.id, WebhookChanges(url="https://example.com/"))


@pytest.mark.parametrize("loss", ["permission", "disabled", "removed"])
async def test_who_may_no_longer_look_at_the_fleet_is_told_no_more_of_it(
    tmp_path: Path, loss: str
) -> None:
    async with post_office(tmp_path, is_at_work=False) as post:
        permissions = frozenset({"fleet:read", "webhooks:write"})
        user = User("bob", BOB.tenant, "free", permissions, Quotas(), post.clock.now())
        await post.store.add_user(user)
        events = [str(EventType.QUEUE_PAUSED), str(EventType.QUEUED)]
        for who in (ALICE, BOB):
            await post.endpoint("http://127.0.0.1:9/", who, events=events)
        await post.store.add_notice(OPERATOR, EventType.QUEUE_PAUSED, {"reason": "night"})
        assert len(await post.deliveries(BOB)) == 1
        if loss == "removed":
            await post.store.remove_user("bob")
        else:
            lost = permissions - {"fleet:read"} if loss == "permission" else permissions
            await post.store.change_user(
                replace(user, permissions=lost, is_disabled=loss == "disabled")
            )
        await post.store.add_notice(OPERATOR, EventType.QUEUE_PAUSED, {"reason": "night"})
        assert len(await post.deliveries(BOB)) == 1
        assert len(await post.deliveries(ALICE)) == 2
        await post.job(BOB)
        assert len(await post.deliveries(BOB)) == 2


async def test_a_secret_is_not_replaced_twice_while_receivers_have_the_one_before(
    tmp_path: Path,
) -> None:
    async with post_office(tmp_path, is_at_work=False) as post:
        endpoint = await post.endpoint("http://127.0.0.1:9/")
        await post.webhooks.signing_secret(ALICE)
        await post.webhooks.rotate(ALICE, endpoint.id)
        await post.webhooks.rotate_signing_secret(ALICE)
        for again in (
            post.webhooks.rotate(ALICE, endpoint.id),
            post.webhooks.rotate_signing_secret(ALICE),
        ):
            with pytest.raises(Conflict) as refused:
                await again
            assert refused.value.code == "SECRET_IN_ROTATION"
        await post.webhooks.rotate(ALICE, endpoint.id, overlap_seconds=0)
        await post.webhooks.rotate_signing_secret(ALICE, overlap_seconds=0)


async def test_where_a_file_goes_is_shown_without_what_lets_one_write_there(
    tmp_path: Path,
) -> None:
    async with post_office(tmp_path, is_at_work=False) as post:
        url = "https://bucket.example.com/a.png?X-Amz-Signature=topsecret"
        await post.run(
            outputs=[await post.output(b"x")],
            output_config=OutputConfig(uploads=[UploadTarget(url=url)]),
        )
        (upload,) = await post.deliveries()
        shown = delivery_body(upload).url
        assert shown is not None
        assert shown.startswith("https://bucket.example.com/a.png")
        assert "topsecret" not in shown
