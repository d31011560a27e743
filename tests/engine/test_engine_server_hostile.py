"""What clients send by mistake or on purpose: a clear reply, bounded memory, and it goes on."""

import asyncio
import gc
import io
import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from PIL import Image
from yarl import URL

from comfyrail.clock import SystemClock
from comfyrail.engine.builtin import builtin_registry
from comfyrail.engine.definition import NodeResult, node
from comfyrail.engine.folders import Folders
from comfyrail.engine.output_names import MOST_COUNTERS, OutputNames
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.retention import OutputRetention
from comfyrail.engine.server import missed_ends, socket_route, sockets
from comfyrail.engine.server.execution_thread import MOST_REPORTS_AT_ONCE, ExecutionDone, Outbox
from comfyrail.engine.server.missed_ends import MissedEnds
from comfyrail.engine.server.prompt_queue import PromptQueue, QueuedPrompt
from comfyrail.engine.server.wire import encode_json, text_message
from tests.engine.engine_parts import serving
from tests.engine.worker_client import (
    WorkerClient,
    empty_image,
    save,
    simple_graph,
    slow_graph,
)

MEGABYTE = 1 << 20
BY_AIOHTTP = pytest.mark.filterwarnings(
    # It leaves the parts it has read to the garbage collector, and warns of odd file names.
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::RuntimeWarning",
)
BEYOND_INDEX = str(2**63)


def png(size: tuple[int, int] = (4, 3)) -> bytes:
    encoded = io.BytesIO()
    Image.new("RGB", size).save(encoded, "PNG")
    return encoded.getvalue()


def large_graph(size: int = 2 * MEGABYTE) -> dict[str, Any]:
    graph = simple_graph()
    graph["1"]["inputs"]["ignored"] = "x" * size
    return graph


def registry_with(*definitions: Any) -> NodeRegistry:
    registry = builtin_registry()
    for definition in definitions:
        registry.add(definition)
    return registry


def only(class_type: str) -> dict[str, Any]:
    return {"1": {"class_type": class_type, "inputs": {}}}


@pytest.mark.parametrize("info", ["text", ["a", "list"], 5, {"workflow": "text"}, {"workflow": {}}])
async def test_any_extra_pnginfo_is_saved_and_listed(info: Any, worker: WorkerClient) -> None:
    graph = {"1": empty_image(), "2": save("1")}
    await worker.running(await worker.submit(slow_graph(), prompt_id="run"))
    await worker.submit(graph, prompt_id="odd", extra_data={"extra_pnginfo": info})
    assert (await worker.get("/api/jobs"))[1]["pagination"]["total"] == 2
    await worker.post("/interrupt")
    entry = await worker.ended("odd")
    assert entry["status"]["completed"]
    assert entry["prompt"][3]["extra_pnginfo"] == info
    status, body = await worker.get("/api/jobs")
    assert (status, len(body["jobs"])) == (200, 2)
    assert "workflow_id" not in body["jobs"][0]


@pytest.mark.parametrize("number", ["9" * 400, '"9e999"', "1e999", "-Infinity"])
async def test_a_number_without_an_end_is_refused(number: str, worker: WorkerClient) -> None:
    body = f'{{"prompt": {json.dumps(simple_graph())}, "number": {number}}}'
    status, reply = await worker.post("/prompt", body.encode())
    assert (status, reply["error"]["type"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("query", "count"),
    [
        (f"max_items={BEYOND_INDEX}", 3),
        (f"max_items=-{BEYOND_INDEX}", 0),
        ("max_items=-1", 0),
        (f"offset={BEYOND_INDEX}", 0),
        (f"offset=-{BEYOND_INDEX}", 3),
        (f"max_items={BEYOND_INDEX}&offset=1", 2),
        (f"max_items={2**63 - 1}&offset={2**63 - 1}", 0),
    ],
)
async def test_pages_of_history_may_be_asked_for_with_any_number(
    query: str, count: int, worker: WorkerClient
) -> None:
    for _ in range(3):
        await worker.run(simple_graph())
    status, body = await worker.get(f"/history?{query}")
    assert (status, len(body)) == (200, count)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        (f"limit={BEYOND_INDEX}", 1),
        (f"limit={'9' * 100}&offset={'9' * 100}", 0),
        (f"offset=-{'9' * 100}", 1),
    ],
)
async def test_pages_of_jobs_may_be_asked_for_with_any_number(
    query: str, count: int, worker: WorkerClient
) -> None:
    await worker.run(simple_graph())
    status, body = await worker.get(f"/api/jobs?{query}")
    assert (status, len(body["jobs"])) == (200, count)


def part(disposition: bytes, content: bytes = b"x") -> bytes:
    return b"--B\r\nContent-Disposition: form-data; " + disposition + b"\r\n\r\n" + content


IMAGE = part(b'name="image"; filename="up.png"')


def with_name(name: bytes) -> bytes:
    return part(b'name="image"; filename="' + name + b'"')


def with_encoded_name(name: bytes) -> bytes:
    return part(b"name=\"image\"; filename*=UTF-8''" + name)


def with_subfolder(name: bytes) -> bytes:
    return IMAGE + b"\r\n" + part(b'name="subfolder"', name)


@pytest.mark.parametrize(
    "form",
    [
        with_name(b"\x01.png"),
        with_name(b"a\nb.png"),
        with_name(b"\xff.png"),
        with_name(b"..."),
        with_name(b"   "),
        with_name(b" . "),
        with_name(b"x" * 252 + b".png"),
        with_name("é".encode() * 200),
        with_encoded_name(b"%01.png"),
        with_encoded_name(b"a%00b.png"),
        with_encoded_name(b"a%0D%0Ab.png"),
        with_encoded_name(b"a%7Fb.png"),
        with_encoded_name(b"%E2%80%A8.png"),
        with_encoded_name(b"%ED%A0%80.png"),
        with_subfolder(b"a\0b"),
        with_subfolder(b"a\nb"),
        with_subfolder(b"\xff"),
        with_subfolder(b"x" * 300),
        IMAGE + b"\r\n" + part(b'name="subfolder"; filename="x"'),
        IMAGE + b"\r\n" + part(b'name="type"; filename="x"'),
        IMAGE + b"\r\n" + part(b'name="type"\r\nContent-Type: text/plain; charset=zzz'),
        part(b'name="image"; filename="x"\r\nContent-Transfer-Encoding: zzz'),
        part(b'name="image"; filename="x"\r\nContent-Transfer-Encoding: base64'),
        part(b'name="image"; filename="x"\r\nContent-Type: multipart/mixed; boundary=C'),
        part(b'filename="up.png"'),
        b"--B\r\nnonsense\r\n\r\nx",
        b"--other\r\n\r\nx",
    ],
)
@BY_AIOHTTP
async def test_a_form_that_cannot_be_stored_is_refused_clearly(
    form: bytes, worker: WorkerClient, folders: Folders
) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=B"}
    status, reply = await worker.post("/upload/image", form + b"\r\n--B--\r\n", headers=headers)
    assert (status, reply["error"]["type"]) == (400, "invalid_request")
    assert list(folders.input.iterdir()) == []


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Type": "multipart/form-data; boundary=B"}, b""),
        ({"Content-Type": "multipart/form-data; boundary=B"}, IMAGE),
        ({"Content-Type": "multipart/form-data"}, b"x"),
        ({"Content-Type": "multipart/form-data; boundary=" + "B" * 200}, b"x"),
        ({"Content-Type": "application/x-www-form-urlencoded; charset=zzz"}, b"a=b"),
        ({"Content-Encoding": "gzip"}, b"not gzip"),
    ],
)
@BY_AIOHTTP
async def test_a_body_that_is_no_form_is_refused_clearly(
    headers: dict[str, str], body: bytes, worker: WorkerClient
) -> None:
    status, reply = await worker.post("/upload/image", body, headers=headers)
    assert (status, reply["error"]["type"]) == (400, "invalid_request")


async def test_a_family_may_be_in_a_name(worker: WorkerClient) -> None:
    name = "a b\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}.png"
    assert (await worker.upload(png(), name))[1]["name"] == name


async def test_a_reference_that_no_file_can_have_is_refused(worker: WorkerClient) -> None:
    reference = json.dumps({"filename": "\ud800", "type": "input"})
    status, _ = await worker.upload(png(), "m.png", "/upload/mask", original_ref=reference)
    assert status == 403


@pytest.mark.parametrize(
    ("wish", "status"),
    [("webp;" + "9" * 5000, 200), ("jpeg;0", 200), ("jpeg;²", 200), (";", 200), ("", 200)],
)
async def test_a_preview_of_any_quality(
    wish: str, status: int, worker: WorkerClient, folders: Folders
) -> None:
    (folders.output / "x.png").write_bytes(png())
    query = {"filename": "x.png", "preview": wish}
    assert (await worker.get("/view", params=query))[0] == status


async def test_an_image_that_is_too_wide_for_a_preview_is_refused(
    worker: WorkerClient, folders: Folders
) -> None:
    (folders.output / "wide.png").write_bytes(png((20_000, 1)))
    status, reply = await worker.get("/view?filename=wide.png&preview=webp")
    assert (status, reply["error"]["type"]) == (400, "invalid_request")
    assert (await worker.get("/view?filename=wide.png&preview=jpeg"))[0] == 200


@pytest.mark.parametrize("depth", [300, 500, 700, 850, 900, 940, 950, 960, 970, 980, 990, 2000])
async def test_a_prompt_of_any_depth_leaves_all_lists_readable(
    depth: int, worker: WorkerClient
) -> None:
    nested = "[" * depth + "]" * depth
    graph = {"1": empty_image(), "2": {**save("1"), "_meta": "DEEP"}}
    body = json.dumps({"prompt": graph, "prompt_id": "deep"}).replace('"DEEP"', nested)
    status, _ = await worker.post("/prompt", body.encode())
    assert status in (200, 400)
    if status == 200:
        assert (await worker.ended("deep"))["status"]["completed"]
        assert (await worker.get("/api/jobs/deep"))[0] == 200
    for path in ("/history", "/queue", "/api/jobs"):
        assert (await worker.get(path))[0] == 200


@pytest.mark.parametrize("odd", ["\ud800", 2**70])
async def test_odd_values_leave_history_in_strict_json(odd: Any, worker: WorkerClient) -> None:
    graph = simple_graph()
    graph["2"]["_meta"] = {"odd": odd, "none": math.nan, "large": math.inf}
    await worker.run(graph, prompt_id="odd")
    async with worker.session.get("/history") as reply:
        text = await reply.text()
    assert "NaN" not in text
    assert "Infinity" not in text
    shown = json.loads(text)["odd"]["prompt"][2]["2"]["_meta"]
    assert shown == {"odd": odd, "none": None, "large": None}


async def test_a_node_is_given_the_numbers_that_strict_json_cannot_say(folders: Folders) -> None:
    seen: list[float] = []

    @node("Take", required={"value": ("FLOAT", {})}, is_output=True)
    def take(value: float) -> NodeResult:
        seen.append(value)
        return NodeResult()

    graph = {"1": {"class_type": "Take", "inputs": {"value": math.nan}}}
    async with serving(folders, registry=registry_with(take)) as worker:
        entry = await worker.run(graph)
    assert entry["prompt"][2]["1"]["inputs"]["value"] is None
    assert math.isnan(seen[0])


@pytest.mark.parametrize("name", ["prompt_id", "client_id"])
async def test_an_id_that_is_too_long_is_refused(name: str, worker: WorkerClient) -> None:
    body = {"prompt": simple_graph(), name: "x" * 1001}
    status, reply = await worker.post("/prompt", body)
    assert status == 400
    assert name in reply["error"]["message"]


@pytest.mark.parametrize("path", ["/queue", "/history"])
async def test_a_list_of_ids_without_an_end_is_refused(path: str, worker: WorkerClient) -> None:
    status, reply = await worker.post(path, {"delete": ["x" * (9 << 20)]})
    assert (status, reply["error"]["type"]) == (400, "invalid_request")


async def test_prompts_that_were_deleted_are_let_go_at_once(worker: WorkerClient) -> None:
    await worker.running(await worker.submit(slow_graph(), prompt_id="run"))
    tracemalloc.start()
    try:
        for _ in range(10):
            prompt_id = await worker.submit(large_graph())
            await worker.post("/queue", {"delete": [prompt_id]})
        for _ in range(5):
            await worker.submit(large_graph())
        await worker.post("/queue", {"clear": True})
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert worker.worker.queue.used_bytes == 0
    assert held < 12 * MEGABYTE


def queued(prompt_id: str, number: float = 0, size: int = 0) -> QueuedPrompt:
    graph = {"1": {"text": "x" * size}}
    return QueuedPrompt.of(number, prompt_id, graph, {"create_time": 0}, ["1"])


def test_names_of_deleted_prompts_do_not_pile_up() -> None:
    queue = PromptQueue()
    queue.add(queued("last", 2))
    for number in range(1000):
        queue.add(queued(str(number), 1))
        queue.delete([str(number)])
    queue.add(queued("first", 1))
    assert len(queue._heap) < 10
    assert [item.prompt_id for item in queue.in_order()] == ["first", "last"]
    taken = [queue.take(), queue.take(), queue.take()]
    assert [item and item.prompt_id for item in taken] == ["first", "last", None]
    assert queue.used_bytes == 0


async def test_a_full_queue_refuses_with_a_503_until_there_is_room(folders: Folders) -> None:
    async with serving(folders, waiting_bytes=3 * MEGABYTE) as worker:
        await worker.running(await worker.submit(slow_graph(), prompt_id="run"))
        large = await worker.submit(large_graph())
        status, reply = await worker.post("/prompt", {"prompt": large_graph()})
        assert status == 503
        assert reply["error"]["type"] == "queue_full"
        assert sorted(reply["error"]) == ["details", "extra_info", "message", "type"]
        assert reply["node_errors"] == {}
        await worker.submit(simple_graph())
        await worker.post("/queue", {"delete": [large]})
        await worker.submit(large_graph())


async def test_history_is_bounded_by_bytes_and_keeps_the_newest(folders: Folders) -> None:
    async with serving(folders, history_bytes=5 * MEGABYTE) as worker:
        for prompt_id in "abcd":
            await worker.run(large_graph(), prompt_id=prompt_id)
        assert list((await worker.get("/history"))[1]) == ["c", "d"]
        assert (await worker.get("/api/jobs"))[1]["pagination"]["total"] == 2
        await worker.run(large_graph(6 * MEGABYTE), prompt_id="larger than all")
        assert list((await worker.get("/history"))[1]) == ["larger than all"]
        await worker.post("/history", {"clear": True})
        assert worker.worker.history.used_bytes == 0


def test_missed_ends_are_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missed_ends, "MOST_BYTES", MEGABYTE)
    missed = MissedEnds()
    message = text_message("execution_error", {"traceback": "x" * (300 << 10)})
    for number in range(10):
        missed.keep(str(number), [message])
    assert missed.used_bytes <= MEGABYTE
    assert missed.take("0") == []
    assert missed.take("9") == [message]


async def test_reports_go_on_after_some_could_not_be_delivered() -> None:
    count = 3 * MOST_REPORTS_AT_ONCE
    delivered: list[Any] = []
    all_arrived = asyncio.Event()

    def deliver(reports: Any) -> None:
        delivered.extend(reports)
        if len(delivered) == count:
            all_arrived.set()
        raise ValueError("a fault of ours")

    outbox = Outbox(asyncio.get_running_loop(), deliver)
    for _ in range(count):
        outbox.put(ExecutionDone())
    await asyncio.wait_for(all_arrived.wait(), 5)


async def test_a_prompt_ends_though_what_it_shows_cannot_be_told(folders: Folders) -> None:
    @node("Circle", is_output=True)
    def circle() -> NodeResult:
        items: list[Any] = []
        items.append(items)
        return NodeResult(ui={"items": [items]})

    async with serving(folders, registry=registry_with(circle)) as worker:
        await worker.submit(only("Circle"))
        assert (await worker.run(simple_graph()))["status"]["completed"]
        assert await worker.get("/prompt") == (200, {"exec_info": {"queue_remaining": 0}})


async def test_a_node_may_show_values_of_any_class(folders: Folders) -> None:
    import numpy as np

    @node("Odd", is_output=True)
    def odd() -> NodeResult:
        return NodeResult(ui={"values": [np.float32(0.5), Path("/x"), np.int64(3)]})

    async with serving(folders, registry=registry_with(odd)) as worker:
        entry = await worker.run(only("Odd"))
    assert entry["outputs"]["1"]["values"] == [0.5, "/x", 3]


async def test_a_node_without_memory_fails_clearly_and_the_worker_goes_on(
    folders: Folders,
) -> None:
    @node("Greedy", is_output=True)
    def greedy() -> NodeResult:
        raise MemoryError

    async with serving(folders, registry=registry_with(greedy)) as worker:
        status = (await worker.run(only("Greedy")))["status"]
        kind, data = status["messages"][-1]
        assert (kind, data["exception_type"]) == ("execution_error", "MemoryError")
        assert "memory" in data["exception_message"]
        assert (await worker.run(simple_graph()))["status"]["completed"]


async def test_an_image_larger_than_the_machine_fails_clearly(worker: WorkerClient) -> None:
    graph = simple_graph()
    graph["1"]["inputs"] |= {"width": 16384, "height": 16384, "batch_size": 4096}
    kind, data = (await worker.run(graph))["status"]["messages"][-1]
    assert kind == "execution_error"
    assert data["exception_message"]
    assert (await worker.run(simple_graph()))["status"]["completed"]


async def test_a_node_that_exits_does_not_take_the_worker_with_it(folders: Folders) -> None:
    @node("Leave", is_output=True)
    def leave() -> NodeResult:
        raise SystemExit(3)

    async with serving(folders, registry=registry_with(leave)) as worker:
        status = (await worker.run(only("Leave")))["status"]
        told = status["messages"][-1][1]
        assert (told["node_id"], told["exception_type"]) == (
            "1",
            "comfyrail.engine.invoke.NodeExited",
        )
        assert (await worker.run(simple_graph()))["status"]["completed"]


async def test_a_message_that_is_too_large_ends_only_its_own_socket(
    worker: WorkerClient,
) -> None:
    other = await worker.connect("other")
    loud = await worker.connect("loud")
    await loud.socket.send_str("x" * (socket_route.LARGEST_MESSAGE + 1))
    with pytest.raises(ConnectionError):
        await loud.until(lambda _: False)
    assert loud.socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
    await other.until_end(await worker.submit(simple_graph(), client_id="other"))


@pytest.mark.parametrize("client_id", ["%00%01", "%0D%0A", "%ED%A0%80", "%F0%9F%98%80", "x" * 1000])
async def test_a_client_may_have_an_odd_id(client_id: str, worker: WorkerClient) -> None:
    url = URL(f"{worker.url}/ws?clientId={client_id}", encoded=True)
    async with worker.session.ws_connect(url) as socket:
        sid = (await socket.receive_json())["data"]["sid"]
        prompt_id = await worker.submit(simple_graph(), client_id=sid)
        async with asyncio.timeout(5):
            while (await socket.receive_json())["type"] != "execution_success":
                pass
    assert (await worker.ended(prompt_id))["prompt"][3]["client_id"] == sid


async def test_a_client_id_that_is_too_long_is_refused(worker: WorkerClient) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await worker.connect("x" * 1001)
    assert refused.value.status == 400


async def test_more_sockets_than_a_worker_can_hold_are_refused(
    worker: WorkerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "MOST_SOCKETS", 3)
    held = [await worker.connect("me") for _ in range(3)]
    assert (await worker.get("/ws"))[0] == 503
    assert (await worker.get("/prompt"))[0] == 200
    await held[0].close()
    async with asyncio.timeout(5):
        while (await worker.get("/ws"))[0] == 503:
            pass
    await worker.connect("me")


async def test_long_lists_come_whole(worker: WorkerClient) -> None:
    graph = large_graph()
    for prompt_id in "abc":
        await worker.run(graph, prompt_id=prompt_id)
    _, history = await worker.get("/history")
    assert [entry["prompt"][2] for entry in history.values()] == [graph] * 3
    await worker.running(await worker.submit(slow_graph(), prompt_id="run"))
    for _ in range(3):
        await worker.submit(graph)
    _, queue = await worker.get("/queue")
    assert [item[2] for item in queue["queue_pending"]] == [graph] * 3
    assert (await worker.get("/api/jobs/a"))[1]["workflow"]["prompt"] == graph


async def test_other_requests_are_answered_while_a_long_list_is_sent(
    worker: WorkerClient,
) -> None:
    """The client takes nothing of the list at first: the worker has to hold it, and goes on."""
    for _ in range(8):
        await worker.run(large_graph())
    host, port = worker.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 10)
    writer.write(b"GET /history HTTP/1.1\r\nHost: x\r\n\r\n")
    assert await asyncio.wait_for(reader.readline(), 5) == b"HTTP/1.1 200 OK\r\n"
    assert (await worker.get("/prompt"))[0] == 200
    assert (await worker.run(simple_graph()))["status"]["completed"]
    writer.transport.abort()
    assert (await worker.get("/prompt"))[0] == 200


def test_a_link_that_leads_nowhere_does_not_stop_a_worker_from_starting(folders: Folders) -> None:
    (folders.output / "link").symlink_to("nowhere")
    (folders.output / "loop").symlink_to("loop")
    OutputRetention(folders, keep=1, clock=SystemClock()).enforce()
    assert len(list(folders.output.iterdir())) == 1


def test_counters_of_names_are_bounded(tmp_path: Path) -> None:
    names = OutputNames()
    for number in range(MOST_COUNTERS):
        names._last_used[str(tmp_path), str(number)] = 1
    assert names.save(tmp_path, "x", b"").filename == "x_00001_.png"
    assert names.save(tmp_path, "x", b"").filename == "x_00002_.png"
    assert len(names._last_used) == 1


def test_what_is_encoded_is_strict_whatever_else_is_in_it() -> None:
    value = {"a": [math.nan, -math.inf, 2**70], "b": "\ud800"}
    assert json.loads(encode_json(value)) == {"a": [None, None, 2**70], "b": "\ud800"}
