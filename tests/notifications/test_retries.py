"""What happens when a receiver does not take it: tries, rests, dead letters, and again [9.3]."""

import asyncio
import re
from collections import defaultdict
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from comfyrail.clock import Instant
from comfyrail.errors import Conflict, DeliveryNotFound
from comfyrail.jobs.delivery_schedule import ACCOUNT_DELAYS
from comfyrail.jobs.events import EventType
from comfyrail.jobs.outcome import Completed
from comfyrail.jobs.webhooks import JobWebhook
from comfyrail.notifications import courier as courier_module
from comfyrail.notifications.bodies import message_about
from comfyrail.notifications.log_keeper import DeliveryLogKeeper
from comfyrail.store.notifications import DeliveryFilter, DeliveryState
from comfyrail.usecases.webhooks import WebhookChanges
from tests.engine.distributed.certificates import server_context
from tests.notifications.parts import ALICE, BOB, MovedClock, Post, eventually, post_office
from tests.services.webhook_receiver import (
    Behaviour,
    Receiver,
    answering,
    endless,
    hanging,
    healthy,
    receiver,
    resetting,
    silent_headers,
    trickling,
)

DAY = 86_400.0
PENDING, DEAD, DELIVERED = DeliveryState.PENDING, DeliveryState.DEAD, DeliveryState.DELIVERED


async def one_event(post: Post, site_url: str, **settings: Any) -> None:
    await post.endpoint(site_url, events=["execution.queued"], **settings)
    await post.job()


async def test_tries_of_an_account_endpoint_follow_the_schedule_and_end_as_a_dead_letter(
    tmp_path: Path,
) -> None:
    clock = MovedClock()
    async with receiver(answering(503)) as site, post_office(tmp_path, clock) as post:
        await one_event(post, site.url)
        for number, delay in enumerate(ACCOUNT_DELAYS, start=1):
            delivery = await post.tried(number)
            assert delivery.next_at is not None
            assert delivery.next_at - post.clock.now() == pytest.approx(delay * 1000, abs=900)
            # The breaker rests for longer than the first delays of the schedule.
            post.pass_time(max(delay, 3601.0 if number >= 5 else 0.0))
        dead = await post.tried(len(ACCOUNT_DELAYS) + 1)
        assert (dead.state, dead.next_at, dead.last_status) == (DEAD, None, 503)
        shown = await post.webhooks.delivery(ALICE, dead.id)
        assert [each.number for each in shown.tries] == list(range(1, 10))
        assert {each.reply for each in shown.tries} == {b"answer 503"}
        assert len({call.body for call in site.calls}) == 1
        assert {call.id for call in site.calls} == {dead.id}


@pytest.mark.parametrize("status", [400, 413, 414, 415, 422])
async def test_a_refusal_of_the_message_is_final(tmp_path: Path, status: int) -> None:
    async with receiver(answering(status)) as site, post_office(tmp_path) as post:
        await one_event(post, site.url)
        (dead,) = await post.wait_for_states(DEAD)
        assert (dead.attempts, dead.last_status) == (1, status)
        assert dead.last_error is not None
        assert str(status) in dead.last_error


@pytest.mark.parametrize("status", [401, 403, 404, 405, 408, 409, 425, 429, 500, 503, 302])
async def test_what_may_work_later_is_tried_again(tmp_path: Path, status: int) -> None:
    async with receiver(answering(status)) as site, post_office(tmp_path) as post:
        await one_event(post, site.url)
        delivery = await post.tried(1)
        assert delivery.state is PENDING
        assert delivery.next_at is not None


async def test_a_redirect_is_not_followed_and_says_so(tmp_path: Path) -> None:
    async with receiver() as private, post_office(tmp_path) as post:
        leading = answering(307, Location=private.url)
        async with receiver(leading) as site:
            await one_event(post, site.url)
            delivery = await post.tried(1)
            assert delivery.last_error is not None
            assert "Redirects are not followed" in delivery.last_error
            assert private.calls == []


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_a_receiver_that_asks_for_more_time_gets_it(tmp_path: Path, form: str) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        wanted = "600" if form == "seconds" else formatdate(post.clock.now() / 1000 + 600)
        site.behave = answering(429, Retry_After=wanted)
        await one_event(post, site.url)
        delivery = await post.tried(1)
        assert delivery.next_at is not None
        assert delivery.next_at - post.clock.now() == pytest.approx(600_000, abs=5000)


async def test_nobody_is_made_to_wait_longer_than_a_day(tmp_path: Path) -> None:
    async with (
        receiver(answering(429, Retry_After="9" * 40)) as site,
        post_office(tmp_path) as post,
    ):
        await one_event(post, site.url)
        delivery = await post.tried(1)
        assert delivery.next_at is not None
        assert delivery.next_at - post.clock.now() <= DAY * 1000


async def test_a_job_is_tried_as_often_as_it_says(tmp_path: Path) -> None:
    async with receiver(answering(503)) as site, post_office(tmp_path) as post:
        await post.run(webhook=JobWebhook(url=site.url, max_retries=2, retry_delay=0.05))
        (dead,) = await post.wait_for_states(DEAD)
        assert dead.attempts == 3
        at = [each.at for each in (await post.webhooks.delivery(ALICE, dead.id)).tries]
        assert at[2] - at[1] >= 100  # twice the first delay


@pytest.mark.parametrize(
    ("behave", "said"),
    [(hanging, "did not answer within"), (resetting, "breaks off")],
    ids=["hanging", "resetting"],
)
async def test_a_receiver_without_an_answer_is_tried_again(
    tmp_path: Path, behave: Behaviour, said: str
) -> None:
    async with receiver(behave) as site, post_office(tmp_path) as post:
        await one_event(post, site.url, timeout=1.0)
        delivery = await post.tried(1)
        assert delivery.last_error is not None
        assert said in delivery.last_error
        assert (await post.webhooks.delivery(ALICE, delivery.id)).tries[0].seconds < 5


async def test_headers_that_trickle_run_into_the_time_limit(tmp_path: Path) -> None:
    async with silent_headers() as url, post_office(tmp_path) as post:
        await one_event(post, url, timeout=1.0)
        delivery = await post.tried(1)
        assert delivery.last_error is not None
        assert "did not answer within 1 s" in delivery.last_error


@pytest.mark.parametrize("behave", [endless, trickling], ids=["endless", "trickling"])
async def test_of_a_reply_only_the_beginning_is_read(tmp_path: Path, behave: Behaviour) -> None:
    async with receiver(behave) as site, post_office(tmp_path) as post:
        await one_event(post, site.url)
        (done,) = await post.wait_for_states(DELIVERED)
        (made,) = (await post.webhooks.delivery(ALICE, done.id)).tries
        assert made.reply is not None
        assert len(made.reply) <= 1024
        assert made.seconds < 10


async def test_a_bad_certificate_is_refused_unless_the_endpoint_says_otherwise(
    tmp_path: Path,
) -> None:
    tls = server_context(tmp_path)
    async with (
        receiver(healthy, scheme="https", ssl_context=tls) as site,
        post_office(tmp_path / "data") as post,
    ):
        careful = await post.endpoint(site.url, events=["execution.queued"])
        careless = await post.endpoint(site.url, events=["execution.queued"], verify_ssl=False)
        await post.job()
        await eventually(lambda: site.taken)
        (done,) = await post.deliveries(endpoint_id=careless.id)
        (refused,) = await post.deliveries(endpoint_id=careful.id)
        await post.wait_for_states(DELIVERED, endpoint_id=careless.id)
        assert done.id == site.taken[0].id
        assert len(site.calls) == 1
        while not refused.attempts:
            await asyncio.sleep(0.02)
            refused = await post.webhooks.delivery(ALICE, refused.id)
        assert refused.last_error == "Its certificate cannot be trusted."


async def test_five_failures_in_a_row_give_an_endpoint_a_rest(tmp_path: Path) -> None:
    clock = MovedClock()
    async with receiver(answering(503)) as site, post_office(tmp_path, clock) as post:
        await post.endpoint(site.url, events=["execution.queued"])
        for _ in range(12):
            await post.job()
        await eventually(lambda: len(site.calls) >= 5)
        await asyncio.sleep(0.3)
        # Those that were under way when it opened still fail; no others begin.
        resting = len(site.calls)
        assert 5 <= resting <= 8
        post.pass_time(30)
        await asyncio.sleep(0.2)
        assert len(site.calls) == resting
        site.behave = healthy
        post.pass_time(31)
        await post.wait_for_states(*[DELIVERED] * 12)
        assert sum(each.attempts for each in await post.deliveries()) == resting + 12


async def test_while_it_rests_one_probe_is_made_at_a_time(tmp_path: Path) -> None:
    clock = MovedClock()
    async with receiver(answering(503)) as site, post_office(tmp_path, clock) as post:
        await post.endpoint(site.url, events=["execution.queued"])
        for _ in range(10):
            await post.job()
        await eventually(lambda: len(site.calls) >= 5)
        await asyncio.sleep(0.2)
        for rest in (61, 121, 241):
            site.calls.clear()
            post.pass_time(rest)
            await eventually(lambda: site.calls)
            await asyncio.sleep(0.1)
            assert len(site.calls) == 1


async def test_after_two_days_down_all_is_in_the_dead_letters_and_comes_in_order_when_sent_again(
    tmp_path: Path,
) -> None:
    clock = MovedClock()
    async with receiver(answering(503)) as site, post_office(tmp_path, clock) as post:
        endpoint = await post.endpoint(site.url)
        jobs = [await post.run() for _ in range(6)]
        hours = 0
        while set(await post.states()) != {DEAD}:
            hours += 1
            assert hours < 100
            post.pass_time(3600)
            await asyncio.sleep(0.02)
        dead = await post.deliveries()
        assert (len(dead), site.taken) == (18, [])
        ages = [(each.settled_at or 0) - each.created_at for each in dead]
        assert min(ages) >= sum(ACCOUNT_DELAYS) * 1000
        assert max(each.attempts for each in dead) <= len(ACCOUNT_DELAYS) + 1
        site.behave = healthy
        assert await post.webhooks.redeliver_dead(BOB, DeliveryFilter()) == 0
        where = DeliveryFilter(endpoint_id=endpoint.id)
        assert await post.webhooks.redeliver_dead(ALICE, where) == 18
        post.pass_time(3601)
        await post.wait_for_states(*[DELIVERED] * 18)
        by_job = defaultdict(list)
        for call in site.taken:
            by_job[call.job].append(call.number)
        assert by_job == {job_id: [1, 2, 3] for job_id in jobs}
        assert {call.id for call in site.taken} == {each.id for each in dead}
        assert all(
            len({call.body for call in site.calls if call.id == each.id}) == 1 for each in dead
        )


async def test_an_endpoint_that_fails_for_five_days_is_disabled_with_a_notice(
    tmp_path: Path,
) -> None:
    clock = MovedClock()
    async with (
        receiver(answering(500)) as broken,
        receiver() as other,
        post_office(tmp_path, clock) as post,
    ):
        endpoint = await post.endpoint(broken.url, description="mine")
        await post.endpoint(other.url, events=["system.webhook_disabled"])
        began = clock.now()
        disabled = endpoint
        while disabled.is_enabled and clock.now() < began + 20 * DAY * 1000:
            await post.run()
            for _ in range(12):
                post.pass_time(7200)
                await asyncio.sleep(0.02)
            disabled = await post.webhooks.get(ALICE, endpoint.id)
        assert not disabled.is_enabled
        assert disabled.changed_at >= began + 5 * DAY * 1000
        assert disabled.disabled_reason is not None
        assert re.search(r"for \d+ days", disabled.disabled_reason)
        await eventually(lambda: other.taken)
        (notice,) = other.taken
        assert notice.json["type"] == EventType.WEBHOOK_DISABLED
        assert notice.json["data"]["webhook_id"] == endpoint.id
        await post.settled()
        assert set(await post.states(endpoint_id=endpoint.id)) == {DEAD}
        before = len(await post.deliveries(endpoint_id=endpoint.id))
        await post.run()
        assert len(await post.deliveries(endpoint_id=endpoint.id)) == before


async def test_410_disables_an_endpoint_and_what_waits_for_it_is_dead(tmp_path: Path) -> None:
    async with receiver(answering(410)) as site, post_office(tmp_path) as post:
        endpoint = await post.endpoint(site.url)
        await post.run()
        await post.wait_for_states(DEAD, DEAD, DEAD)
        assert len(site.calls) == 1
        disabled = await post.webhooks.get(ALICE, endpoint.id)
        assert (disabled.is_enabled, "410" in (disabled.disabled_reason or "")) == (False, True)
        (first, *_) = await post.deliveries()
        with pytest.raises(Conflict) as refused:
            await post.webhooks.redeliver(ALICE, first.id)
        assert refused.value.code == "WEBHOOK_DISABLED"
        assert await post.webhooks.redeliver_dead(ALICE, DeliveryFilter()) == 0
        site.behave = healthy
        await post.webhooks.update(ALICE, endpoint.id, WebhookChanges(is_enabled=True))
        assert await post.webhooks.redeliver_dead(ALICE, DeliveryFilter()) == 3
        await post.wait_for_states(*[DELIVERED] * 3)
        assert [call.number for call in site.taken] == [1, 2, 3]


async def refused_letters(post: Post, site: Receiver) -> list[str]:
    await post.endpoint(site.url)
    await post.run()
    await post.wait_for_states(*[DEAD] * 3)
    return [each.id for each in await post.deliveries()]


async def test_single_dead_letters_are_sent_again_or_deleted(tmp_path: Path) -> None:
    async with receiver(answering(422)) as site, post_office(tmp_path) as post:
        first, second, third = await refused_letters(post, site)
        site.behave = healthy
        again = await post.webhooks.redeliver(ALICE, second)
        assert again.state is PENDING
        await eventually(lambda: site.taken)
        assert [call.id for call in site.taken] == [second]
        await post.wait_for_states(DEAD, DELIVERED, DEAD)
        shown = await post.webhooks.delivery(ALICE, second)
        assert [each.status for each in shown.tries] == [422, 200]
        await post.webhooks.delete_delivery(ALICE, third)
        with pytest.raises(DeliveryNotFound):
            await post.webhooks.delivery(ALICE, third)
        with pytest.raises(DeliveryNotFound):
            await post.webhooks.redeliver(BOB, first)
        assert await post.webhooks.delete_dead(BOB, DeliveryFilter()) == 0
        assert await post.webhooks.delete_dead(ALICE, DeliveryFilter()) == 1
        assert [each.id for each in await post.deliveries()] == [second]


async def test_dead_letters_are_sent_again_by_type(tmp_path: Path) -> None:
    async with receiver(answering(422)) as site, post_office(tmp_path) as post:
        await refused_letters(post, site)
        site.behave = healthy
        where = DeliveryFilter(type="execution.started")
        assert await post.webhooks.redeliver_dead(ALICE, where) == 1
        await post.wait_for_states(DEAD, DELIVERED, DEAD)


async def test_an_endpoint_that_changes_gets_what_waits_at_its_new_address(
    tmp_path: Path,
) -> None:
    clock = MovedClock()
    async with (
        receiver(answering(503)) as old,
        receiver() as new,
        post_office(tmp_path, clock) as post,
    ):
        endpoint = await post.endpoint(old.url, events=["execution.queued"])
        for _ in range(8):
            await post.job()
        await eventually(lambda: len(old.calls) >= 5)
        await post.webhooks.update(ALICE, endpoint.id, WebhookChanges(url=new.url))
        post.pass_time(2)
        await post.wait_for_states(*[DELIVERED] * 8)
        assert len(new.taken) == 8


async def test_a_deleted_endpoint_takes_its_deliveries_along(tmp_path: Path) -> None:
    async with receiver(answering(503)) as site, post_office(tmp_path) as post:
        endpoint = await post.endpoint(site.url)
        await post.run()
        await eventually(lambda: site.calls)
        await post.webhooks.delete(ALICE, endpoint.id)
        await post.wait_for_states()
        assert await post.webhooks.list(ALICE) == []


async def test_the_log_is_kept_for_its_days_and_no_longer(tmp_path: Path) -> None:
    clock = MovedClock()
    async with receiver() as site, post_office(tmp_path, clock) as post:
        await post.endpoint(site.url)
        await post.run()
        await post.wait_for_states(*[DELIVERED] * 3)
        keeper = DeliveryLogKeeper(post.store, clock, days=30)
        clock.move(29 * DAY)
        assert await keeper.prune() == 0
        clock.move(1.1 * DAY)
        assert await keeper.prune() == 3
        assert await post.deliveries() == []


async def test_an_address_that_is_private_when_it_is_called_is_not_called(tmp_path: Path) -> None:
    async with receiver() as site:
        async with post_office(tmp_path) as post:
            await post.endpoint(site.url, events=["execution.queued"])
        # The network was allowed when the endpoint was made, and is no longer.
        async with post_office(tmp_path, networks=()) as post:
            await post.job()
            delivery = await post.tried(1)
            assert delivery.last_error is not None
            assert "COMFYRAIL_WEBHOOK_NETWORKS" in delivery.last_error
            assert site.calls == []


class SetClock(MovedClock):
    """One whose wall time somebody sets."""

    shift = 0

    def now(self) -> Instant:
        return Instant(super().now() + self.shift)


async def test_setting_the_clock_back_does_not_put_off_what_waits(tmp_path: Path) -> None:
    clock = SetClock()
    async with receiver(answering(503)) as site, post_office(tmp_path, clock) as post:
        await one_event(post, site.url)
        await post.tried(1)
        clock.shift = -round(DAY * 1000)
        post.look()
        await post.tried(2)


async def test_setting_the_clock_on_gives_nothing_up_and_disables_nobody(tmp_path: Path) -> None:
    clock = SetClock()
    async with receiver(answering(503)) as site, post_office(tmp_path, clock) as post:
        endpoint = await post.endpoint(site.url)
        for _ in range(3):
            await post.run()
        await post.webhooks.rotate(ALICE, endpoint.id, overlap_seconds=DAY)
        await eventually(lambda: len(site.calls) >= 3)
        clock.shift = round(6 * DAY * 1000)
        post.look()
        for _ in range(3):
            await eventually(lambda: not post.courier._tasks)
            calls = len(site.calls)
            post.pass_time(3700)
            await eventually(lambda calls=calls: len(site.calls) > calls)  # type: ignore[misc]
        assert set(await post.states()) == {PENDING}
        after = await post.webhooks.get(ALICE, endpoint.id)
        assert after.is_enabled
        assert after.previous_until is not None
        assert after.previous_until > clock.now()


async def test_a_webhook_that_is_seldom_told_is_not_disabled_by_one_failure_days_later(
    tmp_path: Path,
) -> None:
    clock = MovedClock()
    async with receiver(answering(422)) as site, post_office(tmp_path, clock) as post:
        endpoint = await post.endpoint(site.url, events=["execution.queued"])
        await post.job()
        await post.wait_for_states(DEAD)
        post.pass_time(6 * DAY)
        site.behave = answering(503)
        await post.job()
        await eventually(lambda: len(site.calls) == 2)
        site.behave = healthy
        post.pass_time(5)
        await post.wait_for_states(DEAD, DELIVERED)
        assert (await post.webhooks.get(ALICE, endpoint.id)).is_enabled


async def test_410_of_a_jobs_own_webhook_ends_all_calls_for_that_job(tmp_path: Path) -> None:
    async with receiver(answering(410)) as site, post_office(tmp_path) as post:
        events = [EventType.QUEUED, EventType.STARTED, EventType.COMPLETED]
        webhook = JobWebhook(url=site.url, events=events)
        job_id = await post.job(webhook=webhook)
        await post.wait_for_states(DEAD)
        attempt = await post.start(job_id)
        await post.store.finish_attempt(attempt.token, Completed(()))
        assert await post.states() == [DEAD]
        assert len(site.calls) == 1
        (dead,) = await post.deliveries()
        with pytest.raises(Conflict) as refused:
            await post.webhooks.redeliver(ALICE, dead.id)
        assert refused.value.code == "WEBHOOK_DISABLED"


async def test_a_message_that_cannot_be_made_is_a_failed_try_and_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def break_once(message_id: str, *rest: Any) -> dict[str, Any]:
        made.append(message_id)
        if message_id == made[0]:
            raise KeyError("a bug")
        return message_about(message_id, *rest)

    monkeypatch.setattr(courier_module, "message_about", break_once)
    async with receiver() as site, post_office(tmp_path) as post:
        await post.endpoint(site.url, events=["execution.queued"])
        for _ in range(2):
            await post.job()
        await eventually(lambda: site.taken)
        broken, done = await post.deliveries()
        assert (broken.state, broken.last_error) == (PENDING, "The message could not be made.")
        assert done.id == site.taken[0].id
        assert made.count(broken.id) <= 2


async def test_what_is_not_due_is_not_looked_at(tmp_path: Path) -> None:
    async with post_office(tmp_path, is_at_work=False) as post:
        for _ in range(3):
            await post.endpoint("http://127.0.0.1:9/", events=["execution.queued"])
        await post.job()
        first, second, third = await post.deliveries()
        due = await post.store.due_now(10)
        assert due is not None
        assert set(due.addresses) == {first.endpoint_id, second.endpoint_id, third.endpoint_id}
        later = Instant(post.clock.now() + 60_000)
        for each in (second, third):
            (waiting,) = await post.store.due_deliveries(each.endpoint_id or "", 1, 1)
            await post.store.postpone_delivery(waiting, later, "a test")
        due = await post.store.due_now(10)
        assert due is not None
        assert (due.addresses, due.next_at) == ([first.endpoint_id], later)
        assert await post.store.due_now(0) is None
