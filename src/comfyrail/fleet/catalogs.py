"""The node catalog of the whole fleet, kept in the store so that checks work with no worker up."""

import asyncio
import hashlib

from comfyrail.errors import WorkerProtocolError
from comfyrail.fleet.comfyui.decoding import decode_reply
from comfyrail.ids import WorkerId
from comfyrail.store.interface import Store
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info


class FleetCatalog:
    """Catalogs by fingerprint; workers that are alike share one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catalogs: dict[str, NodeCatalog] = {}
        self._used_by: dict[WorkerId, str] = {}
        self._merged = NodeCatalog()

    @property
    def merged(self) -> NodeCatalog:
        """Every node type that some worker has or had when it was last seen."""
        return self._merged

    async def load(self) -> None:
        """Remember what the workers said before the last restart."""
        for fingerprint, content in (await self._store.list_catalogs()).items():
            self._catalogs[fingerprint] = await asyncio.to_thread(_parse, content)
        for worker in await self._store.list_workers():
            if worker.catalog_fingerprint in self._catalogs:
                self._used_by[worker.id] = worker.catalog_fingerprint
        self._merge()

    async def learn(self, worker_id: WorkerId, object_info: bytes) -> NodeCatalog:
        """Take in a worker's /object_info. Raises WorkerProtocolError when it makes no sense."""
        fingerprint = hashlib.sha256(object_info).hexdigest()
        catalog = self._catalogs.get(fingerprint)
        if catalog is None:
            catalog = await asyncio.to_thread(_parse, object_info)
            if not catalog:
                raise WorkerProtocolError(f"The worker {worker_id} says that it has no nodes.")
        if self._used_by.get(worker_id) != fingerprint:
            self._catalogs[fingerprint] = catalog
            self._used_by[worker_id] = fingerprint
            await self._store.save_catalog(worker_id, fingerprint, object_info)
            self._merge()
        return catalog

    def forget(self, worker_id: WorkerId) -> None:
        self._used_by.pop(worker_id, None)
        self._merge()

    def _merge(self) -> None:
        used = set(self._used_by.values())
        self._catalogs = {key: each for key, each in self._catalogs.items() if key in used}
        self._merged = NodeCatalog().merged_with(self._catalogs.values())


def _parse(content: bytes) -> NodeCatalog:
    try:
        return parse_object_info(decode_reply(content))
    except (ValueError, TypeError, AttributeError) as error:
        raise WorkerProtocolError(f"The worker's /object_info makes no sense: {error}.") from error
