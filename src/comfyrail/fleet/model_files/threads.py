"""Work on files in a thread, awaited to its end."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


async def in_thread(
    work: Callable[Arguments, Result], *arguments: Arguments.args, **named: Arguments.kwargs
) -> Result:
    """As `asyncio.to_thread`, but a cancellation waits until the thread is done: what it works on
    must not be let go, or worked on by the next one, while it still does.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled() and task.exception() is not None:
            raise asyncio.CancelledError from task.exception()
        raise
