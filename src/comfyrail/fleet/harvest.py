"""Fetching what a prompt made, for as long as it is wanted."""

import asyncio
from collections.abc import Callable, Sequence
from math import inf

from comfyrail.clock import Clock
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.comfyui.history import HistoryEntry
from comfyrail.fleet.conversion import Conversion, fetched_with
from comfyrail.fleet.orders import Orders
from comfyrail.fleet.outputs import Fetched, Saves, fetch_outputs
from comfyrail.jobs.job import NewOutput
from comfyrail.jobs.outcome import Cancelled, Failed, Lost


async def harvest(
    entry: HistoryEntry,
    client: ComfyClient,
    sink: Saves,
    orders: Orders,
    clock: Clock,
    *,
    stop_limit: float,
    conversion: Conversion,
    pictures: Callable[[], Sequence[NewOutput]],
    left: Callable[[], None],
) -> Fetched | Cancelled | Failed | Lost:
    """The outputs, converted, or how the attempt ends without them. `pictures`: outputs that came
    another way; `left` is called when the worker is not needed any more though this goes on.

    The worker's end breaks it off at once; a cancel or the timeout, which may have come before,
    when it is not done `stop_limit` seconds after: what a stopped prompt had made is kept. Once all
    is here, neither the worker nor the job's time matters any more; a cancel ends the conversion at
    once, and the outputs stay as they are.

    Raises what `fetch_outputs` raises, and StaleAttempt.
    """
    fetched = await _fetch(entry, client, sink, orders, clock, stop_limit)
    if not isinstance(fetched, Fetched):
        return fetched
    orders.stop_the_clock()
    fetched = fetched_with(fetched, pictures())
    if not conversion.concerns(fetched):
        return fetched
    left()
    return await _convert(fetched, conversion, sink, orders)


async def _fetch(
    entry: HistoryEntry,
    client: ComfyClient,
    sink: Saves,
    orders: Orders,
    clock: Clock,
    stop_limit: float,
) -> Fetched | Cancelled | Failed | Lost:
    give_up = inf
    fetching = asyncio.create_task(fetch_outputs(client, entry.shown, sink), name="outputs")
    try:
        while not fetching.done():
            if orders.look():
                give_up = min(give_up, clock.monotonic() + stop_limit)
            if orders.gone is not None:
                return orders.stop_with or orders.gone
            if orders.stop_with is not None and clock.monotonic() >= give_up:
                return orders.stop_with
            until = min(give_up, orders.deadline if orders.stop_with is None else inf)
            await orders.wait_beside(fetching, None if until == inf else until)
        return fetching.result()
    finally:
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)


async def _convert(
    fetched: Fetched, conversion: Conversion, sink: Saves, orders: Orders
) -> Fetched:
    converting = asyncio.create_task(conversion.apply(fetched, sink), name="conversion")
    try:
        while not converting.done():
            if orders.look():
                return conversion.given_up(fetched, "The job was stopped before.")
            if orders.is_hurried:
                return conversion.given_up(fetched, "The worker of the job was removed before.")
            await orders.wait_beside(converting)
        return converting.result()
    finally:
        converting.cancel()
        await asyncio.gather(converting, return_exceptions=True)
