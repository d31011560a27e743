"""The client's event stream over a server that dies and comes back."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol

from comfyrail.client import ComfyrailClient, Event, ServerUnreachable
from comfyrail.client.event_stream import read_events
from comfyrail.client.following import follow
from tests.cli.ports import free_port
from tests.graphs import slow_picture
from tests.processes import Comfyrail, server


async def test_stream_goes_on_after_a_restart_without_a_gap_or_an_echo(tmp_path: Path) -> None:
    with server(tmp_path / "data", "--port", free_port()) as process:
        process.wait_ready()
        async with ComfyrailClient(process.url) as client:
            job_id = await client.execute(slow_picture(1.5))
            seen: list[Event] = []
            async for event in client.events(job_id):
                seen.append(event)
                if len(seen) == 3:
                    await asyncio.to_thread(process.kill)
                    await asyncio.to_thread(process.start)
            stored = await asyncio.to_thread(process.events, job_id)
    assert [event.number for event in seen] == list(range(1, len(seen) + 1))
    assert [event.number for event in seen] == [event["number"] for event in stored]
    assert seen[-1].type == "execution.completed"


async def test_stream_gives_up_when_its_patience_is_over(tmp_path: Path) -> None:
    with server(tmp_path / "data", workers=0) as process:
        async with ComfyrailClient(process.url, patience=0.3) as client:
            job_id = await client.execute(slow_picture(60))
            with pytest.raises(ServerUnreachable, match="No answer from"):
                await kill_at_the_first_event(client, process, job_id)


async def kill_at_the_first_event(client: ComfyrailClient, process: Comfyrail, job_id: str) -> None:
    async for _ in client.events(job_id):
        await asyncio.to_thread(process.kill)


async def test_stream_is_taken_up_where_it_was_though_it_has_shown_nothing_since() -> None:
    asked: list[int | None] = []

    async def open_stream(after: int | None) -> AsyncIterator[tuple[str, str]]:
        asked.append(after)
        frames = b"id: 5\r\nevent: open\r\ndata: 5\r\n\r\n: ping\r\n\r\nid: 40\r\n\r\n"
        if len(asked) == 2:
            frames = b"id: 41\r\nevent: x\r\ndata: 41\r\n\r\nevent: close\r\ndata: 0\r\n\r\n"
        content = aiohttp.StreamReader(BaseProtocol(asyncio.get_running_loop()), 1 << 16)
        content.feed_data(frames)
        content.feed_eof()
        async for each in read_events(content):
            yield each

    broken = ServerUnreachable("broken")
    seen = [each async for each in follow(open_stream, int, int, None, 20.0, broken)]
    assert (asked, seen) == ([None, 40], [41])


async def test_stream_of_all_events_does_not_wait_for_a_server_that_is_not_there() -> None:
    async with ComfyrailClient("http://127.0.0.1:9", patience=60) as client:
        with pytest.raises(ServerUnreachable):
            async with asyncio.timeout(20):
                await anext(client.all_events())
