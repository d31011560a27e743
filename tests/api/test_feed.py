"""All events of one's jobs in one stream [9.2]: SSE, WebSocket, long poll, filters, resuming."""

import asyncio
import json
import random
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail

RECONNECTS = 50


def everything_since(server: Comfyrail, after: int, **query: str) -> list[dict[str, Any]]:
    """By pages, to the end."""
    found: list[dict[str, Any]] = []
    words = "".join(f"&{name}={value}" for name, value in query.items())
    while True:
        status, body = server.call("GET", f"/v1/events?after={after}&limit=40{words}")
        assert status == 200
        if not body["events"]:
            return found
        found += body["events"]
        after = body["next_after"]


def end_of(server: Comfyrail) -> int:
    _, body = server.call("GET", "/v1/events")
    assert body["events"] == []
    return int(body["next_after"])


async def read_stream(
    url: str, after: int | None, **query: str
) -> AsyncIterator[tuple[int, str, dict[str, Any]]]:
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/v1/events/stream", params=query, headers=headers) as reply,
    ):
        assert reply.status == 200
        fields: dict[str, str] = {}
        async for line in reply.content:
            text = line.decode().rstrip("\r\n")
            if text:
                name, _, value = text.partition(": ")
                fields[name] = value
            elif "data" in fields:
                yield int(fields["id"]), fields["event"], json.loads(fields["data"])
                fields = {}


def test_page_has_the_events_of_all_jobs_in_order(running_server: Comfyrail) -> None:
    start = end_of(running_server)
    first, second = (running_server.submit(picture(color)) for color in (21, 22))
    for job_id in (first, second):
        running_server.wait_for(job_id, "completed")
    events = everything_since(running_server, start)
    assert [each["id"] for each in events] == sorted({each["id"] for each in events})
    for job_id in (first, second):
        own = [each for each in events if each["execution_id"] == job_id]
        assert [each["number"] for each in own] == list(range(1, len(own) + 1))
        assert own[-1]["type"] == "execution.completed"
        told = running_server.events(job_id)
        assert [each["data"] for each in own] == [each["data"] for each in told]


def test_filters_by_type_and_job(running_server: Comfyrail) -> None:
    start = end_of(running_server)
    first, second = (running_server.submit(picture(color)) for color in (23, 24))
    for job_id in (first, second):
        running_server.wait_for(job_id, "completed")
    ends = everything_since(running_server, start, types="execution.completed,execution.failed")
    assert {each["execution_id"] for each in ends} == {first, second}
    assert {each["type"] for each in ends} == {"execution.completed"}
    own = everything_since(running_server, start, execution_id=second, types="execution.*")
    assert {each["execution_id"] for each in own} == {second}
    assert everything_since(running_server, start, batch_id="none") == []


def test_filter_by_workflow_of_the_library(running_server: Comfyrail) -> None:
    start = end_of(running_server)
    saved = {"workflow": picture(25)}
    status, _ = running_server.call("PUT", "/v1/workflows/feed-poster", saved)
    assert status in {200, 201}
    status, body = running_server.call(
        "POST", "/v1/workflows/execute", {"workflow_id": "feed-poster"}
    )
    assert status == 202
    other = running_server.submit(picture(26))
    for job_id in (body["execution_id"], other):
        running_server.wait_for(job_id, "completed")
    events = everything_since(running_server, start, workflow_id="feed-poster")
    assert {each["execution_id"] for each in events} == {body["execution_id"]}
    assert {each["workflow_id"] for each in events} == {"feed-poster@1"}
    _, shown = running_server.call("GET", f"/v1/workflows/execution/{body['execution_id']}")
    assert shown["workflow_id"] == "feed-poster@1"


def test_long_poll_waits_for_the_next_event(running_server: Comfyrail) -> None:
    start = end_of(running_server)
    threading.Timer(0.3, lambda: running_server.submit(picture(27))).start()
    began = time.monotonic()
    _, body = running_server.call("GET", f"/v1/events?after={start}&wait=20")
    assert time.monotonic() - began < 15
    assert body["events"][0]["type"] == "execution.queued"
    quiet = running_server.call("GET", "/v1/events?types=system.queue_paused&wait=1")[1]
    assert quiet["events"] == []


def test_unknown_type_and_odd_beginning_are_refused(running_server: Comfyrail) -> None:
    status, body = running_server.call("GET", "/v1/events?types=execution.done")
    assert (status, body["error"]["code"]) == (400, "UNKNOWN_EVENT_TYPE")
    for path in ("/v1/events?after=-1", "/v1/events/stream?after=x"):
        assert running_server.call("GET", path)[0] == 400


def test_number_beyond_the_end_is_told_from_one_of_old(running_server: Comfyrail) -> None:
    beyond = end_of(running_server) + 100_000
    for path in (f"/v1/events?after={beyond}", f"/v1/events/stream?after={beyond}"):
        status, body = running_server.call("GET", path)
        assert (status, body["error"]["code"]) == (410, "EVENTS_RESTARTED")
        assert "after=0" in body["error"]["message"]


async def test_reader_that_reconnects_again_and_again_sees_every_event_once(
    running_server: Comfyrail,
) -> None:
    """Acceptance: 50 reconnects at random, every event once, in order."""
    start = end_of(running_server)
    chance = random.Random(8)
    jobs = [running_server.submit(slow_picture(0.4, color=100 + number)) for number in range(20)]
    done = asyncio.Event()
    seen: list[int] = []

    async def wait_for_jobs() -> None:
        for job_id in jobs:
            await asyncio.to_thread(running_server.wait_for, job_id, "completed")
        done.set()

    async def read() -> int:
        after, reconnects = start, 0
        while reconnects < RECONNECTS or not done.is_set():
            left = chance.randrange(1, 12)
            try:
                async with asyncio.timeout(chance.uniform(0.02, 0.4)):
                    async for number, name, _ in read_stream(running_server.url, after):
                        if name == "open":
                            continue
                        seen.append(number)
                        after = number
                        left -= 1
                        if not left:
                            break
            except TimeoutError:
                pass
            reconnects += 1
        return reconnects

    reconnects, _ = await asyncio.gather(read(), wait_for_jobs())
    assert reconnects >= RECONNECTS
    last = seen[-1] if seen else start
    rest = [each["id"] for each in everything_since(running_server, last)]
    assert [*seen, *rest] == [each["id"] for each in everything_since(running_server, start)]
    assert len(seen) > 50


async def test_socket_begins_where_it_is_told_and_goes_on_live(
    running_server: Comfyrail,
) -> None:
    start = end_of(running_server)
    before = running_server.submit(picture(28))
    running_server.wait_for(before, "completed")
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"{running_server.url}/v1/events/ws?after={start}&types=execution.completed"
        ) as socket,
    ):
        assert await socket.receive_json() == {"type": "open", "id": start}
        first = await socket.receive_json()
        assert (first["execution_id"], first["type"]) == (before, "execution.completed")
        later = await asyncio.to_thread(running_server.submit, picture(29))
        second = await socket.receive_json()
        assert (second["execution_id"], second["type"]) == (later, "execution.completed")


def test_events_of_the_queue_and_of_workers_are_for_those_who_see_the_fleet(
    running_server: Comfyrail,
) -> None:
    start = end_of(running_server)
    running_server.call("POST", "/v1/queue/pause", {"reason": "cleaning"})
    running_server.call("POST", "/v1/queue/resume")
    events = everything_since(running_server, start, types="system.*")
    assert [(each["type"], each["execution_id"]) for each in events] == [
        ("system.queue_paused", None),
        ("system.queue_resumed", None),
    ]
    assert events[0]["data"] == {"reason": "cleaning"}
    whole = everything_since(running_server, 0, types="system.server_started,worker.online")
    assert {each["type"] for each in whole} == {"system.server_started", "worker.online"}
