"""A worker in the test's own process that no driver has started."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.fleet.scripted_worker import ScriptedWorker


@asynccontextmanager
async def foreign_worker() -> AsyncIterator[ScriptedWorker]:
    worker = ScriptedWorker(_succeed)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


async def _succeed(worker: ScriptedWorker, prompt_id: str) -> None:
    worker.succeed(prompt_id, "a.png")
    await worker.say("executing", node=None, prompt_id=prompt_id)
