"""Agents in one process with their server: what is carried, and what goes wrong [5.7]."""

import asyncio
import io
import socket
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from comfyrail.clock import SystemClock
from comfyrail.errors import (
    ConfigurationError,
    DriverRefused,
    StoreUnavailable,
    WorkerError,
    WorkerRefused,
    WorkerUnreachable,
)
from comfyrail.fleet.agent_dialer import comfy_address, is_exposed, server_socket_url
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.drivers.agent import DRIVER, AgentLines, agent_app
from comfyrail.fleet.drivers.agent_frames import WINDOW
from comfyrail.fleet.drivers.interface import HostContext, WorkerHost
from comfyrail.ids import WorkerId
from tests.fleet.drivers.agent_parts import TOKEN, House, Wire, agent, house, until


def host_of(there: House, folder: Path, name: str = "box", grace: float = 0.0) -> WorkerHost:
    context = HostContext(data=folder, http=there.http, clock=SystemClock(), agents=there.lines)
    config = DRIVER.check({"name": name, "grace_seconds": grace})
    return DRIVER.host(WorkerId("w1"), config, context)


async def test_an_agent_is_a_worker_with_http_and_a_websocket(tmp_path: Path) -> None:
    async with house() as there, agent(there.server_url, there.comfy_url):
        host = host_of(there, tmp_path)
        client = ComfyClient(await host.start(), there.http)
        assert (await client.system_stats())["system"] == {"os": "test"}
        async with there.http.ws_connect(f"{client.endpoint}/ws?clientId=me") as follow:
            for text in ("one", "two"):
                await follow.send_str(text)
                assert await follow.receive_str() == f"me said {text}"
        assert host.place == "agent://box"
        assert not host.shares_inputs


async def test_a_comfyui_below_a_path_is_reached_there(tmp_path: Path) -> None:
    async with house() as there, agent(there.server_url, there.comfy_url + "/ui/"):
        url = await host_of(there, tmp_path).start()
        assert url.endswith("/ui")


async def test_start_says_that_the_agent_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("comfyrail.fleet.drivers.agent.CONNECT_SECONDS", 0.05)
    async with house() as there:
        with pytest.raises(WorkerUnreachable, match="comfyrail agent --server"):
            await host_of(there, tmp_path).start()


async def test_a_new_agent_is_announced_with_its_labels() -> None:
    seen: list[tuple[str, Mapping[str, str]]] = []

    async def on_new(name: str, labels: Mapping[str, str]) -> None:
        seen.append((name, labels))

    async with house(on_new) as there:
        async with agent(there.server_url, there.comfy_url, labels={"region": "cellar"}):
            await until(there.lines.names)
        assert seen == [("box", {"region": "cellar"})]


async def test_what_the_server_cannot_take_is_tried_again_later() -> None:
    answers = iter([StoreUnavailable("The disk is full."), RuntimeError("a bug"), None])

    async def on_new(_name: str, _labels: Mapping[str, str]) -> None:
        error = next(answers)
        if error is not None:
            raise error

    async with house(on_new) as there, agent(there.server_url, there.comfy_url) as dialed:
        await until(there.lines.names)
        assert dialed.said[0] == "The disk is full."
        assert "a bug" not in dialed.said[1]


async def test_a_large_output_passes_with_little_in_memory() -> None:
    size = 32 << 20
    async with house() as there, agent(there.server_url, there.comfy_url):
        url = await there.lines.wait_connected("box", 5)
        line = there.lines.line("box")
        assert line is not None
        most = got = 0
        tracemalloc.start()
        async with there.http.get(f"{url}/view?bytes={size}") as reply:
            async for piece in reply.content.iter_chunked(1 << 18):
                got += len(piece)
                most = max(most, line.buffered)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert got == size
        assert most <= WINDOW
        assert peak < 8 << 20


async def test_a_large_input_passes_whole() -> None:
    size = 16 << 20
    async with house() as there, agent(there.server_url, there.comfy_url):
        url = await there.lines.wait_connected("box", 5)
        async with there.http.post(f"{url}/upload/image", data=io.BytesIO(b"x" * size)) as reply:
            assert await reply.json() == {"bytes": size}


async def test_a_slow_reader_stops_its_own_sender_and_nobody_else() -> None:
    size = 64 << 20
    async with house() as there, agent(there.server_url, there.comfy_url):
        url = await there.lines.wait_connected("box", 5)
        line = there.lines.line("box")
        assert line is not None
        client = ComfyClient(url, there.http)
        reader, writer = await asyncio.open_connection(*_address(url), limit=1024)
        writer.write(f"GET /view?bytes={size} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await until(lambda: line.buffered > WINDOW // 2)
        for _ in range(50):
            await client.system_stats()
        stuck = -1
        while there.comfy.sent != stuck:  # what is on its way between the two may take a moment
            stuck = there.comfy.sent
            await asyncio.sleep(0.2)
        assert stuck < size // 2
        assert line.buffered <= WINDOW
        while there.comfy.sent < size:
            assert await reader.read(1 << 20)
        writer.close()


async def test_a_client_that_goes_away_ends_its_stream_at_both_ends() -> None:
    async with house() as there, agent(there.server_url, there.comfy_url):
        url = await there.lines.wait_connected("box", 5)
        line = there.lines.line("box")
        assert line is not None
        with pytest.raises(TimeoutError):
            async with there.http.get(f"{url}/wait", timeout=aiohttp.ClientTimeout(total=0.1)):
                pass
        await until(lambda: line.streams == 0)


async def test_too_many_streams_are_turned_away_and_the_others_live() -> None:
    async with house(most_streams=4) as there, agent(there.server_url, there.comfy_url):
        url = await there.lines.wait_connected("box", 5)
        line = there.lines.line("box")
        assert line is not None
        waiting = [asyncio.create_task(_ask(there, f"{url}/wait")) for _ in range(4)]
        await until(lambda: line.streams == 4)
        with pytest.raises(aiohttp.ClientError):
            await _ask(there, f"{url}/wait")
        there.comfy.let_go.set()
        assert await asyncio.gather(*waiting) == [200] * 4


async def test_a_comfyui_that_is_not_up_is_unreachable_and_said_once(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{held.getsockname()[1]}"
        async with house() as there, agent(there.server_url, nobody) as dialed:
            client = ComfyClient(await host_of(there, tmp_path).start(), there.http)
            for _ in range(2):
                with pytest.raises(WorkerUnreachable):
                    await client.system_stats()
            assert [text for text in dialed.said if "Is ComfyUI running" in text] == [
                dialed.said[-1]
            ]


# Lines that break


async def test_a_line_that_is_cut_comes_back_as_the_same_worker_at_the_same_place(
    tmp_path: Path,
) -> None:
    async with house() as there:
        wire = Wire(there.server_url)
        async with wire.laid() as url, agent(url, there.comfy_url) as dialed:
            host = host_of(there, tmp_path, grace=30.0)
            client = ComfyClient(await host.start(), there.http)
            ended = asyncio.create_task(host.wait_ended())
            hanging = asyncio.create_task(_ask(there, f"{client.endpoint}/wait"))
            line = there.lines.line("box")
            assert line is not None
            await until(lambda: line.streams)
            wire.cut()
            with pytest.raises(aiohttp.ClientError):
                await hanging
            await until(lambda: there.lines.line("box") not in {None, line})
            assert await host.start() == client.endpoint
            await client.system_stats()
            assert not ended.done()
            assert any("is gone" in text for text in dialed.said)
            ended.cancel()


async def test_a_line_that_stays_away_is_the_end_of_the_worker(tmp_path: Path) -> None:
    async with house() as there:
        wire = Wire(there.server_url)
        async with wire.laid() as url, agent(url, there.comfy_url):
            host = host_of(there, tmp_path, grace=0.05)
            client = ComfyClient(await host.start(), there.http)
            wire.is_refusing = True
            wire.cut()
            assert "box is gone" in await asyncio.wait_for(host.wait_ended(), 10)
            with pytest.raises(WorkerUnreachable):
                await client.system_stats()
            wire.is_refusing = False
            client = ComfyClient(await host.start(), there.http)
            await client.system_stats()


async def test_a_silent_line_is_noticed_at_both_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("comfyrail.fleet.agent_dialer.CONNECT_SECONDS", 0.3)
    quick: dict[str, Any] = {"ping_seconds": 0.05, "silence_seconds": 0.3}
    async with house(**quick) as there:
        wire = Wire(there.server_url)
        async with wire.laid() as url, agent(url, there.comfy_url, **quick) as dialed:
            host = host_of(there, tmp_path)
            await host.start()
            wire.fall_silent()
            assert "nothing was heard" in await asyncio.wait_for(host.wait_ended(), 10)
            wire.speak()
            await until(lambda: any("nothing was heard" in text for text in dialed.said))
            await until(there.lines.names)


async def test_an_idle_line_lives_by_its_pings() -> None:
    quick: dict[str, Any] = {"ping_seconds": 0.02, "silence_seconds": 0.2}
    async with house(**quick) as there, agent(there.server_url, there.comfy_url, **quick) as dialed:
        await until(there.lines.names)
        line = there.lines.line("box")
        await asyncio.sleep(0.6)
        assert there.lines.line("box") is line
        assert len(dialed.said) == 1


# Names


async def test_a_second_agent_of_a_name_is_refused_while_the_first_lives() -> None:
    async with house() as there, agent(there.server_url, there.comfy_url):
        await until(there.lines.names)
        line = there.lines.line("box")
        async with agent(there.server_url, there.comfy_url) as second:
            await until(lambda: second.said)
            assert "Another agent with the name box" in second.said[0]
            assert there.lines.line("box") is line


async def test_a_second_agent_takes_the_name_of_a_dead_one() -> None:
    async with house(probe_seconds=0.1) as there:
        wire = Wire(there.server_url)
        async with wire.laid() as url, agent(url, there.comfy_url):
            await until(there.lines.names)
            line = there.lines.line("box")
            wire.fall_silent()
            async with agent(there.server_url, there.comfy_url) as second:
                await until(lambda: second.said)
                assert second.said[0].startswith("Connected")
                assert there.lines.line("box") not in {None, line}


@pytest.mark.parametrize(
    "name", ["", "a" * 64, "../../etc", "-rf", "a b", "box\n", "bóx", "<script>", "a/b", "\x00"]
)
async def test_hostile_names_are_refused_by_both_sides(name: str) -> None:
    with pytest.raises(WorkerRefused):
        DRIVER.check({"name": name})
    async with house() as there, agent(there.server_url, there.comfy_url, name=name) as dialed:
        with pytest.raises(ConfigurationError, match="cannot be the name of an agent"):
            await asyncio.wait_for(dialed.task, 10)
        assert not there.lines.names()


@pytest.mark.parametrize(
    "labels", [{"a b": "c"}, {"a": "b\x1b[2J"}, {"a": "b" * 300}, {f"k{n}": "v" for n in range(40)}]
)
async def test_hostile_labels_are_refused(labels: dict[str, str]) -> None:
    async with house() as there, agent(there.server_url, there.comfy_url, labels=labels) as dialed:
        with pytest.raises(ConfigurationError, match="label"):
            await asyncio.wait_for(dialed.task, 10)


async def test_only_so_many_agents_are_taken_and_those_away_make_way() -> None:
    async with house(most_agents=1) as there:
        async with agent(there.server_url, there.comfy_url, name="first"):
            await until(there.lines.names)
            async with agent(there.server_url, there.comfy_url, name="second") as second:
                await until(lambda: second.said)
                assert "takes no more" in second.said[0]
        async with agent(there.server_url, there.comfy_url, name="third"):
            await until(lambda: there.lines.names() == ["third"])


# Credentials


async def test_a_wrong_token_is_told_apart_from_an_unreachable_server() -> None:
    async with house() as there:
        async with agent(there.server_url, there.comfy_url, token="wrong") as dialed:
            with pytest.raises(ConfigurationError, match="does not accept the token"):
                await asyncio.wait_for(dialed.task, 10)
        async with agent("http://127.0.0.1:9", there.comfy_url) as dialed:
            await until(lambda: dialed.said)
            assert "cannot be reached" in dialed.said[0]
            assert not dialed.task.done()
        async with agent(there.comfy_url, there.comfy_url) as dialed:
            with pytest.raises(ConfigurationError, match="takes no agents there"):
                await asyncio.wait_for(dialed.task, 10)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN])
async def test_nobody_comes_in_without_the_token(header: str | None) -> None:
    async with house() as there:
        headers = {} if header is None else {"Authorization": header}
        async with there.http.get(f"{there.server_url}/v1/agents/ws", headers=headers) as reply:
            assert reply.status == 401
            assert (await reply.json())["error"]["code"] == "UNAUTHORIZED"


async def test_a_plain_request_with_the_token_is_told_what_is_wanted() -> None:
    async with house() as there:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with there.http.get(f"{there.server_url}/v1/agents/ws", headers=headers) as reply:
            assert reply.status == 426


def test_a_short_token_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigurationError, match="16 characters"):
        agent_app(AgentLines(), "short")


# The end


async def test_a_stopped_worker_is_out_of_reach_and_can_be_started_again(tmp_path: Path) -> None:
    async with house() as there, agent(there.server_url, there.comfy_url) as dialed:
        host = host_of(there, tmp_path)
        url = await host.start()
        hanging = asyncio.create_task(_ask(there, f"{url}/wait"))
        line = there.lines.line("box")
        assert line is not None
        await until(lambda: line.streams)
        await host.stop()
        with pytest.raises(aiohttp.ClientError):
            await hanging
        with pytest.raises(WorkerUnreachable):
            await ComfyClient(url, there.http).system_stats()
        await ComfyClient(await host.start(), there.http).system_stats()
        assert there.lines.line("box") is line
        assert len(dialed.said) == 1


async def test_a_removed_worker_sends_its_agent_home(tmp_path: Path) -> None:
    async with house() as there, agent(there.server_url, there.comfy_url) as dialed:
        host = host_of(there, tmp_path)
        await host.start()
        ended = asyncio.create_task(host.wait_ended())
        await asyncio.sleep(0)
        await host.stop()
        await there.lines.dismiss("box")
        await asyncio.wait_for(dialed.task, 10)
        assert "removed this worker" in dialed.said[-1]
        assert "removed" in await asyncio.wait_for(ended, 10)
        await there.lines.dismiss("box")


async def test_a_server_that_stops_leaves_the_agent_dialing(tmp_path: Path) -> None:
    async with house() as there, agent(there.server_url, there.comfy_url) as dialed:
        host = host_of(there, tmp_path)
        await host.start()
        await host.release()
        await there.lines.close()
        await until(lambda: len(dialed.said) > 1)
        assert not dialed.task.done()


async def test_logs_are_said_to_be_elsewhere(tmp_path: Path) -> None:
    async with house() as there:
        with pytest.raises(WorkerError, match="on the machine of its agent"):
            await host_of(there, tmp_path).logs(10)


async def test_a_server_without_agents_says_so(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as http:
        context = HostContext(data=tmp_path, http=http, clock=SystemClock())
        with pytest.raises(DriverRefused, match="agent_token"):
            DRIVER.host(WorkerId("w1"), DRIVER.check({"name": "box"}), context)


@pytest.mark.parametrize(
    "config",
    [{}, {"name": 3}, {"name": "x", "port": 1}, {"name": "x", "grace_seconds": -1}],
)
def test_wrong_settings_name_the_field(config: dict[str, object]) -> None:
    with pytest.raises(WorkerRefused) as caught:
        DRIVER.check(config)
    assert any(word in caught.value.message for word in ("name", "port", "grace_seconds"))


# Addresses


@pytest.mark.parametrize(
    ("given", "dialed"),
    [
        ("comfy.example:8081", "ws://comfy.example:8081/v1/agents/ws"),
        ("http://10.0.0.5:81/", "ws://10.0.0.5:81/v1/agents/ws"),
        ("https://comfy.example/rail", "wss://comfy.example/rail/v1/agents/ws"),
        ("wss://comfy.example/v1/agents/ws", "wss://comfy.example/v1/agents/ws"),
    ],
)
def test_addresses_of_servers_are_read_generously(given: str, dialed: str) -> None:
    assert server_socket_url(given) == dialed


@pytest.mark.parametrize("given", ["", "ftp://x", "http://", "http://u:p@x", "http://x:0", "x:y:z"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError):
        server_socket_url(given)
    with pytest.raises(ConfigurationError):
        comfy_address(given)


def test_a_token_in_the_open_is_noticed() -> None:
    assert is_exposed("http://10.0.0.5")
    assert not is_exposed("https://10.0.0.5")
    assert not is_exposed("http://127.0.0.1:8081")


def _address(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


async def _ask(there: House, url: str) -> int:
    async with there.http.get(url) as reply:
        return reply.status
