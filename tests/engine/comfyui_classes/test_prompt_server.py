"""The stand-in for ComfyUI's server: routes, messages, the queue."""

import asyncio
import json
import struct
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from PIL import Image

from comfyrail.engine.comfyui.pictures import encode_picture
from comfyrail.engine.comfyui.progress import ProgressReporter
from comfyrail.engine.comfyui.prompt_server import BinaryEventTypes, PromptServer
from comfyrail.engine.events import Event, NodeProgress, Picture, Preview, TextShown


class Sent:
    def __init__(self) -> None:
        self.messages: list[tuple[Any, ...]] = []

    def send_json(self, kind: str, data: Any, client_id: str | None) -> None:
        self.messages.append((kind, data, client_id))

    def send_bytes(self, content: bytes, client_id: str | None) -> None:
        self.messages.append((content, client_id))

    def send_picture(
        self, image: bytes, image_format: str, metadata: Mapping[str, Any], client_id: str | None
    ) -> None:
        self.messages.append((Image.open(BytesIO(image)).size, image_format, metadata, client_id))


class Queue:
    def __init__(self) -> None:
        self.deleted: list[Any] = []
        self.freed: list[Any] = []

    def running(self) -> Sequence[Sequence[Any]]:
        return [[0, "a", {}, {}, []]]

    def pending(self) -> Sequence[Sequence[Any]]:
        return [[1, "b", {}, {}, []], [2, "c", {}, {}, []]]

    def remaining(self) -> int:
        return 3

    def history(self) -> Mapping[str, Any]:
        return {"x": 1, "y": 2, "z": 3}

    def delete(self, prompt_ids: Sequence[str] | None) -> None:
        self.deleted.append(prompt_ids)

    def free(self, *, unload_models: bool, free_memory: bool) -> None:
        self.freed.append((unload_models, free_memory))


class Parts:
    def __init__(self) -> None:
        self.server = PromptServer(asyncio.get_running_loop())
        self.sent = Sent()
        self.queue = Queue()
        self.server.connect(self.sent, self.queue)


@pytest.fixture
async def parts() -> Parts:
    return Parts()


def picture(longest: int | None = 10, name: str = "JPEG", mode: str = "RGB") -> Any:
    return (name, Image.new(mode, (40, 20)), longest)


async def test_packs_find_it_as_the_one_instance(parts: Parts) -> None:
    assert PromptServer.instance is parts.server


async def test_messages_from_any_thread_reach_clients(parts: Parts) -> None:
    await asyncio.to_thread(parts.server.send_sync, "event", {"a": 1}, "client")
    parts.server.send_sync("all", {})
    await asyncio.sleep(0)
    assert parts.sent.messages == [("event", {"a": 1}, "client"), ("all", {}, None)]


async def test_a_worker_may_bring_messages_to_the_loop_in_its_own_order(parts: Parts) -> None:
    posted: list[Any] = []
    parts.server.connect(parts.sent, parts.queue, posted.append)
    parts.server.send_sync("event", {}, "client")
    await asyncio.sleep(0)
    assert parts.sent.messages == []
    posted[0]()
    assert parts.sent.messages == [("event", {}, "client")]


async def test_bytes_have_their_number_in_front(parts: Parts) -> None:
    parts.server.send_sync(3, b"abc", "client")
    await asyncio.sleep(0)
    assert parts.sent.messages == [(struct.pack(">I", 3) + b"abc", "client")]


async def test_pictures_are_encoded_and_made_small(parts: Parts) -> None:
    parts.server.send_sync(BinaryEventTypes.UNENCODED_PREVIEW_IMAGE, picture(), "client")
    parts.server.send_sync(
        BinaryEventTypes.PREVIEW_IMAGE_WITH_METADATA, (picture(None, "PNG"), {"node_id": "1"}), "c"
    )
    parts.server.send_sync(BinaryEventTypes.UNENCODED_PREVIEW_IMAGE, "no picture", "client")
    await asyncio.sleep(0)
    assert parts.sent.messages == [
        ((10, 5), "jpeg", {}, "client"),
        ((40, 20), "png", {"node_id": "1"}, "c"),
    ]


async def test_before_there_is_a_worker_messages_go_nowhere() -> None:
    server = PromptServer(asyncio.get_running_loop())
    server.send_sync("event", {})
    server.send_progress_text("x", "1")
    assert server.prompt_queue.get_tasks_remaining() == 0
    assert server.prompt_queue.get_current_queue() == ([], [])


async def test_texts_belong_to_the_execution_that_runs(parts: Parts) -> None:
    events: list[Event] = []
    parts.server.follow(events.append)
    parts.server.send_progress_text(b"one", "5")
    parts.server.follow(None)
    parts.server.send_progress_text("two", "56")
    await asyncio.sleep(0)
    assert events == [TextShown("5", "one")]
    assert parts.sent.messages == [(struct.pack(">II", 3, 2) + b"56two", None)]


async def test_the_queue_can_be_read_and_emptied(parts: Parts) -> None:
    queue = parts.server.prompt_queue
    running, pending = queue.get_current_queue()
    assert [item[1] for item in running] == ["a"]
    assert [item[1] for item in pending] == ["b", "c"]
    assert queue.get_tasks_remaining() == 3
    assert parts.server.get_queue_info() == {"exec_info": {"queue_remaining": 3}}
    assert queue.get_history(prompt_id="y") == {"y": 2}
    assert queue.get_history(max_items=2) == {"y": 2, "z": 3}
    assert queue.get_history(max_items=1, offset=0, map_function=str) == {"x": "1"}
    assert queue.delete_queue_item(lambda item: item[1] == "c")
    assert not queue.delete_queue_item(lambda item: item[1] == "a")
    queue.wipe_queue()
    queue.set_flag("free_memory", True)
    assert parts.queue.deleted == [["c"], None]
    assert parts.queue.freed == [(False, True)]
    assert queue.get_flags() == {}


async def test_handlers_may_change_what_is_submitted(parts: Parts) -> None:
    def fail(_: Any) -> Any:
        raise ValueError

    parts.server.add_on_prompt_handler(lambda body: body | {"one": 1})
    parts.server.add_on_prompt_handler(fail)
    parts.server.add_on_prompt_handler(lambda body: body | {"two": 2})
    assert parts.server.trigger_on_prompt({}) == {"one": 1, "two": 2}


async def test_routes_of_packs_are_added_to_the_workers(parts: Parts) -> None:
    async def reply(request: web.Request) -> web.Response:
        return web.json_response(request.path)

    async def own(_: web.Request) -> web.Response:
        return web.json_response("own")

    @web.middleware
    async def mark(request: web.Request, handler: Any) -> web.StreamResponse:
        response: web.StreamResponse = await handler(request)
        response.headers["X-Pack"] = "yes"
        return response

    server = parts.server
    server.routes.get("/pack/{name}")(reply)
    server.routes.get("/queue")(reply)
    server.app.router.add_get("/direct", reply)
    server.app.middlewares.append(mark)
    app = web.Application()
    app.router.add_get("/queue", own)
    server.join(app)
    assert server.app is app
    async with TestClient(TestServer(app)) as client:
        for path, answer in {
            "/pack/a": "/pack/a",
            "/api/pack/a": "/api/pack/a",
            "/direct": "/direct",
            "/queue": "own",
            "/api/queue": "/api/queue",
        }.items():
            response = await client.get(path)
            assert json.loads(await response.text()) == answer
            assert response.headers["X-Pack"] == "yes"


class Run:
    execution_id = "e"
    prompt: Mapping[str, Any] = {}
    graph: Any = None

    def __init__(self, extra_data: Mapping[str, Any]) -> None:
        self.extra_data = extra_data
        self.events: list[Event] = []
        self.emit = self.events.append


@pytest.fixture
def run() -> Run:
    return Run({})


def test_progress_becomes_events(run: Run) -> None:
    reporter = ProgressReporter(run)
    reporter.update_handler("5", 1, 2, {}, "e")
    reporter.update_handler("5", 2, 2, {}, "e", picture())
    progress, again, preview = run.events
    assert (progress, again) == (NodeProgress("5", 1, 2), NodeProgress("5", 2, 2))
    assert isinstance(preview, Preview)
    assert (preview.node_id, preview.format) == ("5", "jpeg")


def test_a_whole_png_is_a_result_and_not_a_preview() -> None:
    run = Run({"preview_method": "none"})
    reporter = ProgressReporter(run)
    reporter.update_handler("5", 1, 1, {}, "e", picture(None, "PNG"))
    reporter.update_handler("5", 1, 1, {}, "e", picture())
    assert [type(event) for event in run.events] == [NodeProgress, Picture, NodeProgress]


@pytest.mark.parametrize("odd", [None, "x", ("JPEG", "no image", 5), ("JPEG", 1), 5])
def test_what_is_no_picture_is_not_shown(odd: Any) -> None:
    assert encode_picture(odd) is None


def test_pictures_of_other_forms_become_jpeg() -> None:
    encoded = encode_picture(picture(None, "WEBP", "RGBA"))
    assert encoded is not None
    assert encoded.format == "jpeg"
