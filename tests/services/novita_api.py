"""A server that keeps to what Novita documents of GPU instances, and really runs them.

The contract is that of https://novita.ai/docs/api-reference/gpu-instance-create-instance and its
neighbours (get, list, delete). Every field is checked; the start command runs as a process on this
machine, which finds its port in the variable PORT. It fails as it is told to.
"""

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.services.ports import free_ports

PATH = "/gpu-instance/openapi/v1"
CREATE_FIELDS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "productId": str,
    "gpuNum": int,
    "rootfsSize": int,
    "imageUrl": str,
    "imageAuth": str,
    "imageAuthId": str,
    "ports": str,
    "envs": list,
    "tools": list,
    "command": str,
    "entrypoint": str,
    "clusterId": str,
    "networkStorages": list,
    "networkId": str,
    "kind": str,
    "month": int,
    "billingMode": str,
    "autoRenew": bool,
    "autoRenewMonth": int,
    "minCudaVersion": str,
}
REQUIRED = {"productId", "gpuNum", "rootfsSize", "imageUrl", "kind"}

Trouble = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


def refusal(status: int, reason: str, message: str, **headers: str) -> web.Response:
    body = {"code": status, "reason": reason, "message": message, "metadata": {}}
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.json_response(body, status=status, headers=sent)


def trouble(
    status: int, times: int, path: str = "", reason: str = "TROUBLE", **headers: str
) -> Trouble:
    """The next requests (to one path) are answered with an error."""
    left = [times]

    async def answer(request: web.Request) -> web.StreamResponse | None:
        if left[0] <= 0 or not request.path.endswith(path):
            return None
        left[0] -= 1
        return refusal(status, reason, f"trouble on purpose ({status})", **headers)

    return answer


@dataclass
class NovitaCloud:
    key: str = "sk_test"
    products: set[str] = field(default_factory=lambda: {"4090.16c96g", "h200"})
    instances: dict[str, dict[str, Any]] = field(default_factory=dict)
    processes: dict[str, "asyncio.subprocess.Process"] = field(default_factory=dict)
    created: list[dict[str, Any]] = field(default_factory=list)
    deletes: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    fate: str = "run"
    """What becomes of instances: run, image, exit, silent, stuck."""
    lost_answers: int = 0
    """So many instances are made without a word: the line breaks before the answer."""
    lazy_deletes: int = 0
    """So many deletes are accepted and forgotten."""
    first_page: int = 0
    step: float = 0.01
    url: str = ""

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._gate])
        app.router.add_post(f"{PATH}/gpu/instance/create", self._create)
        app.router.add_get(f"{PATH}/gpu/instance", self._get)
        app.router.add_get(f"{PATH}/gpu/instances", self._list)
        app.router.add_post(f"{PATH}/gpu/instance/delete", self._delete)
        app.router.add_get("/log/{id}", self._log)
        app.on_startup.append(self._start)
        app.on_cleanup.append(self._end)
        return app

    async def _start(self, _: web.Application) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def _end(self, _: web.Application) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append(request.path.removeprefix(PATH))
        if request.path.startswith("/log/"):
            assert "Authorization" not in request.headers
            log: web.StreamResponse = await handler(request)
            return log
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            return refusal(401, "INVALID_API_KEY", "API key validation failed")
        if request.headers.get("Content-Type") != "application/json":
            return refusal(400, "INVALID_REQUEST", "Content-Type must be application/json")
        for each in self.troubles:
            answer = await each(request)
            if answer is not None:
                return answer
        reply: web.StreamResponse = await handler(request)
        return reply

    # Requests

    async def _create(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        fault = self._fault_in(body)
        if fault:
            return refusal(400, "INVALID_REQUEST_BODY", fault)
        instance_id = secrets.token_hex(8)
        self.created.append(body)
        self.add(instance_id, body)
        task = asyncio.create_task(self._run(instance_id, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.lost_answers:
            self.lost_answers -= 1
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"id": instance_id})

    def add(self, instance_id: str, body: dict[str, Any]) -> dict[str, Any]:
        instance = {
            "id": instance_id,
            "name": body.get("name", ""),
            "clusterId": body.get("clusterId") or "us-ca-1",
            "status": "toCreate",
            "statusError": {"state": "", "message": ""},
            "imageUrl": body.get("imageUrl", ""),
            "gpuNum": str(body.get("gpuNum", 1)),
            "portMappings": [],
            "envs": body.get("envs", []),
            "kind": "gpu",
            "billingMode": body.get("billingMode", "onDemand"),
            "connectComponentLog": {"systemLogAddress": "", "instanceLogAddress": ""},
        }
        self.instances[instance_id] = instance
        return instance

    def _fault_in(self, body: Any) -> str | None:
        for name, value in body.items():
            if name not in CREATE_FIELDS:
                return f"unknown field {name}"
            kinds = CREATE_FIELDS[name]
            if not isinstance(value, kinds) or (kinds is int and isinstance(value, bool)):
                return f"{name} has the wrong type"
        missing = REQUIRED - set(body)
        if missing:
            return f"{sorted(missing)} required"
        port, _, kind = body["ports"].partition("/")
        checks = {
            "name": len(body["name"]) <= 255,
            "productId": body["productId"] in self.products,
            "gpuNum": 1 <= body["gpuNum"] <= 8,
            "rootfsSize": 10 <= body["rootfsSize"] <= 6144,
            "imageUrl": 1 <= len(body["imageUrl"]) <= 500,
            "imageAuth": ":" in body.get("imageAuth", ":"),
            "ports": kind in {"http", "tcp"} and port not in {"2222", "2223", "2224"},
            "envs": len(body["envs"]) <= 100 and all(is_variable(each) for each in body["envs"]),
            "command": len(body.get("command", "")) <= 2047,
            "networkStorages": all(
                set(each) == {"Id", "mountPoint"} for each in body.get("networkStorages", [])
            ),
            "kind": body["kind"] in {"gpu", "cpu"},
            "billingMode": body["billingMode"] in {"onDemand", "monthly", "spot"},
        }
        wrong = [name for name, good in checks.items() if not good]
        return f"{wrong[0]} is invalid" if wrong else None

    async def _get(self, request: web.Request) -> web.Response:
        instance = self.instances.get(request.query["instanceId"])
        if instance is None:
            return refusal(400, "RESOURCE_NOT_FOUND", "instance not found")
        return web.json_response(instance)

    async def _list(self, request: web.Request) -> web.Response:
        size, number = int(request.query["pageSize"]), int(request.query["pageNum"])
        wanted = request.query.get("name", "")
        found = [each for each in self.instances.values() if wanted in each["name"]]
        begin = max(0, number - self.first_page) * size
        page = [
            {
                **each,
                "portMappings": [
                    {"port": one["port"], "type": one["type"]} for one in each["portMappings"]
                ],
            }
            for each in found[begin : begin + size]
        ]
        return web.json_response({"instances": page})

    async def _delete(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert set(body) == {"instanceId"}
        instance = self.instances.get(body["instanceId"])
        if instance is None:
            return refusal(400, "RESOURCE_NOT_FOUND", "instance not found")
        self.deletes.append(instance["id"])
        if self.lazy_deletes:
            self.lazy_deletes -= 1
            return web.json_response({})
        instance["status"] = "toRemove"
        task = asyncio.create_task(self._remove(instance["id"]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return web.json_response({})

    async def _log(self, request: web.Request) -> web.StreamResponse:
        reply = web.StreamResponse()
        await reply.prepare(request)
        await reply.write(b"".join(b"line %d\n" % number for number in range(20)))
        await asyncio.sleep(60)
        return reply

    # What the cloud does

    async def _run(self, instance_id: str, body: dict[str, Any]) -> None:
        instance = self.instances[instance_id]
        for status in ("creating", "pulling"):
            await asyncio.sleep(self.step)
            instance["status"] = status
        match self.fate:
            case "stuck":
                return
            case "image":
                message = "failed to pull image: manifest unknown"
                instance["statusError"] = {"state": "ImagePullFailed", "message": message}
                return
            case "exit":
                await asyncio.sleep(self.step)
                instance["status"] = "exited"
                instance["statusError"] = {"state": "Error", "message": "spot reclaimed"}
                return
        (port,) = free_ports(1)
        given = {each["key"]: each["value"] for each in body["envs"]}
        process = await asyncio.create_subprocess_shell(
            f"exec {body['command']}" if self.fate == "run" else "exec sleep 60",
            env={"PATH": os.environ["PATH"], "PORT": str(port), **given},
            stdout=asyncio.subprocess.DEVNULL,
        )
        self.processes[instance_id] = process
        number, _, kind = body["ports"].partition("/")
        endpoint = f"http://127.0.0.1:{port}"
        instance["portMappings"] = [{"port": int(number), "endpoint": endpoint, "type": kind}]
        instance["connectComponentLog"]["instanceLogAddress"] = f"{self.url}/log/{instance_id}"
        instance["status"] = "running"
        await process.wait()
        if instance["status"] == "running":
            instance["status"] = "exited"

    async def _remove(self, instance_id: str) -> None:
        await asyncio.sleep(self.step)
        process = self.processes.get(instance_id)
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        self.instances.pop(instance_id, None)


def is_variable(each: Any) -> bool:
    return (
        set(each) == {"key", "value"}
        and isinstance(each["value"], str)
        and 1 <= len(each["key"]) <= 511
        and len(each["value"]) <= 4095
    )


@contextlib.asynccontextmanager
async def serving_novita(cloud: NovitaCloud) -> AsyncIterator[str]:
    """In this process; gives the URL."""
    runner = web.AppRunner(cloud.app(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    cloud.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield cloud.url
    finally:
        await runner.cleanup()
