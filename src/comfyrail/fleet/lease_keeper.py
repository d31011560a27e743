"""Keeps the leases of running attempts alive, and takes back jobs whose lease has run out."""

import asyncio

import structlog

from comfyrail.errors import StoreUnavailable
from comfyrail.fleet.fleet import Fleet
from comfyrail.store.interface import Store

log = structlog.get_logger(__name__)


class LeaseKeeper:
    def __init__(self, store: Store, fleet: Fleet, lease_seconds: float) -> None:
        self._store = store
        self._fleet = fleet
        self._lease_seconds = lease_seconds

    async def run(self) -> None:
        while True:
            try:
                await self.keep()
            except StoreUnavailable as error:
                log.warning("leases_not_kept", error=error.message)
            except Exception:  # without this loop every running job would be lost
                log.exception("lease_keeping_failed")
            await asyncio.sleep(self._lease_seconds / 3)

    async def keep(self) -> None:
        """Extend ours first: a server that was paused must not take its own jobs back."""
        tokens = self._fleet.running_tokens()
        if tokens:
            stale = await self._store.extend_leases(tokens, self._lease_seconds)
            self._fleet.drop_stale(stale)
        for job_id in await self._store.expire_leases():
            log.warning("lease_expired", job_id=job_id)
