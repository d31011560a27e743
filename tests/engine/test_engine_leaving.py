"""What clients see of a prompt whose node cannot be stopped before the worker begins anew."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.definition import NodeResult, node
from comfyrail.engine.folders import Folders
from comfyrail.engine.server.handover import HandedOver
from tests.engine.engine_parts import serving
from tests.engine.test_engine_stuck_nodes import StuckWorker, kinds_of
from tests.engine.worker_client import Socket, WorkerClient, simple_graph, type_of
from tests.processes import wait_until

STUCK: dict[str, Any] = {"1": {"class_type": "Stuck", "inputs": {}}}


@pytest.fixture
def may_end() -> Iterator[threading.Event]:
    """Set: the node that waits for it returns."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def is_in() -> threading.Event:
    """Set when the node waits."""
    return threading.Event()


@pytest.fixture
async def worker(
    folders: Folders, may_end: threading.Event, is_in: threading.Event
) -> AsyncIterator[WorkerClient]:
    @node("Stuck", required={}, outputs=(), category="x", is_output=True, cacheable=False)
    def stuck() -> NodeResult:
        is_in.set()
        may_end.wait(30)
        return NodeResult((), {"text": ["too late"]})

    registry = builtin_registry()
    registry.add(stuck)
    async with serving(folders, registry=registry) as client:
        client.worker.stop_seconds = 0.01
        yield client


async def test_end_is_told_and_known_before_the_worker_begins_anew(
    worker: WorkerClient, is_in: threading.Event
) -> None:
    handed: list[tuple[HandedOver, int]] = []
    socket = await worker.connect("c")

    def note(state: HandedOver) -> None:
        handed.append((state, len(worker.worker.queue)))

    worker.worker.begin_anew = note
    stuck = await worker.submit(STUCK, client_id="c")
    await _until(is_in.is_set)
    behind = await worker.submit(simple_graph(), client_id="c")
    await worker.post("/interrupt", {"prompt_id": stuck})
    messages = await socket.until_end(stuck)
    assert "execution_interrupted" in [type_of(message) for message in messages]
    assert not handed
    assert kinds_of(await worker.ended(stuck))[-1] == "execution_interrupted"
    _, queue = await worker.get("/queue")
    assert (len(queue["queue_running"]), len(queue["queue_pending"])) == (0, 1)
    with pytest.raises(ConnectionError):
        await socket.until(lambda _: False)
    await _until(lambda: handed)
    ((state, waiting),) = handed
    assert [prompt_id for prompt_id, _ in state.ended] == [stuck]
    assert [item.prompt_id for item in state.waiting] == [behind]
    assert waiting == 1


async def test_worker_stays_when_the_node_ends_after_all(
    worker: WorkerClient, may_end: threading.Event, is_in: threading.Event
) -> None:
    handed: list[HandedOver] = []
    socket = await worker.connect("c")
    worker.worker.begin_anew = handed.append
    stuck = await worker.submit(STUCK, client_id="c")
    await _until(is_in.is_set)
    behind = await worker.submit(simple_graph(), client_id="c")
    await worker.post("/interrupt", {"prompt_id": stuck})
    await socket.until_end(stuck)
    may_end.set()
    assert kinds_of(await worker.ended(behind))[-1] == "execution_success"
    assert not handed
    entry = await worker.ended(stuck)
    assert kinds_of(entry)[-1] == "execution_interrupted"
    assert entry["outputs"] == {}


async def test_worker_that_cannot_begin_anew_goes_on_when_the_node_ends(
    worker: WorkerClient, may_end: threading.Event, is_in: threading.Event
) -> None:
    handed: list[HandedOver] = []
    worker.worker.begin_anew = handed.append
    stuck = await worker.submit(STUCK)
    await _until(is_in.is_set)
    behind = await worker.submit(simple_graph())
    await worker.post("/interrupt", {"prompt_id": stuck})
    await _until(lambda: handed)
    assert worker.worker.running is None
    may_end.set()
    assert kinds_of(await worker.ended(behind))[-1] == "execution_success"


async def test_client_fetches_the_end_and_the_files_before_the_next_life(tmp_path: Path) -> None:
    with StuckWorker(tmp_path) as process:
        async with aiohttp.ClientSession(process.url) as session:
            socket = Socket(await session.ws_connect("/ws?clientId=c"))
            body = {"prompt": process.graph("SleepStuck"), "client_id": "c"}
            async with session.post("/prompt", json=body) as reply:
                stuck = (await reply.json())["prompt_id"]
            await socket.until(lambda message: _begins(message, "3"))
            async with session.post("/interrupt", json={"prompt_id": stuck}):
                pass
            await socket.until_end(stuck)
            # From the life that has told it: there is no other one yet.
            async with session.get(f"/history/{stuck}") as reply:
                entry = (await reply.json())[stuck]
            assert kinds_of(entry)[-1] == "execution_interrupted"
            ((saved,),) = [shown["images"] for shown in entry["outputs"].values()]
            async with session.get("/view", params=saved) as reply:
                assert (await reply.read()).startswith(b"\x89PNG")
            assert process.lives == 1
            await socket.close()
        wait_until(lambda: process.lives == 2)
        assert kinds_of(process.ended(stuck))[-1] == "execution_interrupted"


def _begins(message: Any, node_id: str) -> bool:
    return type_of(message) == "executing" and message["data"].get("node") == node_id


async def _until(look: Any) -> None:
    async with asyncio.timeout(10):
        while not look():  # noqa: ASYNC110 - the state of another part
            await asyncio.sleep(0.005)
