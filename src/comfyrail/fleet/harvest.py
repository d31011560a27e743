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
) -> Fetched | Cancelled | Failed | Lost:
    """The outputs, converted, or how the attempt ends without them. `pictures`: outputs that came
    another way.

    The worker's end breaks it off at once; a cancel or the timeout, which may have come before,
    when it is not done `stop_limit` seconds after: what a stopped prompt had made is kept. Once all
    is here, neither the worker nor the job's time matters any more.

    Raises what `fetch_outputs` raises, and StaleAttempt.
    """
    give_up = inf
    is_here = False

    async def fetch() -> Fetched:
        nonlocal is_here
        fetched = await fetch_outputs(client, entry.shown, sink)
        is_here = True
        orders.stop_the_clock()
        return await conversion.apply(fetched_with(fetched, pictures()), sink)

    fetching = asyncio.create_task(fetch(), name="outputs")
    try:
        while not fetching.done():
            if orders.look():
                give_up = min(give_up, clock.monotonic() + stop_limit)
            if orders.gone is not None and not is_here:
                return orders.stop_with or orders.gone
            if orders.stop_with is not None and clock.monotonic() >= give_up:
                return orders.stop_with
            until = min(give_up, orders.deadline if orders.stop_with is None else inf)
            await orders.wait_beside(fetching, None if until == inf else until)
        return fetching.result()
    finally:
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
