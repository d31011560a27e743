"""Readers of event streams that come back after every fault and ask for what they missed."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import cycle

import aiohttp

from comfyrail.client import ComfyrailClient, RequestFailed, ServerUnreachable, UnexpectedReply
from comfyrail.client.event_stream import read_events
from comfyrail.faultlab.ledger import Entry

FOLLOWERS = 6
FINAL_EVENTS = {"execution.completed", "execution.failed", "execution.cancelled"}
SILENCE_LIMIT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=30)
PAUSE_SECONDS = 0.2

Numbered = tuple[int, str]
"""An event's number and type."""
Channel = Callable[[str, str, int], AsyncGenerator[Numbered, None]]
"""Events of a job at a server after a number, until the line breaks or the job has ended."""


@dataclass(slots=True)
class Reading:
    """What one follower has read of one job."""

    job_id: str
    channel: str
    last: int = 0
    is_ended: bool = False
    faults: list[str] = field(default_factory=list)

    def take(self, number: int, kind: str) -> None:
        if self.is_ended:
            self._complain(f"event {number} came after the final one")
        elif number != self.last + 1:
            self._complain(f"event {number} came after {self.last}")
        self.last = max(self.last, number)
        self.is_ended = self.is_ended or kind in FINAL_EVENTS

    def _complain(self, what: str) -> None:
        self.faults.append(f"{self.job_id} over {self.channel}: {what}")


class Followers:
    """A handful of readers at once; each takes the next job that is to be followed."""

    def __init__(self, server: str) -> None:
        self.readings: list[Reading] = []
        self._server = server
        self._channels = cycle(CHANNELS)

    async def follow(self, accepted: "asyncio.Queue[Entry]") -> None:
        """Until cancelled; a job that comes while all are busy waits until one is free."""
        free = asyncio.Semaphore(FOLLOWERS)
        async with asyncio.TaskGroup() as group:
            while True:
                entry = await accepted.get()
                if entry.job.is_followed:
                    await free.acquire()
                    reading = self._begin(entry.job_id)
                    task = group.create_task(self._read(reading), name=f"follow-{entry.job_id}")
                    task.add_done_callback(lambda _: free.release())

    @property
    def unfinished(self) -> Sequence[Reading]:
        return [reading for reading in self.readings if not reading.is_ended]

    def _begin(self, job_id: str) -> Reading:
        reading = Reading(job_id, next(self._channels))
        self.readings.append(reading)
        return reading

    async def _read(self, reading: Reading) -> None:
        channel = CHANNELS[reading.channel]
        while not reading.is_ended:
            try:
                async with aclosing(channel(self._server, reading.job_id, reading.last)) as events:
                    async for number, kind in events:
                        reading.take(number, kind)
            except (aiohttp.ClientError, OSError, TimeoutError, ServerUnreachable, UnexpectedReply):
                pass
            except RequestFailed as error:
                if error.status == 404:
                    reading.faults.append(f"{reading.job_id}: {error}")
                    return
            await asyncio.sleep(PAUSE_SECONDS)


async def _over_client(server: str, job_id: str, after: int) -> AsyncGenerator[Numbered, None]:
    """As a program with our client reads, which takes up broken streams by itself."""
    async with ComfyrailClient(server) as client:
        async for event in client.events(job_id, after):
            yield event.number, event.type


async def _over_stream(server: str, job_id: str, after: int) -> AsyncGenerator[Numbered, None]:
    """Server-Sent Events as they are sent: what comes twice is not hidden."""
    url = f"{server}/v1/workflows/execution/{job_id}/events"
    headers = {"Last-Event-ID": str(after)}
    async with (
        aiohttp.ClientSession(timeout=SILENCE_LIMIT) as http,
        http.get(url, headers=headers, raise_for_status=True) as reply,
    ):
        async for name, data in read_events(reply.content):
            if name != "close":
                yield int(json.loads(data)["number"]), name


async def _over_socket(server: str, job_id: str, after: int) -> AsyncGenerator[Numbered, None]:
    url = f"{server}/v1/workflows/execution/{job_id}/ws?after={after}"
    async with (
        aiohttp.ClientSession(timeout=SILENCE_LIMIT) as http,
        http.ws_connect(url, heartbeat=10) as socket,
    ):
        async for message in socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                event = json.loads(message.data)
                if "number" in event:
                    yield int(event["number"]), str(event["type"])


CHANNELS: dict[str, Channel] = {
    "the client": _over_client,
    "Server-Sent Events": _over_stream,
    "WebSocket": _over_socket,
}
