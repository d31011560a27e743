"""Nodes as invocations of a function in AWS Lambda.

It was tried against a server of the tests that keeps to the documented API, not on AWS.
"""

import asyncio
import json
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp
from yarl import URL

from comfyrail.engine.definition import NodeDefinition
from comfyrail.engine.distributed.lambda_function import find_function
from comfyrail.engine.distributed.loop_thread import LoopThread, close_session
from comfyrail.engine.distributed.remote_errors import ServiceRefused, ServiceUnreachable
from comfyrail.engine.distributed.settings import LambdaSection
from comfyrail.engine.distributed.task import (
    RemoteTask,
    TaskReply,
    UnreadableMessage,
    read_reply,
)
from comfyrail.engine.failures import NodeTimeout, WorkerLost
from comfyrail.engine.runners.interface import RunHere

LARGEST_TASK = 6_000_000
"""Lambda takes 6 MB for a request, and gives as much, where the answer is waited for."""
LARGEST_ANSWER = 8 << 20
CONNECT_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 20.0

# 408 and 409: the function is being started, or changed.
_BUSY = {408, 409, 429, 500, 502, 503, 504}
_TOO_LARGE = 413


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class LambdaTransport:
    """The task is the payload of an invocation, and the reply is its answer."""

    largest_task = LARGEST_TASK

    def __init__(self, section: LambdaSection) -> None:
        """Does not connect yet. Raises ConfigurationError."""
        self._section = section
        self._function = find_function(section)
        self._thread = LoopThread("aws-lambda")
        self._session: aiohttp.ClientSession | None = None

    async def carry(self, task: RemoteTask, text: bytes, _: NodeDefinition) -> TaskReply:
        return await self._thread.run(self._carry(task, text))

    def close(self) -> None:
        self._thread.close(self._close_session)

    async def _carry(self, task: RemoteTask, text: bytes) -> TaskReply:
        pause = FIRST_PAUSE_SECONDS
        trouble = ""
        for attempt in range(self._section.most_attempts):
            if attempt:
                # Many are told to wait at the same time; they should not come back all at once.
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            try:
                answer = await self._invoke(text)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                trouble = f"{type(error).__name__}: {error}"
                continue
            if answer.status not in _BUSY:
                return _read(task, answer)
            trouble = _explain(answer)
            pause = max(pause, _wanted_pause(answer))
        raise ServiceUnreachable(
            f"AWS Lambda has not taken the node after {self._section.most_attempts} attempts: "
            f"{trouble}"
        )

    async def _invoke(self, text: bytes) -> _Answer:
        function = self._function
        if self._session is None:
            self._session = aiohttp.ClientSession(trust_env=False)
        limits = aiohttp.ClientTimeout(
            total=self._section.answer_seconds, sock_connect=CONNECT_SECONDS
        )
        async with self._session.post(
            # As it was signed: nothing of it is to be written another way.
            URL(function.url, encoded=True),
            data=text,
            headers=function.headers_for(text),
            timeout=limits,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
        ) as reply:
            body = await reply.content.read(LARGEST_ANSWER)
            while len(body) < LARGEST_ANSWER and not reply.content.at_eof():
                body += await reply.content.read(LARGEST_ANSWER)
            return _Answer(reply.status, reply.headers, body)

    async def _close_session(self) -> None:
        await close_session(self._session)


def _read(task: RemoteTask, answer: _Answer) -> TaskReply:
    """The reply in an answer. Raises what stands in its place."""
    if answer.status == _TOO_LARGE:
        raise RunHere
    if answer.status != 200:
        raise ServiceRefused(_explain(answer))
    if answer.headers.get("X-Amz-Function-Error"):
        raise _function_error(answer.body)
    try:
        reply = read_reply(answer.body)
    except UnreadableMessage as error:
        raise WorkerLost(f"The function gave no proper reply: {error}") from error
    if reply.id != task.id:
        raise WorkerLost("The function gave the reply to another task.")
    return reply


def _function_error(body: bytes) -> Exception:
    """Why the function itself failed: not the node, whose failure is in a reply."""
    said = _json_object(body)
    kind, message = str(said.get("errorType", "")), str(said.get("errorMessage", ""))
    if kind == "Sandbox.Timedout" or "Task timed out" in message:
        return NodeTimeout(f"The function took too long: {message}")
    return WorkerLost(f"The function failed: {kind} {message}".strip())


def _explain(answer: _Answer) -> str:
    said = _json_object(answer.body)
    message = said.get("Message") or said.get("message") or ""
    kind = answer.headers.get("x-amzn-ErrorType", said.get("Type", ""))
    return f"AWS Lambda answered {answer.status} {kind} {message}".strip()


def _wanted_pause(answer: _Answer) -> float:
    try:
        return min(float(answer.headers.get("Retry-After", "0")), LONGEST_PAUSE_SECONDS)
    except ValueError:
        return 0.0


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
