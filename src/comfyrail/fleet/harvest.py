"""Fetching what a prompt made, for as long as it is wanted."""

import asyncio
from math import inf

from comfyrail.clock import Clock
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.comfyui.history import HistoryEntry
from comfyrail.fleet.orders import Orders
from comfyrail.fleet.outputs import Fetched, Saves, fetch_outputs
from comfyrail.jobs.outcome import Cancelled, Failed, Lost


async def harvest(
    entry: HistoryEntry,
    client: ComfyClient,
    sink: Saves,
    orders: Orders,
    clock: Clock,
    *,
    deadline: float,
    stop_limit: float,
) -> Fetched | Cancelled | Failed | Lost:
    """The outputs, or how the attempt ends without them.

    The worker's end breaks it off at once; a cancel or the timeout, which may have come before,
    when it is not done `stop_limit` seconds after: what a stopped prompt had made is kept.

    Raises what `fetch_outputs` raises, and StaleAttempt.
    """
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
            until = min(give_up, deadline if orders.stop_with is None else inf)
            await orders.wait_beside(fetching, None if until == inf else until)
        return fetching.result()
    finally:
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
