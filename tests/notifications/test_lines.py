"""Messages of one job to one endpoint go one after the other, whatever is done to them [9.3]."""

import asyncio
from pathlib import Path
from typing import Any

from aiohttp import web

from comfyrail.store.notifications import DeliveryFilter, DeliveryState
from comfyrail.store.sqlite.endpoint_operations import _Ending
from comfyrail.usecases.webhooks import WebhookChanges
from tests.notifications.parts import ALICE, Post, eventually, post_office, progress
from tests.services.webhook_receiver import Call, Receiver, receiver

PENDING, DEAD, DELIVERED = DeliveryState.PENDING, DeliveryState.DEAD, DeliveryState.DELIVERED


async def changes(post: Post) -> int:
    """Rows that were written since the store was opened."""
    return await post.store._writer.write(lambda tx: tx._connection.total_changes)


async def disable(post: Post, endpoint_id: str) -> None:
    await post.store._writer.write(
        lambda tx: tx.run("disable_endpoint", endpoint_id=endpoint_id, reason="a test", now=tx.now)
    )


async def test_redelivering_a_line_costs_as_much_as_it_is_long_and_only_its_first_is_due(
    tmp_path: Path,
) -> None:
    length = 800
    async with post_office(tmp_path, is_at_work=False) as post:
        endpoint = await post.endpoint("http://127.0.0.1:9/", events=["execution.progress"])
        await post.run(events=[progress(number / length) for number in range(length)])
        await disable(post, endpoint.id)
        ending = _Ending(endpoint.id, "a test")
        while await post.store._writer.write(ending.step):
            pass
        assert set(await post.states()) == {DEAD}
        await post.webhooks.update(ALICE, endpoint.id, WebhookChanges(is_enabled=True))
        before = await changes(post)
        assert await post.webhooks.redeliver_dead(ALICE, DeliveryFilter()) == length
        assert await changes(post) - before < 5 * length
        found = await post.deliveries()
        assert {each.state for each in found} == {PENDING}
        assert [each.number for each in found if each.next_at is not None] == [found[0].number]


async def test_an_endpoint_that_is_enabled_while_its_lines_are_ended_gets_the_rest_of_them(
    tmp_path: Path,
) -> None:
    async with receiver() as site, post_office(tmp_path, is_at_work=False) as post:
        endpoint = await post.endpoint(site.url, events=["execution.progress"])
        for _ in range(2):
            await post.run(events=[progress(number / 400) for number in range(400)])
        await disable(post, endpoint.id)
        ending = _Ending(endpoint.id, "a test")
        await post.store._writer.write(ending.step)  # one line, and a part of the other
        await post.webhooks.update(ALICE, endpoint.id, WebhookChanges(is_enabled=True))
        while await post.store._writer.write(ending.step):
            pass
        found = await post.deliveries(state=PENDING)
        assert len(found) == 300
        assert [each.number for each in found if each.next_at is not None] == [found[0].number]


async def test_a_line_of_which_nothing_is_due_goes_on_when_the_server_begins(
    tmp_path: Path,
) -> None:
    async with receiver() as site:
        async with post_office(tmp_path, is_at_work=False) as post:
            await post.endpoint(site.url)
            await post.run()
            first, *_ = await post.deliveries()
            await post.store._writer.write(
                lambda tx: tx.run("delete_delivery", sequence=first.sequence)
            )
            assert [each.next_at for each in await post.deliveries()] == [None, None]
        async with post_office(tmp_path) as post:
            await post.wait_for_states(DELIVERED, DELIVERED)


async def test_what_is_left_of_a_deleted_endpoint_goes_when_the_server_begins(
    tmp_path: Path,
) -> None:
    async with post_office(tmp_path, is_at_work=False) as post:
        endpoint = await post.endpoint("http://127.0.0.1:9/")
        await post.run()
        await post.webhooks.update(ALICE, endpoint.id, WebhookChanges(is_enabled=False))
        await post.wait_for_states(DEAD, DEAD, DEAD)
        # As a crash between the two steps would leave it.
        await post.store._writer.write(
            lambda tx: tx.one("delete_endpoint", tenant=ALICE.tenant, endpoint_id=endpoint.id)
        )
    async with post_office(tmp_path, is_at_work=False) as post:
        await post.wait_for_states()


async def test_one_that_is_sent_again_goes_before_a_later_one_that_has_to_be_tried_again(
    tmp_path: Path,
) -> None:
    gate = asyncio.Event()
    seen: list[Any] = []

    async def behave(site: Receiver, _: web.Request, call: Call) -> web.StreamResponse:
        times = sum(each.id == call.id for each in site.calls)
        seen.append((call.json["type"].partition(".")[2], times))
        if seen[-1] == ("queued", 1):
            return web.Response(status=422)
        if seen[-1] == ("started", 1):
            await gate.wait()
            return web.Response(status=503)
        return web.Response(status=503 if seen[-1] == ("queued", 2) else 200)

    async with receiver(behave) as site, post_office(tmp_path) as post:
        await post.endpoint(site.url)
        await post.run()
        await eventually(lambda: ("started", 1) in seen)
        first, *_ = await post.deliveries()
        await post.webhooks.redeliver(ALICE, first.id)
        gate.set()
        await post.wait_for_states(DELIVERED, DELIVERED, DELIVERED)
        assert seen[2:] == [("queued", 2), ("queued", 3), ("started", 2), ("completed", 1)]
