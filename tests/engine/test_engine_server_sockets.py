import asyncio
import json
import struct
from typing import Any

import aiohttp
import pytest

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.definition import NodeDefinition, NodeResult, node
from comfyrail.engine.folders import Folders
from comfyrail.engine.server import sockets as sockets_module
from comfyrail.engine.server.missed_ends import MOST_CLIENTS, MOST_PROMPTS_OF_A_CLIENT, MissedEnds
from comfyrail.engine.server.wire import text_message
from tests.engine.engine_parts import serving
from tests.engine.worker_client import (
    LIMIT_SECONDS,
    WorkerClient,
    empty_image,
    invert,
    is_end,
    preview,
    save,
    simple_graph,
    slow_graph,
    type_of,
)

FLAGS = {"supports_preview_metadata": True}


def kinds(messages: list[Any]) -> list[str]:
    return [type_of(message) for message in messages]


def showing_node(count: int = 1) -> NodeDefinition:
    """A node that sends previews at once."""

    @node("Show", required={"image": ("IMAGE",)}, outputs=("IMAGE",), cacheable=False)
    def show(image: Any, context: Any) -> Any:
        for number in range(1, count + 1):
            context.progress(number, count)
            context._last_preview = float("-inf")
            context.preview(image[0])
        return image

    return show


def showing_graph() -> dict[str, Any]:
    show = {"class_type": "Show", "inputs": {"image": ["1", 0]}}
    return {"1": empty_image(), "2": show, "3": preview("2")}


async def test_comfyuis_published_websocket_example_works(worker: WorkerClient) -> None:
    client_id = "example"
    prompt = {"1": empty_image(0x112233), "2": save("1")}
    async with worker.session.ws_connect(f"{worker.url}/ws?clientId={client_id}") as socket:
        payload = json.dumps({"prompt": prompt, "client_id": client_id}).encode()
        async with worker.session.post("/prompt", data=payload) as reply:
            prompt_id = (await reply.json())["prompt_id"]
        while True:
            received = await asyncio.wait_for(socket.receive(), LIMIT_SECONDS)
            if received.type is aiohttp.WSMsgType.TEXT:
                message = json.loads(received.data)
                if message["type"] == "executing":
                    data = message["data"]
                    if data["node"] is None and data["prompt_id"] == prompt_id:
                        break
        async with worker.session.get(f"/history/{prompt_id}") as reply:
            history = (await reply.json())[prompt_id]
        for output in history["outputs"].values():
            for image in output["images"]:
                async with worker.session.get("/view", params=image) as reply:
                    assert reply.content_type == "image/png"
                    assert (await reply.read()).startswith(b"\x89PNG")


async def test_messages_of_a_prompt_come_in_comfyuis_order(worker: WorkerClient) -> None:
    socket = await worker.connect("me")
    prompt_id = await worker.submit(
        {"1": empty_image(), "2": invert("1"), "4": save("2")}, client_id="me"
    )
    messages = await socket.until_end(prompt_id)
    per_node = ["progress_state", "executing", "progress_state"]
    assert kinds(messages) == [
        "status",
        "status",
        "execution_start",
        "execution_cached",
        *per_node,
        *per_node,
        "progress_state",
        "executing",
        "executed",
        "progress_state",
        "execution_success",
        "status",
        "executing",
    ]
    remaining = [
        m["data"]["status"]["exec_info"]["queue_remaining"]
        for m in messages
        if m["type"] == "status"
    ]
    assert remaining == [1, 1, 0]
    state = {
        "value": 0.0,
        "max": 1.0,
        "state": "running",
        "node_id": "1",
        "prompt_id": prompt_id,
        "display_node_id": "1",
        "parent_node_id": None,
        "real_node_id": "1",
    }
    assert messages[4]["data"] == {"prompt_id": prompt_id, "nodes": {"1": state}}
    assert messages[5]["data"] == {"node": "1", "display_node": "1", "prompt_id": prompt_id}
    finished = {**state, "value": 1.0, "state": "finished"}
    assert messages[6]["data"]["nodes"] == {"1": finished}
    executed = next(m for m in messages if m["type"] == "executed")
    assert executed["data"] == {
        "node": "4",
        "display_node": "4",
        "output": {"images": [{"filename": "saved_00001_.png", "subfolder": "", "type": "output"}]},
        "prompt_id": prompt_id,
    }


async def test_a_prompt_that_is_all_cached_has_comfyuis_short_form(worker: WorkerClient) -> None:
    await worker.run(simple_graph())
    socket = await worker.connect("me")
    messages = await socket.until_end(await worker.submit(simple_graph(), client_id="me"))
    assert kinds(messages) == [
        "status",
        "status",
        "execution_start",
        "execution_cached",
        "executed",
        "progress_state",
        "execution_success",
        "status",
        "executing",
    ]
    assert messages[3]["data"]["nodes"] == ["1", "2"]


async def test_history_is_written_before_the_end_is_told(worker: WorkerClient) -> None:
    socket = await worker.connect("me")
    for color in range(20):
        prompt_id = await worker.submit(simple_graph(color), client_id="me")
        await socket.until_end(prompt_id)
        assert worker.worker.history.get(prompt_id) is not None


async def test_progress_is_told_with_value_and_max(worker: WorkerClient) -> None:
    socket = await worker.connect("me")
    prompt_id = await worker.submit(slow_graph(0.1), client_id="me")
    messages = await socket.until_end(prompt_id)
    progress = [m["data"] for m in messages if m["type"] == "progress"]
    assert progress[-1] == {"value": 2, "max": 2, "prompt_id": prompt_id, "node": "2"}
    at = kinds(messages).index("progress")
    assert kinds(messages)[at - 1] == "progress_state"


async def test_an_error_is_told_with_all_that_is_known(worker: WorkerClient) -> None:
    socket = await worker.connect("me")
    prompt = {"1": empty_image(), "2": save("1", "../out")}
    prompt_id = await worker.submit(prompt, client_id="me")
    messages = await socket.until_end(prompt_id)
    error = next(m["data"] for m in messages if m["type"] == "execution_error")
    assert error["node_id"] == "2"
    assert error["node_type"] == "SaveImage"
    assert error["executed"] == ["1"]
    assert error["exception_type"] == "ValueError"
    assert "outside" in error["exception_message"]
    assert error["current_inputs"]["filename_prefix"] == ["../out"]
    assert error["current_outputs"] == ["1"]
    assert error["traceback"]
    assert isinstance(error["timestamp"], int)
    assert "execution_success" not in kinds(messages)
    status = (await worker.ended(prompt_id))["status"]
    assert status["status_str"] == "error"
    assert status["messages"][-1] == ["execution_error", error]


async def test_an_interrupt_is_told(worker: WorkerClient) -> None:
    socket = await worker.connect("me")
    prompt_id = await worker.submit(slow_graph(), client_id="me")
    await socket.until_type("progress")
    await worker.post("/interrupt", {"prompt_id": prompt_id})
    messages = await socket.until_end(prompt_id)
    data = next(m["data"] for m in messages if m["type"] == "execution_interrupted")
    assert data["node_id"] == "2"
    assert data["node_type"] == "Delay"
    assert data["executed"] == ["1"]


async def test_features_are_negotiated_by_the_first_message_only(worker: WorkerClient) -> None:
    socket = await worker.connect("me", flags=FLAGS)
    await socket.socket.send_str("not json")
    await socket.socket.send_json({"type": "feature_flags", "data": {}})
    prompt_id = await worker.submit(simple_graph(), client_id="me")
    assert "feature_flags" not in kinds(await socket.until_end(prompt_id))


@pytest.mark.parametrize("flags", [None, FLAGS])
async def test_previews_are_sent_in_the_form_that_was_negotiated(
    flags: dict[str, Any] | None, folders: Folders
) -> None:
    registry = builtin_registry()
    registry.add(showing_node())
    async with serving(folders, registry=registry) as worker:
        socket = await worker.connect("me", flags=flags)
        prompt_id = await worker.submit(showing_graph(), client_id="me")
        messages = await socket.until_end(prompt_id)
        (picture,) = [message for message in messages if isinstance(message, bytes)]
        event, second = struct.unpack(">II", picture[:8])
        if flags is None:
            assert (event, second) == (1, 1)
            assert picture[8:].startswith(b"\xff\xd8")
        else:
            assert event == 4
            assert json.loads(picture[8 : 8 + second]) == {
                "node_id": "2",
                "prompt_id": prompt_id,
                "display_node_id": "2",
                "parent_node_id": None,
                "real_node_id": "2",
                "image_type": "image/jpeg",
            }
            assert picture[8 + second :].startswith(b"\xff\xd8")


async def test_a_client_without_an_id_is_given_one(worker: WorkerClient) -> None:
    async with worker.session.ws_connect("/ws") as socket:
        greeting = await asyncio.wait_for(socket.receive_json(), LIMIT_SECONDS)
        assert len(greeting["data"]["sid"]) == 32


async def test_others_get_nothing_but_status(worker: WorkerClient) -> None:
    other = await worker.connect("other")
    mine = await worker.connect("me")
    await mine.until_end(await worker.submit(simple_graph(1), client_id="me"))
    nobodys = await worker.run(simple_graph(2))
    assert nobodys["status"]["completed"]
    last = await worker.submit(simple_graph(3), client_id="other")
    messages = await other.until_end(last)
    assert all(
        message["type"] == "status" or message["data"]["prompt_id"] == last for message in messages
    )


async def test_two_sockets_of_one_client_both_get_everything(worker: WorkerClient) -> None:
    first, second = [await worker.connect("me") for _ in range(2)]
    prompt_id = await worker.submit(simple_graph(1), client_id="me")
    assert await first.until_end(prompt_id) == await second.until_end(prompt_id)
    await first.close()
    prompt_id = await worker.submit(simple_graph(2), client_id="me")
    assert "executed" in kinds(await second.until_end(prompt_id))


async def test_a_client_that_comes_back_is_told_what_it_missed(worker: WorkerClient) -> None:
    prompt = {**slow_graph(), "4": preview("1")}
    socket = await worker.connect("me")
    prompt_id = await worker.submit(prompt, client_id="me")
    await socket.until_type("progress")
    await socket.close()
    socket = await worker.connect("me")
    messages = await socket.until_type("progress")
    assert kinds(messages[:6]) == [
        "execution_start",
        "execution_cached",
        "executed",
        "progress_state",
        "executing",
        "progress",
    ]
    states = messages[3]["data"]["nodes"]
    assert {node_id: state["state"] for node_id, state in states.items()} == {
        "1": "finished",
        "4": "finished",
        "2": "running",
    }
    assert messages[4]["data"]["node"] == "2"
    await worker.post("/interrupt")
    assert is_end((await socket.until_end(prompt_id))[-1], prompt_id)


async def test_a_client_that_was_away_at_the_end_is_told_of_it(worker: WorkerClient) -> None:
    socket = await worker.connect("me")
    prompt_id = await worker.submit(slow_graph(0.2), client_id="me")
    await socket.until_type("progress")
    await socket.close()
    await worker.ended(prompt_id)
    socket = await worker.connect("me")
    messages = await socket.until_end(prompt_id)
    assert kinds(messages) == ["execution_success", "executing"]
    await socket.close()
    socket = await worker.connect("me")
    assert kinds(await socket.until_end(await worker.submit(simple_graph(), client_id="me")))[
        :2
    ] == ["status", "status"]


async def test_a_client_that_connects_after_submitting_misses_nothing(
    worker: WorkerClient,
) -> None:
    prompt_id = await worker.run(simple_graph(), client_id="late", prompt_id="p")
    assert prompt_id
    socket = await worker.connect("late")
    assert is_end((await socket.until_end("p"))[-1], "p")


def test_missed_ends_are_bounded() -> None:
    missed = MissedEnds()
    message = text_message("executing", {})
    for number in range(MOST_CLIENTS + 10):
        missed.keep(str(number), [message])
    for _ in range(MOST_PROMPTS_OF_A_CLIENT + 10):
        missed.keep("busy", [message])
    assert missed.take("0") == []
    assert len(missed.take("busy")) == MOST_PROMPTS_OF_A_CLIENT
    assert len(missed._by_client) <= MOST_CLIENTS


class StuckTransport:
    """A connection whose other side reads nothing."""

    aborted = False

    def abort(self) -> None:
        self.aborted = True


def stuck_connection() -> tuple[sockets_module.Connection, StuckTransport]:
    transport = StuckTransport()
    socket: Any = None
    return sockets_module.Connection(socket, transport), transport  # type: ignore[arg-type]


async def test_a_slow_client_loses_progress_first() -> None:
    connection, transport = stuck_connection()
    progress = text_message("progress", {}, droppable=True)
    for _ in range(3 * sockets_module.MOST_WAITING_MESSAGES):
        connection.offer(progress)
    connection.offer(text_message("executing", {}))
    assert len(connection._waiting) == 1
    assert not transport.aborted


async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    connection, transport = stuck_connection()
    for _ in range(sockets_module.MOST_WAITING_MESSAGES + 1):
        connection.offer(text_message("executing", {}))
    assert transport.aborted
    assert not connection._waiting


async def test_a_client_that_reads_nothing_does_not_hold_up_the_others(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets_module, "MOST_WAITING_BYTES", 1 << 20)
    text = "x" * (256 << 10)

    @node("Chatter", is_output=True, cacheable=False)
    def chatter() -> Any:
        return NodeResult(ui={"text": [text]})

    registry = builtin_registry()
    registry.add(chatter)
    graph = {"1": {"class_type": "Chatter", "inputs": {}}}
    async with serving(folders, registry=registry) as worker:
        stuck = await worker.connect("me")
        for _ in range(60):
            await worker.run(graph, client_id="me")
        assert not worker.worker.sockets.is_connected("me")
        with pytest.raises(ConnectionError):
            await stuck.until(lambda _: False)
