"""The parts of a server that tell others, on a real store, without HTTP and without workers."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from comfyrail.access.principal import Principal
from comfyrail.clock import Clock, Instant, SystemClock
from comfyrail.ids import JobId, OutputId, TenantId, WorkerId, new_attempt_token, new_job_id
from comfyrail.jobs.events import EventType, NewEvent
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import Attempt, NewJob, NewOutput
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.outcome import Completed, Failed
from comfyrail.jobs.priority import standing_of
from comfyrail.network.addresses import Network
from comfyrail.network.outgoing import OutgoingHttp
from comfyrail.notifications.channels import Channel
from comfyrail.notifications.courier import Courier
from comfyrail.notifications.dispatcher import Dispatcher, Senders
from comfyrail.notifications.endpoints import EndpointRules
from comfyrail.notifications.senders.email import EmailSender, SmtpServer
from comfyrail.notifications.senders.sms import SmsGateway, SmsSender
from comfyrail.notifications.senders.uploads import UploadSender
from comfyrail.notifications.senders.web import WebhookSender
from comfyrail.results.disk_blobs import DiskBlobStore
from comfyrail.store.interface import Assignment
from comfyrail.store.notifications import (
    Delivery,
    DeliveryFilter,
    DeliveryState,
    Endpoint,
    EndpointSettings,
)
from comfyrail.store.signals import DELIVERIES
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from comfyrail.usecases.webhooks import NewWebhook, Webhooks

ALICE = Principal(TenantId("alice"), user_id="alice")
BOB = Principal(TenantId("bob"), user_id="bob")
LOOPBACK: Sequence[Network] = (ip_network("127.0.0.0/8"),)

Value = TypeVar("Value")


class MovedClock(SystemClock):
    """The system's clock, and as much later as a test says. Time passes for all at once."""

    def __init__(self) -> None:
        self._later = 0.0

    def now(self) -> Instant:
        return Instant(super().now() + round(self._later * 1000))

    def monotonic(self) -> float:
        return super().monotonic() + self._later

    def move(self, seconds: float) -> None:
        self._later += seconds


async def eventually(look: Callable[[], Value], limit: float = 20.0) -> Value:
    """The first true value that `look` gives; fails when there is none in time."""
    deadline = time.monotonic() + limit
    while not (value := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"nothing true came within {limit} s; last: {value!r}")
        await asyncio.sleep(0.01)
    return value


@dataclass
class Post:
    """A store with a courier at work."""

    store: SqliteStore
    blobs: DiskBlobStore
    webhooks: Webhooks
    courier: Courier
    clock: Clock

    async def endpoint(self, url: str, who: Principal = ALICE, **settings: Any) -> Endpoint:
        wanted = NewWebhook(url, EndpointSettings(**settings))
        return (await self.webhooks.create(who, wanted)).endpoint

    async def job(self, who: Principal = ALICE, **fields: Any) -> JobId:
        """A job that is queued."""
        job = new_job(self.clock, who.tenant, **fields)
        await self.store.add_job(job)
        return job.id

    async def start(self, job_id: JobId) -> Attempt:
        assignment = Assignment(job_id, WorkerId("w"), new_attempt_token())
        (attempt,) = await self.store.start_attempts([assignment], "me", 900)
        return attempt

    async def run(
        self,
        who: Principal = ALICE,
        outputs: Sequence[NewOutput] = (),
        events: Sequence[NewEvent] = (),
        **fields: Any,
    ) -> JobId:
        """A job from its start to its end."""
        job_id = await self.job(who, **fields)
        attempt = await self.start(job_id)
        await self.store.finish_attempt(attempt.token, Completed(tuple(outputs)), events)
        return job_id

    async def fail(self, who: Principal = ALICE, **fields: Any) -> JobId:
        job_id = await self.job(who, **fields)
        attempt = await self.start(job_id)
        fault = Fault("execution", "NODE_FAILED", "The node broke.\r\nBcc: all@example.com")
        await self.store.finish_attempt(attempt.token, Failed(fault))
        return job_id

    async def output(self, content: bytes, name: str = "a.png", node: str = "3") -> NewOutput:
        async def chunks() -> AsyncIterator[bytes]:
            yield content

        blob = await self.blobs.save(chunks())
        return NewOutput(
            OutputId(f"out-{name}"),
            node,
            "images",
            name,
            "",
            False,
            "image/png",
            blob.size,
            blob.sha256,
            blob.key,
            blob.blake3,
        )

    async def deliveries(
        self, who: Principal = ALICE, limit: int = 5000, **where: Any
    ) -> Sequence[Delivery]:
        """Oldest first."""
        page = await self.webhooks.deliveries(who, DeliveryFilter(**where), None, limit)
        return list(reversed(page.deliveries))

    async def states(self, who: Principal = ALICE, **where: Any) -> list[DeliveryState]:
        return [each.state for each in await self.deliveries(who, **where)]

    async def wait_for_states(
        self, *wanted: DeliveryState, limit: float = 20.0, **where: Any
    ) -> Sequence[Delivery]:
        """All deliveries, once they are in these states, in order."""
        deadline = time.monotonic() + limit
        while True:
            found = await self.deliveries(**where)
            if [each.state for each in found] == list(wanted):
                return found
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.02)

    async def tried(self, attempts: int, limit: float = 20.0) -> Delivery:
        """The only delivery, once it has been tried so often."""
        deadline = time.monotonic() + limit
        while True:
            (found,) = await self.deliveries()
            if found.attempts >= attempts:
                return found
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.01)

    async def settled(self, limit: float = 20.0) -> Sequence[Delivery]:
        """All deliveries, once none is pending."""
        deadline = time.monotonic() + limit
        while await self.states(state=DeliveryState.PENDING):
            assert time.monotonic() < deadline, await self.deliveries()
            await asyncio.sleep(0.02)
        return await self.deliveries()

    def pass_time(self, seconds: float) -> None:
        """Only where the clock is one that can be moved."""
        assert isinstance(self.clock, MovedClock)
        self.clock.move(seconds)
        self.look()

    def look(self) -> None:
        self.store.signals.notify(DELIVERIES)


def new_job(clock: Clock, tenant: TenantId, **fields: Any) -> NewJob:
    job = NewJob(
        id=new_job_id(),
        tenant=tenant,
        prompt=b'{"1": {"class_type": "A", "inputs": {}}}',
        node_count=1,
        needs=JobNeeds(frozenset({"A"})),
        priority=5,
        standing=standing_of(5),
        timeout_seconds=10,
        expected_seconds=30,
        submitted_at=clock.now(),
    )
    return replace(job, **fields)


@asynccontextmanager
async def post_office(
    folder: Path,
    clock: Clock | None = None,
    *,
    smtp: SmtpServer | None = None,
    sms: SmsGateway | None = None,
    is_at_work: bool = True,
    networks: Sequence[Network] = LOOPBACK,
    sms_per_hour: int = 20,
) -> AsyncIterator[Post]:
    """Delays have no jitter here: each is as long as the schedule says."""
    clock = clock or SystemClock()
    store = await open_sqlite_store(folder, clock)
    outgoing = OutgoingHttp(exceptions=networks, most_connections=0)
    http = aiohttp.ClientSession()
    email = EmailSender(smtp) if smtp else None
    blobs = DiskBlobStore(folder / "blobs")
    senders = Senders(
        WebhookSender(outgoing, clock),
        UploadSender(outgoing, blobs, clock),
        email,
        SmsSender(sms, http, clock) if sms else None,
    )
    dispatcher = Dispatcher(store, senders, clock, sms_per_hour=sms_per_hour)
    courier = Courier(store, dispatcher, clock, chance=lambda: 0.5, grace_seconds=0.1)
    rules = EndpointRules(networks, frozenset(Channel))
    webhooks = Webhooks(store, rules, dispatcher, courier, clock)
    task = asyncio.create_task(courier.run()) if is_at_work else None
    try:
        yield Post(store, blobs, webhooks, courier, clock)
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        senders.close()
        await outgoing.close()
        await http.close()
        await store.close()


def progress(fraction: float) -> NewEvent:
    return NewEvent(EventType.PROGRESS, {"progress": fraction})
