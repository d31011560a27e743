"""Running a graph on a worker for its own sake: to warm it up, or to see that it works [5.8]."""

import asyncio
import random
import uuid
from collections.abc import Mapping
from typing import Any

from comfyrail.errors import WorkerError
from comfyrail.fleet.comfyui.history import HistoryEntry
from comfyrail.fleet.comfyui.messages import Message, PromptEnded
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.workflow.catalog import NodeCatalog

Prompt = Mapping[str, Mapping[str, Any]]
"""A graph in ComfyUI's API format."""

LOOK_SECONDS = 1.0
_TRIAL_INPUTS = {
    "EmptyImage": frozenset(("width", "height", "batch_size", "color")),
    "PreviewImage": frozenset(("images",)),
}


async def run_prompt(connection: WorkerConnection, prompt: Prompt, limit: float) -> None:
    """Run a graph to its end; what it makes stays on the worker. Raises WorkerError, with what the
    worker says, unless it succeeds within `limit` seconds.
    """
    prompt_id = str(uuid.uuid4())
    woken = asyncio.Event()

    def observe(message: Message | None) -> None:
        if message is None or isinstance(message, PromptEnded):
            woken.set()

    try:
        with connection.listening(prompt_id, observe):
            async with asyncio.timeout(limit):
                await connection.client.submit(prompt, prompt_id, connection.client_id)
                entry = await _until_ended(connection, prompt_id, woken)
    except TimeoutError as error:
        await connection.client.stop_prompt(prompt_id)
        raise WorkerError(f"The prompt had not ended after {limit:g} s.") from error
    if entry.status != "success":
        failure = entry.failures[0] if entry.failures else None
        reason = f"{failure.node_type}: {failure.message}" if failure else entry.status
        raise WorkerError(f"The prompt failed on the worker: {reason}")


async def _until_ended(
    connection: WorkerConnection, prompt_id: str, woken: asyncio.Event
) -> HistoryEntry:
    while True:
        entry = await connection.client.history(prompt_id)
        if entry is not None:
            return entry
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await woken.wait()
        except TimeoutError:
            continue
        woken.clear()


def trial_prompt(catalog: NodeCatalog) -> Prompt | None:
    """A small graph without models that the worker can run, new every time so that no cache
    answers it; None where it lacks the nodes.
    """
    for name, inputs in _TRIAL_INPUTS.items():
        node_type = catalog.get(name)
        if node_type is None or not inputs <= node_type.inputs.keys():
            return None
    color = random.randrange(1 << 24)  # noqa: S311 - a colour, not a secret
    picture = {"width": 16, "height": 16, "batch_size": 1, "color": color}
    return {
        "1": {"class_type": "EmptyImage", "inputs": picture},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    }
