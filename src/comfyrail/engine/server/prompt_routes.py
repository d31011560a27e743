"""Submit, queue, history, interrupt, free."""

import asyncio
import math
import uuid
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from comfyrail.engine.prompt_check import PromptRefused, check_prompt
from comfyrail.engine.prompt_errors import fault, no_prompt, refusal
from comfyrail.engine.server.prompt_queue import PromptQueue, QueuedPrompt
from comfyrail.engine.server.replies import (
    LARGEST_BODY_READ_AT_ONCE,
    LONGEST_ID,
    encoded_reply,
    json_reply,
    long_reply,
    parse_json,
    read_json_object,
    texts_of,
    whole_number,
)
from comfyrail.engine.server.wire import list_parts, object_parts
from comfyrail.engine.server.worker import Worker
from comfyrail.errors import ConfigurationError, MalformedRequest

SECRET_EXTRA_DATA = ("auth_token_comfy_org", "api_key_comfy_org")


class PromptRoutes:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def table(self) -> list[web.RouteDef]:
        return [
            web.post("/prompt", self.submit),
            web.get("/prompt", self.count),
            web.get("/queue", self.show_queue),
            web.post("/queue", self.change_queue),
            web.get("/history", self.show_history),
            web.post("/history", self.change_history),
            web.get("/history/{prompt_id}", self.show_one),
            web.post("/interrupt", self.interrupt),
            web.post("/free", self.free),
        ]

    async def submit(self, request: web.Request) -> web.Response:
        worker = self._worker
        body = await request.read()
        # The count goes up in the order of arrival, before anything can wait.
        count = worker.next_number()
        slow = worker.has_packs or worker.executor.surroundings.judges_slowly
        if slow or len(body) > LARGEST_BODY_READ_AT_ONCE:
            read = await asyncio.to_thread(self._read_prompt, body, count)
        else:
            read = self._read_prompt(body, count)
        if isinstance(read, dict):
            return json_reply(read, 400)
        item, node_errors = read
        if worker.holds(item.prompt_id):
            return json_reply(refusal(_id_in_use(item.prompt_id)), 400)
        if not worker.queue.has_room_for(item):
            return json_reply(refusal(_queue_is_full(worker.queue)), 503)
        worker.submit(item)
        return json_reply(
            {"prompt_id": item.prompt_id, "number": item.number, "node_errors": node_errors}
        )

    async def count(self, _: web.Request) -> web.Response:
        return json_reply({"exec_info": {"queue_remaining": self._worker.remaining}})

    async def show_queue(self, request: web.Request) -> web.StreamResponse:
        running, waiting = self._worker.running, self._worker.queue.in_order()

        def build() -> Iterator[bytes]:
            return object_parts(
                [
                    ("queue_running", list_parts([running.listed] if running else [])),
                    ("queue_pending", list_parts(item.listed for item in waiting)),
                ]
            )

        return await long_reply(request, build)

    async def change_queue(self, request: web.Request) -> web.Response:
        body = await read_json_object(request)
        if body.get("clear"):
            self._worker.clear_pending()
        if "delete" in body:
            self._worker.delete_pending(texts_of(body["delete"], "delete"))
        return web.Response()

    async def show_history(self, request: web.Request) -> web.StreamResponse:
        page = self._worker.history.page(
            whole_number(request, "max_items"), whole_number(request, "offset")
        )

        def build() -> Iterator[bytes]:
            return object_parts((prompt_id, [entry.content]) for prompt_id, entry in page.items())

        return await long_reply(request, build)

    async def show_one(self, request: web.Request) -> web.Response:
        prompt_id = request.match_info["prompt_id"]
        self._worker.visits.note_question(prompt_id)
        entry = self._worker.history.get(prompt_id)
        if entry is None:
            return json_reply({})
        return encoded_reply(b"".join(object_parts([(prompt_id, [entry.content])])))

    async def change_history(self, request: web.Request) -> web.Response:
        body = await read_json_object(request)
        if body.get("clear"):
            self._worker.history.clear()
        if "delete" in body:
            self._worker.history.delete(texts_of(body["delete"], "delete"))
        return web.Response()

    async def interrupt(self, request: web.Request) -> web.Response:
        body = await read_json_object(request, may_be_empty=True)
        prompt_id = body.get("prompt_id")
        self._worker.interrupt(str(prompt_id) if prompt_id else None)
        return web.Response()

    async def free(self, request: web.Request) -> web.Response:
        body = await read_json_object(request)
        unload_models, free_memory = bool(body.get("unload_models")), bool(body.get("free_memory"))
        if unload_models or free_memory:
            self._worker.free(unload_models=unload_models, free_memory=free_memory)
        return web.Response()

    def _read_prompt(
        self, body: bytes, count: int
    ) -> tuple[QueuedPrompt, dict[str, Any]] | dict[str, Any]:
        """The prompt and what was found wrong with some outputs; or the body of a refusal."""
        data = parse_json(body)
        if self._worker.change_request is not None:
            data = self._worker.change_request(data)
        if data == [] or (isinstance(data, dict) and "prompt" not in data):
            return refusal(no_prompt())
        if not isinstance(data, dict):
            raise MalformedRequest("The body is not a JSON object.")
        number = _read_number(data, count)
        prompt_id = (
            _as_id(data["prompt_id"], "prompt_id") if "prompt_id" in data else str(uuid.uuid4())
        )
        extra_data, secrets = _read_extra_data(data, self._worker.executor.clock.now())
        self._check_options(extra_data)
        targets = data.get("partial_execution_targets")
        verdict = check_prompt(
            data["prompt"],
            self._worker.executor.registry,
            self._worker.executor.folders,
            None if targets is None else texts_of(targets, "partial_execution_targets"),
        )
        if isinstance(verdict, PromptRefused):
            return verdict.body
        item = QueuedPrompt.of(
            number, prompt_id, verdict.prompt, extra_data, verdict.outputs, secrets
        )
        return item, verdict.node_errors

    def _check_options(self, extra_data: dict[str, Any]) -> None:
        try:
            self._worker.executor.check_options(extra_data)
        except ConfigurationError as error:
            raise MalformedRequest(f"extra_data.{error.message}") from error


def _read_number(data: dict[str, Any], count: int) -> float:
    if "number" in data:
        try:
            number = float(data["number"])
        except (TypeError, ValueError, OverflowError) as error:
            raise MalformedRequest(f"number must be a number: {error}.") from error
        if not math.isfinite(number):
            raise MalformedRequest(f"number must be a finite number, not {number}.")
        return number
    return -count if data.get("front") else count


def _read_extra_data(
    data: dict[str, Any], created_at: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What goes with the prompt; and secrets apart from it, so that no reply can show them."""
    extra_data = data.get("extra_data", {})
    if not isinstance(extra_data, dict):
        raise MalformedRequest("extra_data must be a JSON object.")
    kept = {key: value for key, value in extra_data.items() if key not in SECRET_EXTRA_DATA}
    client_id = data.get("client_id", kept.get("client_id"))
    if client_id is not None:
        kept["client_id"] = _as_id(client_id, "client_id")
    kept["create_time"] = created_at
    secrets = {key: extra_data[key] for key in SECRET_EXTRA_DATA if key in extra_data}
    return kept, secrets


def _as_id(value: Any, name: str) -> str:
    """An id is in every message about its prompt: it must not be long."""
    text = str(value)
    if len(text) > LONGEST_ID:
        raise MalformedRequest(f"{name} has {len(text)} characters, {LONGEST_ID} are allowed.")
    return text


def _queue_is_full(queue: PromptQueue) -> dict[str, Any]:
    message = f"The prompts that wait take {queue.used_bytes} bytes already: the queue is full."
    return fault("queue_full", message, "Send it again when some of them have run.")


def _id_in_use(prompt_id: str) -> dict[str, Any]:
    """ComfyUI queues it a second time, or fails with a 500 and runs it all the same."""
    message = f"A prompt with the id '{prompt_id}' waits or runs already."
    return fault("prompt_id_in_use", message, "Use another prompt_id, or leave it out.")
