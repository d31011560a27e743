"""Nobody takes what is there for all: places, memory, the database, other people's telephones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from comfyrail.access.principal import Principal
from comfyrail.errors import TooManyRequests
from comfyrail.ids import TenantId
from comfyrail.jobs.batches import MOST_JOBS
from comfyrail.jobs.events import EventType
from comfyrail.network.outgoing import OutgoingHttp
from comfyrail.notifications import courier as courier_module
from comfyrail.notifications.allowances import HourlyAllowance
from comfyrail.notifications.log_keeper import DeliveryLogKeeper
from comfyrail.notifications.senders.sms import SmsGateway
from comfyrail.notifications.senders.uploads import watched
from comfyrail.notifications.slots import Slots
from comfyrail.store.notifications import DeliveryState
from comfyrail.store.sqlite import outbox
from comfyrail.usecases import webhooks as usecase
from tests.notifications.parts import (
    ALICE,
    BOB,
    LOOPBACK,
    MovedClock,
    Post,
    eventually,
    post_office,
    progress,
)
from tests.services.webhook_receiver import answering, hanging, healthy, receiver

PENDING, DEAD, DELIVERED = DeliveryState.PENDING, DeliveryState.DEAD, DeliveryState.DELIVERED
ONE, TWO, THREE = TenantId("one"), TenantId("two"), TenantId("three")


def test_the_last_places_are_for_those_who_have_none() -> None:
    slots = Slots(most=10, of_one_tenant=6, kept_free=3)
    for tenant in (ONE, TWO):
        while slots.may_take(tenant):
            slots.take(tenant)
    assert slots.taken == 7
    assert slots.may_take(THREE)
    slots.take(THREE)
    assert not slots.may_take(THREE)
    slots.give_back(ONE)
    slots.give_back(ONE)
    assert slots.may_take(TWO)


async def test_slow_receivers_of_two_tenants_hold_up_no_third(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        slow = await stack.enter_async_context(receiver(hanging))
        quick = await stack.enter_async_context(receiver())
        post = await stack.enter_async_context(post_office(tmp_path))
        for tenant in (ONE, TWO):
            who = Principal(tenant, user_id=tenant)
            for _ in range(4):
                await post.endpoint(slow.url, who, events=["execution.queued"], timeout=300)
            for _ in range(10):
                await post.job(who)
        await eventually(lambda: len(slow.calls) >= 48)
        await post.endpoint(quick.url, BOB, events=["execution.queued"])
        await post.job(BOB)
        await eventually(lambda: quick.taken)
        assert len(slow.calls) == 48


async def test_tests_are_few_at_once_and_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usecase, "LONGEST_TEST_SECONDS", 2.0)
    async with receiver(hanging) as site, post_office(tmp_path) as post:
        endpoint = await post.endpoint(site.url, timeout=300)
        tests = [asyncio.create_task(post.webhooks.test(ALICE, endpoint.id)) for _ in range(4)]
        await eventually(lambda: len(site.calls) == 4)
        with pytest.raises(TooManyRequests):
            await post.webhooks.test(ALICE, endpoint.id)
        tests[0].cancel()
        await asyncio.gather(tests[0], return_exceptions=True)
        results = await asyncio.gather(post.webhooks.test(ALICE, endpoint.id), *tests[1:])
        assert {each.made.error for each in results} == {"It did not answer within 2 s."}


async def test_connections_that_hang_leave_room_for_others_where_callers_limit_themselves() -> None:
    async with (
        receiver(hanging) as slow,
        receiver(healthy) as quick,
        OutgoingHttp(exceptions=LOOPBACK, most_connections=0) as http,
    ):
        asking = [asyncio.create_task(http.request("POST", slow.url)) for _ in range(101)]
        await eventually(lambda: len(slow.calls) == 101)
        assert (await http.request("POST", quick.url)).status == 200
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def test_a_file_may_take_long_as_long_as_somebody_takes_it() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(8):
            yield b"x"

    async with watched(chunks(), 0.5) as slowly:
        async for _ in slowly:
            await asyncio.sleep(0.1)

    async def stall() -> None:
        async with watched(chunks(), 0.1) as stalled:
            async for _ in stalled:
                await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        await stall()


def test_an_hourly_allowance_comes_back_bit_by_bit() -> None:
    clock = MovedClock()
    allowance = HourlyAllowance(10, clock)
    assert [allowance.take(ONE) for _ in range(10)] == [0.0] * 10
    assert allowance.take(ONE) == pytest.approx(360, abs=5)
    assert allowance.take(TWO, 25) == 0.0
    clock.move(365)
    assert allowance.take(ONE) == 0.0
    assert allowance.take(ONE) > 0


async def rests(post: Post) -> None:
    """Returns when the courier has found that nothing more may be sent for now."""
    await eventually(
        lambda: all(
            route.seconds_to_rest and not route.in_hand and not route.is_loading
            for route in post.courier._routes.values()
        )
    )


async def test_text_messages_beyond_those_of_the_hour_are_sent_later_and_are_no_failures(
    tmp_path: Path,
) -> None:
    clock = MovedClock()
    async with receiver() as gateway:
        sms = SmsGateway(gateway.url)
        async with post_office(tmp_path, clock, sms=sms, sms_per_hour=2) as post:
            endpoint = await post.endpoint("sms:+4915112345678", events=["execution.queued"])
            await post.webhooks.test(ALICE, endpoint.id)
            for _ in range(3):
                await post.job()
            await eventually(lambda: len(gateway.taken) == 2)
            with pytest.raises(TooManyRequests):
                await post.webhooks.test(ALICE, endpoint.id)
            for sent in (3, 4):
                await rests(post)
                post.pass_time(1805)
                await eventually(lambda sent=sent: len(gateway.taken) == sent)  # type: ignore[misc]
            found = await post.wait_for_states(*[DELIVERED] * 4)
            assert [each.attempts for each in found] == [1] * 4
            assert (await post.webhooks.get(ALICE, endpoint.id)).failing_since is None


async def test_beyond_what_may_wait_events_are_counted_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MOST_PENDING", 5)
    async with post_office(tmp_path, is_at_work=False) as post:
        endpoint = await post.endpoint("http://127.0.0.1:9/", events=["*"])
        other = await post.endpoint("http://127.0.0.1:9/", BOB, events=["execution.queued"])
        job_id = await post.run(events=[progress(number / 10) for number in range(7)])
        assert len(await post.deliveries()) == 5
        assert (await post.webhooks.get(ALICE, endpoint.id)).dropped == 5
        await post.job(BOB)
        assert len(await post.deliveries(BOB)) == 1
        assert (await post.webhooks.get(BOB, other.id)).dropped == 0
        await post.store._writer.write(
            lambda tx: tx._connection.execute("DELETE FROM jobs WHERE id = ?", (job_id,)).rowcount
        )
        await post.job()
        assert len(await post.deliveries()) == 1


async def test_one_that_has_failed_for_long_uses_up_nothing_that_is_there_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MOST_PENDING_BESIDE_DEAD", 3)
    async with AsyncExitStack() as stack:
        broken = await stack.enter_async_context(receiver(answering(503)))
        works = await stack.enter_async_context(receiver())
        post = await stack.enter_async_context(post_office(tmp_path, MovedClock()))
        dead = await post.endpoint(broken.url, events=["execution.queued"])
        for _ in range(3):
            await post.job()
        await eventually(lambda: broken.calls)
        await rests(post)
        await post.job()  # it may have stumbled only
        assert (await post.webhooks.get(ALICE, dead.id)).dropped == 0
        post.pass_time(3601)
        fine = await post.endpoint(works.url, events=["execution.queued"])
        for _ in range(5):
            await post.job()
        await eventually(lambda: len(works.taken) == 5)
        assert (await post.webhooks.get(ALICE, dead.id)).dropped == 5
        assert (await post.webhooks.get(ALICE, fine.id)).dropped == 0
        assert len(await post.deliveries(endpoint_id=dead.id)) == 4


async def test_who_works_is_told_while_ten_thousand_events_wait_for_twenty_webhooks(
    tmp_path: Path,
) -> None:
    async with post_office(tmp_path, is_at_work=False) as post:
        endpoint = await post.endpoint("http://127.0.0.1:9/", events=["execution.queued"])
        await post.job()
        waiting = "UPDATE pending_deliveries SET pending = ?"
        await post.store._writer.write(
            lambda tx: tx._connection.execute(waiting, (10_000 * 20,)).rowcount
        )
        await post.job()
        assert await post.states() == [PENDING] * 2
        assert (await post.webhooks.get(ALICE, endpoint.id)).dropped == 0


def test_a_whole_batch_can_wait_for_as_many_webhooks_as_there_may_be() -> None:
    queued_and_ended = 2
    assert usecase.MOST_ENDPOINTS * MOST_JOBS * queued_and_ended <= outbox.MOST_PENDING


async def test_what_is_ready_to_go_takes_a_bounded_amount_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier_module, "MOST_PREPARED_BYTES", 100_000)
    monkeypatch.setattr(courier_module, "PAGE_BYTES", 20_000)
    async with receiver(hanging) as site, post_office(tmp_path) as post:
        for _ in range(5):
            await post.endpoint(
                site.url, events=["execution.queued"], template="x" * 10_000, timeout=60
            )
        for _ in range(10):
            await post.job()
        await eventually(lambda: len(site.calls) >= 10)
        await asyncio.sleep(0.3)
        held = sum(sum(each.in_hand.values()) for each in post.courier._routes.values())
        assert 100_000 <= held <= 100_000 + 5 * 20_000


async def test_a_body_that_grows_too_large_is_a_dead_letter_and_a_plain_one_leaves_outputs_out(
    tmp_path: Path,
) -> None:
    async with receiver() as site, post_office(tmp_path) as post:
        wanted = [str(EventType.COMPLETED)]
        large = await post.endpoint(site.url, events=wanted, template="{{ outputs }}" * 50)
        plain = await post.endpoint(site.url, events=wanted)
        outputs = [await post.output(b"x", f"{number:0200}.png") for number in range(500)]
        await post.run(outputs=outputs)
        (dead,) = await post.wait_for_states(DEAD, endpoint_id=large.id)
        assert dead.last_error is not None
        assert "262,144 bytes" in dead.last_error
        await post.wait_for_states(DELIVERED, endpoint_id=plain.id)
        (call,) = site.taken
        assert (call.json["outputs"], call.json["outputs_omitted"]) == ([], 500)


async def test_bodies_of_what_was_delivered_are_kept_for_a_day_and_of_dead_letters_longer(
    tmp_path: Path,
) -> None:
    clock = MovedClock()
    async with receiver() as site, post_office(tmp_path, clock) as post:
        await post.endpoint(site.url, events=["execution.queued"])
        await post.job()
        await post.wait_for_states(DELIVERED)
        site.behave = answering(422)
        await post.job()
        delivered, dead = await post.wait_for_states(DELIVERED, DEAD)
        clock.move(86_500)
        assert await DeliveryLogKeeper(post.store, clock, days=30).prune() == 0
        await post.store._writer.chores.do_all()
        assert (await post.webhooks.delivery(ALICE, delivered.id)).body is None
        assert (await post.webhooks.delivery(ALICE, dead.id)).body is not None
        site.behave = healthy
        await post.webhooks.redeliver(ALICE, delivered.id)
        await eventually(lambda: len(site.taken) == 2)
        assert site.taken[0].body == site.taken[1].body
