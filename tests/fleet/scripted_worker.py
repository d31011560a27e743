"""A worker that speaks ComfyUI's protocol as badly as a test tells it to."""

import asyncio
import copy
from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import WSMsgType, web

OBJECT_INFO = {
    "Make": {"input": {"required": {}}, "output": ["IMAGE"]},
    "Keep": {
        "input": {"required": {"image": ["IMAGE"]}},
        "output": [],
        "output_node": True,
    },
}
GRAPH: dict[str, dict[str, Any]] = {
    "1": {"class_type": "Make", "inputs": {}},
    "2": {"class_type": "Keep", "inputs": {"image": ["1", 0]}},
}

Script = Callable[["ScriptedWorker", str], Coroutine[Any, Any, None]]


class ScriptedWorker:
    """Runs `script(worker, prompt_id)` for every prompt that it takes."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.history: dict[str, Any] = {}
        self.queue: list[str] = []
        """Prompts that run."""
        self.pending: list[str] = []
        self.options: list[str] = []
        """Prompts that wait for their turn, where there is one at a time."""
        self.is_serial = False
        self.is_hiding = False
        """Whether its queue looks empty."""
        self.claims: list[str] = []
        """Prompts that it says are running, whether they do or not."""
        self.deleted: list[str] = []
        self.submitted: list[str] = []
        self.stopped: list[str] = []
        self.freed: list[Any] = []
        self.files: dict[str, bytes] = {"a.png": b"picture"}
        self.refuse_prompt: tuple[int, Any] | None = None
        self.refuse_upload: tuple[int, bytes] | None = None
        self.inputs: dict[tuple[str, str], bytes] = {}
        """Uploaded files by subfolder and name."""
        self.uploads = 0
        self.prompts: dict[str, Any] = {}
        self.delay = 0.0
        """Seconds before every answer."""
        self.garbage: dict[str, tuple[int, bytes]] = {}
        """What it answers to a path, or to all that begin with it, in place of the truth."""
        self.calls: list[str] = []
        self.is_half_open = False
        """Its sockets look alive and are not: nothing is read, sent or answered."""
        self.first_messages: list[Any] = []
        self.url = ""
        self.sockets: list[web.WebSocketResponse] = []
        self.accepts_sockets = True
        self.is_frozen = False
        self.obeys_interrupts = False
        self.object_info: dict[str, Any] = copy.deepcopy(OBJECT_INFO)
        self.models: dict[str, dict[str, int]] = {}
        self.broken_folders: set[str] = set()
        self.dripping: set[str] = set()
        self.drips = 0
        self.views = 0
        self.clients: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        app = web.Application(middlewares=[self._misbehave], client_max_size=1 << 30)
        app.add_routes(
            [
                web.get("/system_stats", self._stats),
                web.get("/object_info", self._object_info),
                web.get("/experiment/models", self._folders),
                web.get("/experiment/models/{folder}", self._models),
                web.get("/queue", self._show_queue),
                web.post("/queue", self._change_queue),
                web.post("/interrupt", self._interrupt),
                web.post("/free", self._free),
                web.post("/prompt", self._prompt),
                web.get("/history/{prompt_id}", self._history),
                web.get("/view", self._view),
                web.post("/upload/image", self._upload),
                web.get("/ws", self._socket),
            ]
        )
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        self.is_frozen = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.drop_sockets()
        if self._runner is not None:
            await self._runner.cleanup()

    # What scripts do

    async def say(self, kind: str, **data: Any) -> None:
        for socket in self._listening():
            await socket.send_json({"type": kind, "data": data})

    async def say_raw(self, text: str) -> None:
        for socket in self._listening():
            await socket.send_str(text)

    async def send_frame(self, frame: bytes) -> None:
        for socket in self._listening():
            await socket.send_bytes(frame)

    def _listening(self) -> list[web.WebSocketResponse]:
        return [] if self.is_half_open else [each for each in self.sockets if not each.closed]

    async def drop_sockets(self) -> None:
        sockets, self.sockets = self.sockets, []
        for socket in sockets:
            await socket.close()

    def succeed(self, prompt_id: str, *names: str) -> None:
        files = [{"filename": name, "subfolder": "", "type": "output"} for name in names]
        self.end(prompt_id, "success", [["execution_success", {}]], {"2": {"images": files}})

    def end(self, prompt_id: str, status: str, messages: list[Any], outputs: Any = None) -> None:
        if prompt_id in self.queue:
            self.queue.remove(prompt_id)
            self._begin_next()
        self.history[prompt_id] = {
            "outputs": outputs or {},
            "status": {"status_str": status, "messages": messages},
        }

    # The protocol

    async def _stats(self, _request: web.Request) -> web.Response:
        system = {"argv": ["main.py", *self.options]}
        return web.json_response({"system": system, "devices": [{"name": "cpu", "vram_total": 1}]})

    async def _object_info(self, _request: web.Request) -> web.Response:
        return web.json_response(self.object_info)

    async def _folders(self, _request: web.Request) -> web.Response:
        return web.json_response([{"name": name, "folders": []} for name in self.models])

    async def _models(self, request: web.Request) -> web.Response:
        folder = request.match_info["folder"]
        if folder in self.broken_folders:
            return web.Response(status=500)
        models = self.models[folder]
        return web.json_response([{"name": name, "size": size} for name, size in models.items()])

    async def _show_queue(self, _request: web.Request) -> web.Response:
        running = [] if self.is_hiding else [*self.queue, *self.claims]
        pending = [] if self.is_hiding else self.pending
        return web.json_response(
            {"queue_running": self._listed(running), "queue_pending": self._listed(pending)}
        )

    def _listed(self, prompt_ids: list[str]) -> list[Any]:
        return [[0, each, {}, {"client_id": self.clients.get(each)}, []] for each in prompt_ids]

    async def _change_queue(self, request: web.Request) -> web.Response:
        for prompt_id in (await request.json()).get("delete", []):
            self.deleted.append(prompt_id)
            if prompt_id in self.pending:
                self.pending.remove(prompt_id)
        return web.Response()

    async def _interrupt(self, request: web.Request) -> web.Response:
        prompt_id = (await request.json())["prompt_id"]
        self.stopped.append(prompt_id)
        if self.obeys_interrupts and prompt_id in self.queue:
            self.end(prompt_id, "error", [["execution_interrupted", {}]])
        return web.Response()

    async def _free(self, request: web.Request) -> web.Response:
        self.freed.append(await request.json())
        return web.Response()

    async def _prompt(self, request: web.Request) -> web.Response:
        if self.refuse_prompt is not None:
            status, body = self.refuse_prompt
            return web.json_response(body, status=status)
        body = await request.json()
        prompt_id = body["prompt_id"]
        self.clients[prompt_id] = body["client_id"]
        self.prompts[prompt_id] = body
        self.submitted.append(prompt_id)
        self.pending.append(prompt_id)
        if not self.is_serial or not self.queue:
            self._begin_next()
        return web.json_response({"prompt_id": prompt_id, "number": 1, "node_errors": {}})

    def _begin_next(self) -> None:
        if self.pending:
            prompt_id = self.pending.pop(0)
            self.queue.append(prompt_id)
            task = asyncio.create_task(self.script(self, prompt_id))
            self._tasks.add(task)

    async def _history(self, request: web.Request) -> web.Response:
        prompt_id = request.match_info["prompt_id"]
        found = self.history.get(prompt_id)
        return web.json_response({prompt_id: found} if found else {})

    async def _view(self, request: web.Request) -> web.StreamResponse:
        self.views += 1
        if request.query.get("type") == "input":
            found = self.inputs.get((request.query["subfolder"], request.query["filename"]))
            return web.Response(body=found) if found is not None else web.Response(status=404)
        if request.query["filename"] in self.dripping:
            return await self._drip(request)
        content = self.files.get(request.query["filename"])
        return web.Response(body=content) if content is not None else web.Response(status=404)

    async def _drip(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while request.transport is not None and not request.transport.is_closing():
            await response.write(b"drip")
            self.drips += 1
            await asyncio.sleep(0.02)
        return response

    async def _upload(self, request: web.Request) -> web.Response:
        if self.refuse_upload is not None:
            status, body = self.refuse_upload
            return web.Response(status=status, body=body)
        form = await request.post()
        file = form["image"]
        assert isinstance(file, web.FileField)
        subfolder = str(form["subfolder"])
        self.uploads += 1
        self.inputs[subfolder, file.filename] = file.file.read()
        reply = {"name": file.filename, "subfolder": subfolder, "type": form["type"]}
        return web.json_response(reply)

    @web.middleware
    async def _misbehave(
        self, request: web.Request, handler: Callable[[web.Request], Any]
    ) -> web.StreamResponse:
        self.calls.append(f"{request.method} {request.path}")
        while self.is_frozen:  # noqa: ASYNC110 - stands for a process that is stopped
            await asyncio.sleep(0.02)
        if self.delay and request.path != "/ws":
            await asyncio.sleep(self.delay)
        for path, (status, body) in self.garbage.items():
            if request.path.startswith(path):
                return web.Response(status=status, body=body)
        response: web.StreamResponse = await handler(request)
        return response

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if not self.accepts_sockets:
            return web.Response(status=500)
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        self.sockets.append(socket)
        async for message in socket:
            if message.type is WSMsgType.ERROR:
                break
            if message.type is WSMsgType.PING and not self.is_half_open:
                await socket.pong(message.data)
            if message.type is WSMsgType.TEXT:
                self.first_messages.append(message.json())
        return socket
