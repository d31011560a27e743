"""Live events by Server-Sent Events and WebSocket [9.1, 9.2]."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from tests.graphs import picture, slow_picture
from tests.processes import Comfyrail, wait_until


def numbers(events: list[dict[str, Any]]) -> list[int]:
    return [event["number"] for event in events]


def test_stream_has_the_whole_life_of_a_job_without_gaps(running_server: Comfyrail) -> None:
    job_id = running_server.submit(slow_picture(0.3, color=11))
    events = running_server.events(job_id)
    assert numbers(events) == list(range(1, len(events) + 1))
    types = [event["type"] for event in events]
    assert types[:2] == ["execution.queued", "execution.started"]
    assert types[-1] == "execution.completed"
    assert types.count("execution.node_completed") == 4
    assert events[0]["data"]["queue_position"] == 1
    shares = [event["data"]["progress"] for event in events if event["type"].endswith("progress")]
    assert shares == sorted(shares)
    assert shares[-1] <= 0.99
    assert all(event["execution_id"] == job_id for event in events)


def test_stored_progress_is_at_most_ten_a_second(running_server: Comfyrail) -> None:
    events = running_server.events(running_server.submit(slow_picture(1.0, color=12)))
    progress = [event for event in events if event["type"] == "execution.progress"]
    assert 3 <= len(progress) <= 14


@pytest.mark.parametrize("after", [1, 3])
def test_stream_resumes_behind_the_last_event_seen(running_server: Comfyrail, after: int) -> None:
    job_id = running_server.submit(picture(13))
    whole = running_server.events(job_id)
    assert running_server.events(job_id, after=after) == whole[after:]


def test_stream_of_an_ended_job_behind_its_end_closes_at_once(running_server: Comfyrail) -> None:
    job_id = running_server.submit(picture(14))
    whole = running_server.events(job_id)
    assert running_server.events(job_id, after=len(whole)) == []
    assert running_server.events(job_id, after=len(whole) + 100) == []


def test_odd_last_event_id_is_refused(running_server: Comfyrail) -> None:
    job_id = running_server.submit(picture(15))
    path = f"/v1/workflows/execution/{job_id}/events"
    for odd in ("abc", "-1", "1.5", "9" * 40, "²"):
        status, body = running_server.call("GET", f"{path}?after={odd.replace('²', '%C2%B2')}")
        assert (status, body["error"]["code"]) == (400, "MALFORMED_REQUEST")


def test_stream_ends_with_a_close_event_and_carries_ids(running_server: Comfyrail) -> None:
    job_id = running_server.submit(picture(16))
    running_server.wait_for(job_id, "completed")
    _, content, headers = running_server.fetch("GET", f"/v1/workflows/execution/{job_id}/events")
    assert headers["content-type"].startswith("text/event-stream")
    blocks = content.decode().replace("\r\n", "\n").strip().split("\n\n")
    assert blocks[0].startswith("id: 1\nevent: execution.queued\ndata: {")
    assert blocks[-1] == "event: close\ndata: {}"


async def test_socket_gives_state_then_events_then_closes(running_server: Comfyrail) -> None:
    job_id = await asyncio.to_thread(running_server.submit, slow_picture(0.5, color=17))
    messages = await read_socket(running_server, job_id)
    assert messages[0]["type"] == "state"
    state = messages[0]["data"]
    assert state["execution_id"] == job_id
    assert numbers(messages[1:]) == list(
        range(state["last_event"] + 1, state["last_event"] + len(messages))
    )
    assert messages[-1]["type"] == "execution.completed"


async def test_socket_replays_from_a_number(running_server: Comfyrail) -> None:
    job_id = await asyncio.to_thread(running_server.submit, picture(18))
    await asyncio.to_thread(running_server.wait_for, job_id, "completed")
    messages = await read_socket(running_server, job_id, "?after=0")
    assert numbers(messages[1:]) == list(range(1, len(messages)))


async def test_socket_takes_a_cancel_and_explains_what_it_does_not_know(
    running_server: Comfyrail,
) -> None:
    job_id = await asyncio.to_thread(running_server.submit, slow_picture(60))
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{running_server.url}/v1/workflows/execution/{job_id}/ws") as socket,
    ):
        await socket.send_str("nonsense")
        await socket.send_json({"type": "dance"})
        await socket.send_bytes(b"\x00\x01")
        await socket.send_json({"type": "cancel"})
        messages = [json.loads(message.data) async for message in socket]
    types = [message["type"] for message in messages]
    assert types.count("error") == 3
    assert types[-1] == "execution.cancelled"


async def test_socket_to_an_unknown_job_is_refused_with_a_body(running_server: Comfyrail) -> None:
    async with aiohttp.ClientSession() as http:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await http.ws_connect(f"{running_server.url}/v1/workflows/execution/nobody/ws")
    assert caught.value.status == 404


async def test_socket_from_a_foreign_page_is_refused(running_server: Comfyrail) -> None:
    job_id = await asyncio.to_thread(running_server.submit, picture(20))
    url = f"{running_server.url}/v1/workflows/execution/{job_id}/ws"
    async with aiohttp.ClientSession(headers={"Origin": "https://evil.example"}) as http:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await http.ws_connect(url)
    assert caught.value.status == 403


async def test_client_that_leaves_in_the_middle_leaves_nothing_behind(
    running_server: Comfyrail,
) -> None:
    job_id = await asyncio.to_thread(running_server.submit, slow_picture(1.0, color=19))
    url = f"{running_server.url}/v1/workflows/execution/{job_id}"
    async with aiohttp.ClientSession() as http:
        for _ in range(5):
            async with http.ws_connect(f"{url}/ws") as socket:
                await socket.receive()
            async with http.get(f"{url}/events") as stream:
                await stream.content.readany()
    await asyncio.to_thread(running_server.wait_for, job_id, "completed")
    assert wait_until(lambda: "Traceback" not in running_server.log, limit=1)


async def read_socket(server: Comfyrail, job_id: str, query: str = "") -> list[dict[str, Any]]:
    url = f"{server.url}/v1/workflows/execution/{job_id}/ws{query}"
    async with aiohttp.ClientSession() as http, http.ws_connect(url) as socket:
        found = [json.loads(message.data) async for message in socket]
        assert socket.close_code == 1000
        return found


async def test_client_that_closes_its_socket_at_the_end_leaves_no_error_in_the_log(
    running_server: Comfyrail,
) -> None:
    before = len(running_server.log)
    for number in range(5):
        job_id = await asyncio.to_thread(running_server.submit, picture(4000 + number))
        async with aiohttp.ClientSession() as http:
            url = f"{running_server.url}/v1/workflows/execution/{job_id}/ws?after=0"
            socket = await http.ws_connect(url, autoclose=False)
            async for message in socket:
                if json.loads(message.data)["type"] == "execution.completed":
                    break
            transport = socket.get_extra_info("transport")
            if number % 2 or transport is None:  # which it is where the server was quicker
                await socket.close()
            else:
                transport.abort()
    assert "Traceback" not in running_server.log[before:]
