"""An API server that keeps to what Kubernetes documents of Jobs, and really runs them.

It checks who asks and what is asked for, gives versions, lists, watches that come in odd pieces,
forgets versions, breaks streams, and starts the command of a Job's container as a process that
has the environment of the manifest and nothing else.
"""

import asyncio
import contextlib
import json
import os
import secrets
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.engine.distributed.kubernetes_manifest import Invalid, check_job

LARGEST_OBJECT = 1_500_000
Job = dict[str, Any]


@dataclass
class Cluster:
    """What the server holds, and how it shall misbehave."""

    token: str
    namespace: str = "renders"
    jobs: dict[str, Job] = field(default_factory=dict)
    created: list[Job] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    processes: dict[str, "asyncio.subprocess.Process"] = field(default_factory=dict)
    version: int = 100
    events: list[tuple[int, str, Job]] = field(default_factory=list)
    busy_answers: int = 1
    """So many requests to create are answered with 429."""
    gone_watches: int = 1
    """So many watches find that their version is forgotten."""
    broken_watches: int = 1
    """So many watches end in the middle of an event."""
    watches: int = 0
    lists: int = 0
    seconds_of_a_second: float = 1.0
    """How long a second of a deadline is."""

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._check_token], client_max_size=LARGEST_OBJECT)
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs"
        app.router.add_post(path, self._create)
        app.router.add_get(path, self._list_or_watch)
        app.router.add_delete(path + "/{name}", self._delete)
        app.on_startup.append(self._start)
        app.on_cleanup.append(self._end)
        return app

    async def _start(self, _: web.Application) -> None:
        self._changed = asyncio.Condition()
        self._runs: set[asyncio.Task[None]] = set()

    async def _end(self, _: web.Application) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
        for run in list(self._runs):
            run.cancel()
        await asyncio.gather(*self._runs, return_exceptions=True)
        for process in self.processes.values():
            await process.wait()

    @web.middleware
    async def _check_token(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return status(401, "Unauthorized", "Unauthorized")
        reply: web.StreamResponse = await handler(request)
        return reply

    # Requests

    async def _create(self, request: web.Request) -> web.Response:
        if self.busy_answers:
            self.busy_answers -= 1
            busy = status(429, "TooManyRequests", "too many requests, please try again later")
            busy.headers["Retry-After"] = "0"
            return busy
        if request.content_type != "application/json":
            return status(415, "UnsupportedMediaType", "not JSON")
        body = await request.read()
        try:
            job = json.loads(body)
            check_job(job)
        except Invalid as error:
            return status(422, "Invalid", str(error))
        name = job["metadata"]["generateName"] + secrets.token_hex(3)[:5]
        job["metadata"] |= {"name": name, "namespace": self.namespace, "uid": secrets.token_hex(8)}
        job["status"] = {}
        self.jobs[name] = job
        self.created.append(job)
        await self._tell("ADDED", job)
        run = asyncio.create_task(self._run(job))
        self._runs.add(run)
        run.add_done_callback(self._runs.discard)
        return web.json_response(job, status=201)

    async def _list_or_watch(self, request: web.Request) -> web.StreamResponse:
        wanted = dict(part.split("=") for part in request.query["labelSelector"].split(","))
        if request.query.get("watch") in {"1", "true"}:
            return await self._watch(request, wanted)
        self.lists += 1
        found = [job for job in self.jobs.values() if is_selected(job, wanted)]
        return web.json_response(
            {
                "apiVersion": "batch/v1",
                "kind": "JobList",
                "metadata": {"resourceVersion": str(self.version)},
                "items": found,
            }
        )

    async def _watch(self, request: web.Request, wanted: dict[str, str]) -> web.StreamResponse:
        self.watches += 1
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
                line({"type": what, "object": job})
                for _, what, job in news
                if is_selected(job, wanted)
            ]
            version = max([version, *(each[0] for each in news)])
            if news and request.query.get("allowWatchBookmarks") == "true":
                mark = {"kind": "Job", "metadata": {"resourceVersion": str(version)}}
                pieces.append(line({"type": "BOOKMARK", "object": mark}))
            together = b"".join(pieces)
            if together and self.broken_watches:
                self.broken_watches -= 1
                await reply.write(together[: len(together) // 2])
                assert request.transport is not None
                request.transport.abort()
                return reply
            # Pieces end anywhere but at the ends of events.
            for start in range(0, len(together), 700):
                await reply.write(together[start : start + 700])
            async with self._changed:
                if self.version <= version:
                    await self._changed.wait()

    async def _delete(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        options = await request.json()
        if options.get("propagationPolicy") not in {"Background", "Foreground", "Orphan"}:
            return status(400, "BadRequest", "propagationPolicy")
        job = self.jobs.pop(name, None)
        if job is None:
            return status(404, "NotFound", f'jobs.batch "{name}" not found')
        self.deleted.append(name)
        process = self.processes.get(name)
        if process is not None and process.returncode is None:
            process.kill()
        await self._tell("DELETED", job)
        return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    # What the controllers and the kubelet do

    async def _run(self, job: Job) -> None:
        name, spec = job["metadata"]["name"], job["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        given = {each["name"]: each["value"] for each in container["env"]}
        environment = {"PATH": os.environ["PATH"], "HOME": "/tmp", **given}
        reason = "BackoffLimitExceeded"
        limit = spec["activeDeadlineSeconds"] * self.seconds_of_a_second
        try:
            async with asyncio.timeout(limit):
                for _ in range(spec["backoffLimit"] + 1):
                    process = await asyncio.create_subprocess_exec(
                        *container["command"], env=environment
                    )
                    self.processes[name] = process
                    if await process.wait() == 0:
                        reason = ""
                        break
        except TimeoutError:
            reason = "DeadlineExceeded"
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if name not in self.jobs:
            return
        ended = {"type": "Failed" if reason else "Complete", "status": "True", "reason": reason}
        job["status"]["conditions"] = [{**ended, "message": f"Job has ended: {reason}"}]
        await self._tell("MODIFIED", job)

    async def _tell(self, what: str, job: Job) -> None:
        self.version += 1
        job["metadata"]["resourceVersion"] = str(self.version)
        self.events.append((self.version, what, json.loads(json.dumps(job))))
        async with self._changed:
            self._changed.notify_all()


def is_selected(job: Job, wanted: dict[str, str]) -> bool:
    labels = job["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in wanted.items())


def line(event: Any) -> bytes:
    return json.dumps(event).encode() + b"\n"


def status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return web.json_response({**body, "reason": reason, "message": message}, status=code)
