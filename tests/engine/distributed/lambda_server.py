"""A server that keeps to what AWS documents of Lambda's Invoke, and really runs the handler.

It checks the signature by itself, the limits on payloads, refuses the first request of all for
being one too many, and runs the handler in processes that live on between invocations.
"""

import asyncio
import hashlib
import hmac
import json
import os
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

LARGEST_PAYLOAD = 6 * 1024 * 1024
ROOT = Path(__file__).parents[3]


@dataclass
class LambdaService:
    function: str
    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    region: str = "eu-test-1"
    environment: dict[str, str] = field(default_factory=dict)
    seconds: float = 20.0
    """How long the function may run."""
    throttled: int = 1
    """So many requests are one too many."""
    troubled: int = 0
    """So many requests find the service in trouble."""
    invocations: int = 0
    requests: int = 0
    payloads: list[int] = field(default_factory=list)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=4 * LARGEST_PAYLOAD)
        app.router.add_post("/2015-03-31/functions/{name}/invocations", self._invoke)
        app.on_startup.append(self._start)
        app.on_cleanup.append(self._end)
        return app

    async def _start(self, _: web.Application) -> None:
        self._idle: list[asyncio.subprocess.Process] = []
        self._all: list[asyncio.subprocess.Process] = []

    async def _end(self, _: web.Application) -> None:
        for process in self._all:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def _invoke(self, request: web.Request) -> web.Response:
        self.requests += 1
        body = await request.read()
        refused = self._check(request, body) or self._turn_away()
        if refused is not None:
            return refused
        self.payloads.append(len(body))
        return await self._run(body)

    def _check(self, request: web.Request, body: bytes) -> web.Response | None:
        fault = find_fault(request, body, self)
        if fault is not None:
            return refusal(403, "InvalidSignatureException", fault)
        if request.match_info["name"] != self.function:
            return refusal(404, "ResourceNotFoundException", "Function not found")
        if request.headers.get("X-Amz-Invocation-Type") != "RequestResponse":
            return refusal(400, "InvalidParameterValueException", "X-Amz-Invocation-Type")
        if len(body) > LARGEST_PAYLOAD:
            return refusal(413, "RequestTooLargeException", f"{len(body)} byte payload")
        return None

    def _turn_away(self) -> web.Response | None:
        if self.throttled:
            self.throttled -= 1
            busy = refusal(429, "TooManyRequestsException", "Rate Exceeded.")
            busy.headers["Retry-After"] = "0"
            return busy
        if self.troubled:
            self.troubled -= 1
            return refusal(500, "ServiceException", "Internal failure")
        return None

    async def _run(self, body: bytes) -> web.Response:
        self.invocations += 1
        process = self._idle.pop() if self._idle else await self._start_process()
        assert process.stdin is not None
        assert process.stdout is not None
        headers = {"X-Amz-Executed-Version": "$LATEST"}
        failed = {**headers, "X-Amz-Function-Error": "Unhandled"}
        process.stdin.write(body.replace(b"\n", b" ") + b"\n")
        try:
            async with asyncio.timeout(self.seconds):
                line = await process.stdout.readline()
        except TimeoutError:
            process.kill()
            message = f"Task timed out after {self.seconds:.2f} seconds"
            return web.json_response({"errorMessage": message}, headers=failed)
        if not line:
            code = await process.wait()
            exited = {"errorType": "Runtime.ExitError", "errorMessage": f"exit status {code}"}
            return web.json_response(exited, headers=failed)
        self._idle.append(process)
        answer = json.loads(line)
        if "error" in answer:
            return web.json_response(answer["error"], headers=failed)
        payload = json.dumps(answer["given"]).encode()
        if len(payload) > LARGEST_PAYLOAD:
            large = {"errorType": "Function.ResponseSizeTooLarge", "errorMessage": "too large"}
            return web.json_response(large, headers=failed)
        return web.Response(body=payload, content_type="application/json", headers=headers)

    async def _start_process(self) -> "asyncio.subprocess.Process":
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.engine.distributed.lambda_sandbox",
            str(self.seconds),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], **self.environment},
            cwd=ROOT,
            limit=2 * LARGEST_PAYLOAD,
        )
        self._all.append(process)
        return process


def refusal(status: int, kind: str, message: str) -> web.Response:
    return web.json_response(
        {"Type": "User", "Message": message}, status=status, headers={"x-amzn-ErrorType": kind}
    )


def find_fault(request: web.Request, body: bytes, service: LambdaService) -> str | None:
    """What is wrong with a signature, as AWS describes how one is checked."""
    scheme, _, rest = request.headers.get("Authorization", "").partition(" ")
    if scheme != "AWS4-HMAC-SHA256":
        return "no signature"
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    key_id, date, region, name, end = parts["Credential"].split("/")
    if (key_id, region, name, end) != (
        service.access_key_id,
        service.region,
        "lambda",
        "aws4_request",
    ):
        return f"credential {parts['Credential']}"
    stamp = request.headers["X-Amz-Date"]
    sent = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    if stamp[:8] != date or abs(datetime.now(UTC) - sent) > timedelta(minutes=15):
        return "expired"
    if request.headers.get("X-Amz-Security-Token") != service.session_token:
        return "security token"
    names = parts["SignedHeaders"].split(";")
    must = {"host", *(each.lower() for each in request.headers if each.lower()[:6] == "x-amz-")}
    if names != sorted(names) or not must <= set(names):
        return f"signed headers {names}"
    path, _, query = request.raw_path.partition("?")
    lines = [request.method, quote(path, safe="/-_.~"), "&".join(sorted(query.split("&")))]
    lines += [f"{each}:{request.headers[each].strip()}" for each in names]
    lines += ["", ";".join(names), hashlib.sha256(body).hexdigest()]
    hashed = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{date}/{region}/lambda/aws4_request\n{hashed}"

    def mac(key: bytes, message: str) -> bytes:
        return hmac.new(key, message.encode(), "sha256").digest()

    secret = f"AWS4{service.secret_access_key}".encode()
    signing = mac(mac(mac(mac(secret, date), region), "lambda"), "aws4_request")
    expected = mac(signing, text).hex()
    return None if hmac.compare_digest(expected, parts["Signature"]) else "signature"
