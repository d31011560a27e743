"""Waiting until a worker that was just started answers."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp

from comfyrail.errors import WorkerError, WorkerUnreachable
from comfyrail.fleet.comfyui.client import ComfyClient

PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0
ANSWER_LIMIT_SECONDS = 5.0


async def answers_like_comfyui(http: aiohttp.ClientSession, url: str) -> bool:
    """Whether something answers at the URL now, and is a ComfyUI or `comfyrail worker`."""
    try:
        async with asyncio.timeout(ANSWER_LIMIT_SECONDS):
            await ComfyClient(url, http).system_stats()
    except (WorkerError, TimeoutError):
        return False
    return True


async def wait_until_it_answers(
    http: aiohttp.ClientSession,
    url: str,
    limit: float,
    ended: Callable[[], Awaitable[str | None]],
) -> None:
    """Return when the worker answers. Raises WorkerUnreachable after `limit` seconds, or at once
    with the cause that `ended` gives: it is asked between two tries.
    """
    pause = PAUSE_SECONDS
    try:
        async with asyncio.timeout(limit):
            while not await answers_like_comfyui(http, url):
                cause = await ended()
                if cause is not None:
                    raise WorkerUnreachable(f"The worker ended before it answered: {cause}")
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
    except TimeoutError as error:
        raise WorkerUnreachable(
            f"The worker was started and does not answer at {url} after {limit:g} s."
        ) from error
