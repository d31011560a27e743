"""Bringing an attempt's input files to its worker before the graph is handed over."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from comfyrail.clock import Clock
from comfyrail.errors import RequestError, WorkerProtocolError, WorkerUnreachable
from comfyrail.fleet.classification import classify_worker_error
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.inputs import WorkerInputs
from comfyrail.fleet.orders import Orders
from comfyrail.jobs.outcome import Cancelled, Failed, Lost


@dataclass(frozen=True, slots=True)
class Delivery:
    """`unreachable_limit`: seconds that the worker may be away; `retry_interval`: between tries."""

    inputs: WorkerInputs
    client: ComfyClient
    orders: Orders
    clock: Clock
    unreachable_limit: float
    retry_interval: float

    async def bring(
        self, prompt: Mapping[str, Any]
    ) -> Mapping[str, Any] | Cancelled | Failed | Lost:
        """The graph with the names that its files have on the worker, or how the attempt ends
        without having been submitted. Raises StaleAttempt.
        """
        away_since: float | None = None
        while True:
            try:
                return await self._try(prompt)
            except WorkerUnreachable as error:
                now = self.client.contact.now()
                away_since = now if away_since is None else away_since
                if now - away_since > self.unreachable_limit:
                    return Lost(error.message)
                await self.orders.wait(self.clock.monotonic() + self.retry_interval)
            except (WorkerProtocolError, RequestError) as error:
                return classify_worker_error(error)

    async def _try(
        self, prompt: Mapping[str, Any]
    ) -> Mapping[str, Any] | Cancelled | Failed | Lost:
        preparing = asyncio.create_task(self.inputs.prepare(prompt, self.client), name="inputs")
        try:
            while not preparing.done():
                self.orders.look()
                if self.orders.stop_with is not None:
                    return self.orders.stop_with
                if self.orders.gone is not None:
                    return self.orders.gone
                await self.orders.wait_beside(preparing)
            return preparing.result()
        finally:
            preparing.cancel()
            await asyncio.gather(preparing, return_exceptions=True)
