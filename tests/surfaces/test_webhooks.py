"""Webhooks as users meet them: over HTTP, on the command line, from every surface [9.3]."""

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from standardwebhooks import Webhook as StandardWebhook

from comfyrail.client import InvalidSignature, verify_signature, verify_webhook
from tests.graphs import picture
from tests.processes import Comfyrail, server, wait_until
from tests.processes import comfyrail as run_cli
from tests.services.webhook_receiver import Receiver, answering, hanging, healthy, receiver

LOOPBACK = "127.0.0.0/8"


@pytest.fixture(scope="module")
def telling_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    """One that may call receivers on this machine."""
    folder = tmp_path_factory.mktemp("telling") / "data"
    with server(folder, COMFYRAIL_WEBHOOK_NETWORKS=LOOPBACK) as process:
        yield process.wait_ready()


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    async with receiver() as made:
        yield made


async def call(
    process: Comfyrail, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    return await asyncio.to_thread(process.call, method, path, body, **headers)


async def has_calls(hook: Receiver, count: int, limit: float = 30.0) -> None:
    await asyncio.to_thread(wait_until, lambda: len(hook.taken) >= count, limit)


async def ended(process: Comfyrail, job_id: str) -> dict[str, Any]:
    return await asyncio.to_thread(process.wait_for, job_id, "completed")


async def test_callback_url_is_told_of_the_end_and_the_job_says_so(
    telling_server: Comfyrail, hook: Receiver
) -> None:
    body = {"workflow": picture(61), "callback_url": hook.url}
    status, reply = await call(telling_server, "POST", "/v1/workflows/execute", body)
    assert status == 202
    await has_calls(hook, 1)
    (told,) = hook.taken
    assert told.json["type"] == "execution.completed"
    assert told.json["execution_id"] == reply["execution_id"]
    assert told.headers["x-execution-id"] == reply["execution_id"]
    _, secret = await call(telling_server, "GET", "/v1/webhooks/signing-secret")
    verified = verify_webhook(secret["secret"], told.headers, told.body)
    assert (verified.id, verified.type) == (told.id, "execution.completed")
    path = f"/v1/workflows/execution/{reply['execution_id']}"
    await asyncio.to_thread(
        wait_until, lambda: telling_server.call("GET", path)[1]["webhook_delivered"]
    )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/workflows/runsync", {"workflow": picture(62), "callback_url": "URL"}),
        ("/v1/workflows/execute", {"workflow": picture(63), "webhook_config": {"url": "URL"}}),
        ("/v2/workflows/execute", {"workflow": picture(64), "webhook_config": {"url": "URL"}}),
        (
            "/api/v1/tasks",
            {"workflow_id": "x", "payload": {"workflow": picture(65)}, "callback_url": "URL"},
        ),
        ("/run", {"input": {"workflow": picture(66)}, "webhook": "URL"}),
        (
            "/v1/batches",
            {"workflow": picture(67), "items": [{"name": "a"}], "webhook_config": {"url": "URL"}},
        ),
        (
            "/api/v2/jobs",
            {"workflow": picture(68), "comfyrail": {"webhook_config": {"url": "URL"}}},
        ),
    ],
    ids=["runsync", "v1", "v2", "tasks", "runpod", "batches", "comfy-v2"],
)
async def test_every_surface_can_name_a_webhook(
    telling_server: Comfyrail, hook: Receiver, path: str, body: dict[str, Any]
) -> None:
    for holder in (body, body.get("webhook_config"), body.get("comfyrail")):
        for name in ("callback_url", "webhook", "url"):
            if holder and holder.get(name) == "URL":
                holder[name] = hook.url
    if "comfyrail" in body:
        body["comfyrail"]["webhook_config"]["url"] = hook.url
    status, reply = await call(telling_server, "POST", path, body)
    assert status < 300, reply
    await has_calls(hook, 1)
    assert hook.taken[0].json["type"] == "execution.completed"


async def test_account_webhook_is_made_tested_changed_rotated_and_removed(
    telling_server: Comfyrail, hook: Receiver
) -> None:
    wanted = {"url": hook.url, "events": ["execution.completed"], "headers": {"X-Mine": "private"}}
    status, made = await call(telling_server, "POST", "/v1/webhooks", wanted)
    assert status == 201
    own = f"/v1/webhooks/{made['webhook']['webhook_id']}"
    assert made["secret"].startswith("whsec_")
    status, test = await call(telling_server, "POST", f"{own}/test")
    assert (status, test["delivered"], test["result"]["status"]) == (200, True, 200)
    assert (hook.taken[0].json["type"], hook.taken[0].headers["x-mine"]) == (
        "webhook.test",
        "private",
    )
    _, shown = await call(telling_server, "GET", own)
    assert (shown["headers"], "secret" in str(shown["headers"])) == (["X-Mine"], False)
    status, rotated = await call(telling_server, "POST", f"{own}/rotate", {"overlap": 600})
    assert rotated["secret"] != made["secret"]
    job_id = await asyncio.to_thread(telling_server.submit, picture(71))
    await ended(telling_server, job_id)
    await has_calls(hook, 2)
    told = hook.taken[1]
    for secret in (made["secret"], rotated["secret"]):
        StandardWebhook(secret).verify(told.body.decode(), told.headers)
        verify_webhook(secret, told.headers, told.body)
    verify_signature(rotated["secret"], told.body, told.headers["x-signature"])
    verify_signature(made["secret"], told.body, told.headers["x-signature-previous"])
    status, changed = await call(telling_server, "PATCH", own, {"enabled": False})
    assert (changed["enabled"], changed["disabled_reason"] is not None) == (False, True)
    assert (await call(telling_server, "DELETE", own))[0] == 204
    assert (await call(telling_server, "GET", own))[0] == 404


async def test_signature_of_a_changed_or_old_call_is_refused(
    telling_server: Comfyrail, hook: Receiver
) -> None:
    secret = "a secret of the caller's own"
    config = {"url": hook.url, "secret": secret}
    body = {"workflow": picture(72), "webhook_config": config}
    await call(telling_server, "POST", "/v1/workflows/execute", body)
    await has_calls(hook, 1)
    (told,) = hook.taken
    expected = hmac.new(secret.encode(), told.body, hashlib.sha256).hexdigest()
    assert told.headers["x-signature"] == f"sha256={expected}"
    verify_webhook(secret, told.headers, told.body)
    verify_webhook(["another", secret], told.headers, told.body)
    changes: tuple[dict[str, Any], ...] = (
        {"body": told.body + b" "},
        {"headers": {**told.headers, "webhook-id": "msg_other"}},
        {"headers": {**told.headers, "webhook-timestamp": "1"}},
        {"headers": {**told.headers, "webhook-signature": "v1,AAAA v2,x"}},
        {"headers": {}},
        {"secret": "another secret"},
        {"now": 1.0},
    )
    for change in changes:
        given: dict[str, Any] = {"secret": secret, "headers": told.headers, "body": told.body}
        with pytest.raises(InvalidSignature):
            verify_webhook(**{**given, **change})


async def test_dead_letters_are_seen_and_sent_again(telling_server: Comfyrail) -> None:
    async with receiver(answering(500)) as broken:
        config = {"url": broken.url, "max_retries": 1, "retry_delay": 0}
        body = {"workflow": picture(73), "webhook_config": config}
        _, reply = await call(telling_server, "POST", "/v1/workflows/execute", body)
        job_id = reply["execution_id"]
        query = f"/v1/dead-letters?execution_id={job_id}"
        (dead,) = await asyncio.to_thread(
            wait_until, lambda: telling_server.call("GET", query)[1]["deliveries"]
        )
        own = f"/v1/deliveries/{dead['delivery_id']}"
        _, shown = await call(telling_server, "GET", own)
        assert [each["status"] for each in shown["tries"]] == [500, 500]
        assert "answer 500" in shown["tries"][0]["reply"]
        _, job = await call(telling_server, "GET", f"/v1/workflows/execution/{job_id}")
        assert job["webhook_delivered"] is False
        port = broken.port
    async with receiver(port=port) as mended:
        at = ("--server", telling_server.url)
        listed = await asyncio.to_thread(run_cli, "webhooks", "dead", "--job", job_id, *at)
        assert dead["delivery_id"] in listed.stdout
        sent = await asyncio.to_thread(run_cli, "webhooks", "redeliver", "--job", job_id, *at)
        assert "1 on their way again" in sent.stdout
        await has_calls(mended, 1)
        assert mended.taken[0].id == dead["delivery_id"]
        assert mended.taken[0].body.decode() == shown["body"]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/x",
        "http://localhost/x",
        "http://169.254.169.254/latest",
        "http://[::1]/",
        "ftp://example.com/",
        "https://user:pass@example.com/",
        "nonsense",
        "mailto:a@example.com",
        "sms:+491701234567",
    ],
)
def test_address_that_nothing_can_be_sent_to_is_refused(
    running_server: Comfyrail, url: str
) -> None:
    """On a server that calls nobody on its own machine, and has neither SMTP nor a gateway."""
    status, body = running_server.call("POST", "/v1/webhooks", {"url": url})
    assert (status, body["error"]["code"]) == (422, "INVALID_WEBHOOK")
    request = {"workflow": picture(74), "callback_url": url}
    status, body = running_server.call("POST", "/v1/workflows/execute", request)
    assert (status, body["error"]["code"]) == (422, "INVALID_WEBHOOK")
    assert "user:pass" not in str(body)


def test_command_line_adds_lists_tests_and_removes(
    telling_server: Comfyrail, tmp_path: Path
) -> None:
    del tmp_path
    at = ("--server", telling_server.url)
    url = "http://127.0.0.1:9/nobody"
    added = run_cli("webhooks", "add", url, "--event", "execution.failed", *at)
    webhook_id = added.stdout.split()[1]
    assert "whsec_" in added.stdout
    listed = run_cli("webhooks", *at)
    assert webhook_id in listed.stdout
    assert "execution.failed" in listed.stdout
    tested = run_cli("webhooks", "test", webhook_id, *at)
    assert tested.returncode == 1
    assert "did not arrive" in tested.stderr
    assert "webhook.test" in run_cli("webhooks", "deliveries", *at).stdout
    assert run_cli("webhooks", "remove", webhook_id, *at).returncode == 0
    assert "No webhooks" in run_cli("webhooks", *at).stdout


async def test_a_test_ends_when_its_caller_leaves(
    telling_server: Comfyrail, hook: Receiver
) -> None:
    hook.behave = hanging
    body = {"url": hook.url, "events": ["execution.cancelled"]}
    _, made = await call(telling_server, "POST", "/v1/webhooks", body)
    path = f"/v1/webhooks/{made['webhook']['webhook_id']}"
    async with aiohttp.ClientSession(telling_server.url) as http:
        asking = [asyncio.create_task(http.post(f"{path}/test")) for _ in range(4)]
        await asyncio.to_thread(wait_until, lambda: len(hook.calls) == 4, 10.0)
        status, refused = await call(telling_server, "POST", f"{path}/test")
        assert (status, refused["error"]["code"]) == (429, "RATE_LIMITED")
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    hook.behave = healthy
    statuses = []

    def works() -> bool:
        statuses.append(telling_server.call("POST", f"{path}/test")[0])
        return statuses[-1] == 200

    # Long before any of the four would have run into its time limit.
    await asyncio.to_thread(wait_until, works, 8.0)
    await call(telling_server, "DELETE", path)
