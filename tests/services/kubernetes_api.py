"""An API server that keeps to what Kubernetes documents of Pods, and really runs them.

It checks who asks and what is asked for, gives versions, lists, watches, deletes with a grace,
logs and a proxy; it forgets versions, breaks streams, and fails as it is told to. The container's
command runs as a process on this machine; the address of every pod is 127.0.0.1.
"""

import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from tests.engine.distributed.kubernetes_manifest import Invalid
from tests.engine.distributed.kubernetes_server import line, status
from tests.services.pod_manifest import check_pod

Pod = dict[str, Any]
Trouble = Callable[[web.Request], web.StreamResponse | None]


def trouble(code: int, times: int, method: str = "", **headers: str) -> Trouble:
    """The next requests (of one method) are answered with an error."""
    left = [times]

    def answer(request: web.Request) -> web.StreamResponse | None:
        if left[0] <= 0 or (method and request.method != method):
            return None
        left[0] -= 1
        reply = status(code, "Trouble", f"trouble on purpose ({code})")
        reply.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
        return reply

    return answer


@dataclass
class PodCluster:
    token: str = "s3cret"
    namespace: str = "renders"
    pods: dict[str, Pod] = field(default_factory=dict)
    created: list[Pod] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    processes: dict[str, "asyncio.subprocess.Process"] = field(default_factory=dict)
    logs: dict[str, bytes] = field(default_factory=dict)
    events: list[tuple[int, str, Pod]] = field(default_factory=list)
    version: int = 100
    troubles: list[Trouble] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    fate: str = "run"
    """What becomes of pods: run, image, config, unschedulable, crash, crash_loop, silent."""
    gone_watches: int = 0
    broken_watches: int = 0
    sticky_deletes: int = 0
    """So many deletes are accepted and forgotten."""
    lists: int = 0

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._gate], client_max_size=1 << 30)
        pods = f"/api/v1/namespaces/{self.namespace}/pods"
        app.router.add_post(pods, self._create)
        app.router.add_get(pods, self._list_or_watch)
        app.router.add_get(pods + "/{name}", self._get)
        app.router.add_delete(pods + "/{name}", self._delete)
        app.router.add_get(pods + "/{name}/log", self._log)
        app.router.add_route("*", pods + "/http:{name}:{port}/proxy{path:.*}", self._proxy)
        app.on_startup.append(self._start)
        app.on_cleanup.append(self._end)
        return app

    async def _start(self, _: web.Application) -> None:
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._http = aiohttp.ClientSession(auto_decompress=False)

    async def _end(self, _: web.Application) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()
        await self._http.close()

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append((request.method, request.path))
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return status(401, "Unauthorized", "Unauthorized")
        for each in self.troubles:
            answer = each(request)
            if answer is not None:
                return answer
        reply: web.StreamResponse = await handler(request)
        return reply

    # Requests

    async def _create(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            return status(415, "UnsupportedMediaType", "not JSON")
        pod = await request.json()
        try:
            check_pod(pod)
        except Invalid as error:
            return status(422, "Invalid", str(error))
        name = pod["metadata"]["name"]
        if name in self.pods:
            return status(409, "AlreadyExists", f'pods "{name}" already exists')
        self.add(pod)
        self.created.append(pod)
        await self._tell("ADDED", pod)
        self._spawn(self._run(pod))
        return web.json_response(pod, status=201)

    def add(self, pod: Pod) -> None:
        """Put a pod there, as someone else would."""
        pod["metadata"] |= {"namespace": self.namespace, "uid": secrets.token_hex(8)}
        pod["metadata"]["resourceVersion"] = str(self.version)
        pod["status"] = pod.get("status") or {"phase": "Pending", "conditions": []}
        self.pods[pod["metadata"]["name"]] = pod

    async def _get(self, request: web.Request) -> web.Response:
        pod = self.pods.get(request.match_info["name"])
        return _not_found(request) if pod is None else web.json_response(pod)

    async def _list_or_watch(self, request: web.Request) -> web.StreamResponse:
        selector = request.query["fieldSelector"]
        assert selector.startswith("metadata.name="), selector
        name = selector.removeprefix("metadata.name=")
        if request.query.get("watch") in {"1", "true"}:
            return await self._watch(request, name)
        self.lists += 1
        found = [pod for key, pod in self.pods.items() if key == name]
        return web.json_response(
            {
                "apiVersion": "v1",
                "kind": "PodList",
                "metadata": {"resourceVersion": str(self.version)},
                "items": found,
            }
        )

    async def _watch(self, request: web.Request, name: str) -> web.StreamResponse:
        version = int(request.query["resourceVersion"])
        reply = web.StreamResponse(headers={"Content-Type": "application/json"})
        reply.enable_chunked_encoding()
        await reply.prepare(request)
        if self.gone_watches:
            self.gone_watches -= 1
            gone = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410}
            gone |= {"reason": "Expired", "message": f"too old resource version: {version}"}
            await reply.write(line({"type": "ERROR", "object": gone}))
            return reply
        while True:
            news = [each for each in self.events if each[0] > version]
            pieces = [
                line({"type": what, "object": pod})
                for _, what, pod in news
                if pod["metadata"]["name"] == name
            ]
            version = max([version, *(each[0] for each in news)])
            if news and request.query.get("allowWatchBookmarks") == "true":
                mark = {"kind": "Pod", "metadata": {"resourceVersion": str(version)}}
                pieces.append(line({"type": "BOOKMARK", "object": mark}))
            together = b"".join(pieces)
            if together and self.broken_watches:
                self.broken_watches -= 1
                await reply.write(together[: len(together) // 2])
                assert request.transport is not None
                request.transport.abort()
                return reply
            for start in range(0, len(together), 700):
                await reply.write(together[start : start + 700])
            async with self._changed:
                if self.version <= version:
                    await self._changed.wait()

    async def _delete(self, request: web.Request) -> web.Response:
        pod = self.pods.get(request.match_info["name"])
        if pod is None:
            return _not_found(request)
        options = await request.json()
        assert options["kind"] == "DeleteOptions"
        wanted = options.get("preconditions", {}).get("uid")
        if wanted not in {None, pod["metadata"]["uid"]}:
            return status(409, "Conflict", "the UID in the precondition does not match")
        if self.sticky_deletes:
            self.sticky_deletes -= 1
            return status(500, "InternalError", "etcdserver: request timed out")
        grace = options.get("gracePeriodSeconds", 30)
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        pod["metadata"]["deletionGracePeriodSeconds"] = grace
        await self._tell("MODIFIED", pod)
        self._spawn(self._finish(pod, grace))
        return web.json_response(pod)

    async def _log(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.pods:
            return _not_found(request)
        if name not in self.logs:
            return status(400, "BadRequest", f'container in pod "{name}" is waiting to start')
        lines = self.logs[name].splitlines(keepends=True)
        kept = b"".join(lines[-int(request.query["tailLines"]) :])
        return web.Response(body=kept[: int(request.query["limitBytes"])])

    async def _proxy(self, request: web.Request) -> web.StreamResponse:
        name, port = request.match_info["name"], request.match_info["port"]
        if name not in self.pods:
            return _not_found(request)
        assert "Cookie" not in request.headers
        path = request.rel_url.raw_path.partition("/proxy")[2] or "/"
        url = f"http://127.0.0.1:{port}{path}"
        url += f"?{request.rel_url.raw_query_string}" if request.rel_url.query_string else ""
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._proxy_socket(request, url)
        kept = {"Content-Type", "Range"}
        headers = {key: value for key, value in request.headers.items() if key in kept}
        async with self._http.request(
            request.method, url, data=request.content, headers=headers
        ) as far:
            reply = web.StreamResponse(status=far.status)
            reply.content_type = far.content_type
            await reply.prepare(request)
            async for piece in far.content.iter_any():
                await reply.write(piece)
            return reply

    async def _proxy_socket(self, request: web.Request, url: str) -> web.WebSocketResponse:
        near = web.WebSocketResponse()
        await near.prepare(request)
        async with self._http.ws_connect(url) as far:

            async def inward() -> None:
                async for message in far:
                    await near.send_str(message.data)
                await near.close()

            task = asyncio.create_task(inward())
            async for message in near:
                await far.send_str(message.data)
            task.cancel()
        return near

    # What the scheduler and the kubelet do

    async def _run(self, pod: Pod) -> None:
        (container,) = pod["spec"]["containers"]
        match self.fate:
            case "unschedulable":
                why = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
                condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                await self._set(pod, conditions=[{**condition, "message": why}])
                return
            case "image":
                await self._wait_in(pod, "ErrImagePull", "manifest unknown")
                return
            case "config":
                await self._wait_in(pod, "CreateContainerConfigError", 'secret "x" not found')
                return
        given = {each["name"]: each["value"] for each in container.get("env", [])}
        await self._wait_in(pod, "ContainerCreating", "")
        process = await asyncio.create_subprocess_exec(
            *container.get("command", []),
            *container.get("args", []),
            env={"PATH": os.environ["PATH"], "HOME": "/tmp", **given},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        name = pod["metadata"]["name"]
        self.processes[pod["metadata"]["uid"]] = process
        self.logs[name] = b""
        self._spawn(self._keep_log(name, process))
        self._spawn(self._probe(pod, container))
        await self._set(pod, phase="Running", podIP="127.0.0.1", **_state(running={}))
        code = await process.wait()
        reason = "Completed" if code == 0 else "OOMKilled" if code == 137 else "Error"
        ended = {"exitCode": code if code >= 0 else 128 - code, "reason": reason}
        phase = "Succeeded" if code == 0 else "Failed"
        await self._set(pod, phase=phase, conditions=[], **_state(terminated=ended))

    async def _probe(self, pod: Pod, container: Pod) -> None:
        probe = container["readinessProbe"]["httpGet"]
        url = f"http://127.0.0.1:{probe['port']}{probe['path']}"
        while pod["status"].get("phase") != "Running" or self.fate == "silent":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async with self._http.get(url) as reply:
                    if reply.status == 200:
                        break
            await asyncio.sleep(0.05)
        if pod["status"]["phase"] == "Running":
            await self._set(pod, conditions=[{"type": "Ready", "status": "True"}])

    async def _keep_log(self, name: str, process: "asyncio.subprocess.Process") -> None:
        assert process.stdout is not None
        while piece := await process.stdout.read(1 << 16):
            self.logs[name] += piece

    async def _finish(self, pod: Pod, grace: int) -> None:
        process = self.processes.get(pod["metadata"]["uid"])
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(grace):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        name = pod["metadata"]["name"]
        if self.pods.get(name) is pod:
            del self.pods[name]
            self.deleted.append(name)
            await self._tell("DELETED", pod)

    async def _wait_in(self, pod: Pod, reason: str, message: str) -> None:
        await self._set(pod, **_state(waiting={"reason": reason, "message": message}))

    async def _set(self, pod: Pod, **fields: Any) -> None:
        pod["status"] = {**pod["status"], **fields}
        if self.pods.get(pod["metadata"]["name"]) is pod:
            await self._tell("MODIFIED", pod)

    async def _tell(self, what: str, pod: Pod) -> None:
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        self.events.append((self.version, what, json.loads(json.dumps(pod))))
        async with self._changed:
            self._changed.notify_all()

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _state(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "comfyui", "state": state, "ready": False}]}


def _not_found(request: web.Request) -> web.Response:
    return status(404, "NotFound", f'pods "{request.match_info["name"]}" not found')


@contextlib.asynccontextmanager
async def serving_cluster(cluster: PodCluster, **more: Any) -> AsyncIterator[str]:
    """In this process; gives the URL."""
    runner = web.AppRunner(cluster.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, **more).start()
    scheme = "https" if more.get("ssl_context") else "http"
    try:
        yield f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
