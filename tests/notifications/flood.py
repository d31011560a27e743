"""Many events to many endpoints of which some fail, and a real server that is killed on the way.

The harness of acceptance: a few for `make test`, all of them for `make bench BENCH=webhooks`.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from comfyrail.access.principal import LOCAL_USER
from comfyrail.store.notifications import DeliveryFilter, DeliveryState, Endpoint
from tests.graphs import picture
from tests.notifications.parts import MovedClock, post_office
from tests.processes import Comfyrail, server
from tests.services.webhook_receiver import (
    Receiver,
    answering,
    hanging,
    healthy,
    receiver,
    resetting,
    stumbling,
)

EVENTS_A_JOB = 2
"""Queued and cancelled: there is no worker."""
HEALTHY = 15
AT_ONCE = 16
DAYS_LATER = 3 * 86_400.0
ENVIRONMENT = {"COMFYRAIL_WEBHOOK_NETWORKS": "127.0.0.0/8", "COMFYRAIL_QUEUE_TIMEOUT": "0"}


@dataclass(frozen=True, slots=True)
class Told:
    """An endpoint, the receiver behind it, and what is to come of it."""

    name: str
    site: Receiver
    endpoint: Endpoint


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one endpoint."""

    name: str
    calls: int
    messages: int
    """That were taken, each counted once."""
    repeated: int
    """Messages that were taken more than once."""
    is_ordered: bool
    dead: int
    pending: int


@dataclass(frozen=True, slots=True)
class Outcome:
    rows: Sequence[Row]
    events: int
    seconds: float
    """From the first submission until those that work had everything."""

    def of(self, name: str) -> list[Row]:
        return [row for row in self.rows if row.name == name]


async def flood(folder: Path, jobs: int, *, limit: float = 100.0) -> Outcome:
    """Submit and cancel so many jobs, kill the server half-way, and wait for the rest."""
    data = folder / "data"
    with server(data, workers=1) as process:  # so that node types are known later
        await asyncio.to_thread(process.wait_ready)
    async with AsyncExitStack() as stack:
        told = [
            *[await _open(stack, data, "healthy", healthy) for _ in range(HEALTHY)],
            await _open(stack, data, "flaky", stumbling()),
            await _open(stack, data, "refusing", answering(404)),
            await _open(stack, data, "gone", answering(410)),
            await _open(stack, data, "hanging", hanging, timeout=1.0),
            await _open(stack, data, "resetting", resetting),
        ]
        process = server(data, workers=0, **ENVIRONMENT)
        process.start()
        began = time.monotonic()
        try:
            await _submit(process, jobs // 2)
            process.kill()
            process = server(data, workers=0, **ENVIRONMENT)
            process.start()
            await _submit(process, jobs - jobs // 2)
            await _see_that_all_are_told(process)
            events = jobs * EVENTS_A_JOB
            await _wait_for_those_that_work(told, events, limit)
            seconds = time.monotonic() - began
        finally:
            await asyncio.to_thread(process.stop)
        rows = await _look(data, told)
        return Outcome(rows, events, seconds)


async def _open(stack: AsyncExitStack, data: Path, name: str, behave: Any, **settings: Any) -> Told:
    site = await stack.enter_async_context(receiver(behave))
    async with post_office(data, is_at_work=False) as post:
        events = ["execution.queued", "execution.cancelled"]
        endpoint = await post.endpoint(site.url, LOCAL_USER, events=events, **settings)
    return Told(name, site, endpoint)


async def _submit(process: Comfyrail, count: int) -> None:
    left = iter(range(count))

    async def one_after_another(session: aiohttp.ClientSession) -> None:
        for _ in left:
            body = {"workflow": picture()}
            async with session.post(f"{process.url}/v1/workflows/execute", json=body) as reply:
                assert reply.status == 202, await reply.text()
                job_id = (await reply.json())["execution_id"]
            path = f"{process.url}/v1/workflows/execution/{job_id}/cancel"
            async with session.post(path) as reply:
                assert reply.status == 200, await reply.text()

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(one_after_another(session) for _ in range(AT_ONCE)))


async def _see_that_all_are_told(process: Comfyrail) -> None:
    """What was not written down for an endpoint never comes: nobody need wait for it."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{process.url}/v1/webhooks") as reply,
    ):
        dropped = [each["dropped"] for each in (await reply.json())["webhooks"]]
    assert not any(dropped), dropped


async def _wait_for_those_that_work(told: Sequence[Told], events: int, limit: float) -> None:
    deadline = time.monotonic() + limit
    left = [each for each in told if each.name in {"healthy", "flaky"}]
    while left := [each for each in left if not _has_all(each, events)]:
        counts = [(each.name, len(each.site.taken)) for each in left]
        assert time.monotonic() < deadline, counts
        await asyncio.sleep(0.1)


def _has_all(each: Told, events: int) -> bool:
    """Ids are counted at the end only: the receivers share this process."""
    taken = each.site.taken
    return len(taken) >= events and len({call.id for call in taken}) >= events


async def _look(data: Path, told: Sequence[Told]) -> list[Row]:
    """Three days later: what could not be delivered by then is in the dead letters."""
    clock = MovedClock()
    clock.move(DAYS_LATER)
    async with post_office(data, clock) as post:
        deadline = time.monotonic() + 60
        while await post.deliveries(LOCAL_USER, limit=1, state=DeliveryState.PENDING):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        return [await _row(post.webhooks, each) for each in told]


async def _row(webhooks: Any, each: Told) -> Row:
    states: Counter[DeliveryState] = Counter()
    cursor = None
    while True:
        where = DeliveryFilter(endpoint_id=each.endpoint.id)
        page = await webhooks.deliveries(LOCAL_USER, where, cursor, 2000)
        states.update(delivery.state for delivery in page.deliveries)
        cursor = page.next_cursor
        if cursor is None:
            break
    taken = Counter(call.id for call in each.site.taken)
    by_job: defaultdict[str, list[int]] = defaultdict(list)
    seen = set()
    for call in each.site.taken:
        if call.id not in seen:
            seen.add(call.id)
            by_job[call.job].append(call.number)
    return Row(
        each.name,
        len(each.site.calls),
        len(taken),
        sum(1 for count in taken.values() if count > 1),
        all(numbers == sorted(numbers) for numbers in by_job.values()),
        states[DeliveryState.DEAD],
        states[DeliveryState.PENDING],
    )
