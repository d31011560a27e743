"""What the whole fleet can run, kept in the store so that checks work with no worker up."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence

from comfyrail.errors import WorkerProtocolError
from comfyrail.fleet.comfyui.decoding import decode_reply
from comfyrail.fleet.description import WorkerDescription, decode_description
from comfyrail.ids import WorkerId
from comfyrail.planning.model_sizes import told_sizes
from comfyrail.store.interface import Store
from comfyrail.workflow.capabilities import WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from comfyrail.workflow.catalog_merge import (
    Difference,
    find_differences,
    merge_catalogs,
    share_types,
)


class FleetCatalog:
    """Catalogs by fingerprint (workers that are alike share one), and each worker's description."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catalogs: dict[str, NodeCatalog] = {}
        self._used_by: dict[WorkerId, str] = {}
        self._descriptions: dict[WorkerId, WorkerDescription] = {}
        self._warm: dict[WorkerId, frozenset[str]] = {}
        self._online: set[WorkerId] = set()
        self._gone: set[WorkerId] = set()
        self._merged = NodeCatalog()
        self._described: dict[WorkerId, WorkerCapabilities] = {}
        self._capabilities: tuple[WorkerCapabilities, ...] | None = None
        self._model_sizes: Mapping[str, int] | None = None

    @property
    def merged(self) -> NodeCatalog:
        """Every node type that some worker has or had when it was last seen."""
        return self._merged

    def capabilities(self) -> Sequence[WorkerCapabilities]:
        """Every known worker, also those that are away. The same object until something changes."""
        if self._capabilities is None:
            self._described |= {
                worker: self._describe(worker)
                for worker in self._used_by
                if worker not in self._described
            }
            self._capabilities = tuple(self._described[worker] for worker in self._used_by)
        return self._capabilities

    def model_sizes(self) -> Mapping[str, int]:
        """Bytes by `folder/name` of the models that workers have told of. As above."""
        if self._model_sizes is None:
            self._model_sizes = told_sizes(self.capabilities())
        return self._model_sizes

    def differences(self) -> Sequence[Difference]:
        """Where workers describe a node type differently."""
        return list(find_differences(self._by_use()))

    async def load(self) -> None:
        """Remember what the workers said before the last restart."""
        for fingerprint, content in (await self._store.list_catalogs()).items():
            catalog = await asyncio.to_thread(_parse, content)
            self._catalogs[fingerprint] = share_types(catalog, tuple(self._catalogs.values()))
        for worker in await self._store.list_workers():
            self._descriptions[worker.id] = decode_description(worker.description)
            if worker.catalog_fingerprint in self._catalogs:
                self._used_by[worker.id] = worker.catalog_fingerprint
        self._merge()

    async def learn(self, worker_id: WorkerId, object_info: bytes) -> NodeCatalog:
        """Take in a worker's /object_info. Raises WorkerProtocolError when it makes no sense."""
        fingerprint = hashlib.sha256(object_info).hexdigest()
        catalog = self._catalogs.get(fingerprint)
        if catalog is None:
            known = tuple(self._catalogs.values())
            catalog = await asyncio.to_thread(lambda: share_types(_parse(object_info), known))
            if not catalog:
                raise WorkerProtocolError(f"The worker {worker_id} says that it has no nodes.")
        if self._used_by.get(worker_id) != fingerprint and worker_id not in self._gone:
            # First what can fail: what is not on disk must not count as learned.
            await self._store.save_catalog(worker_id, fingerprint, object_info)
            if worker_id not in self._gone:
                self._catalogs[fingerprint] = catalog
                self._used_by[worker_id] = fingerprint
                self._merge()
        return catalog

    async def describe(self, worker_id: WorkerId, description: WorkerDescription) -> None:
        """Take in what a worker says of its machine and models."""
        if self._descriptions.get(worker_id) == description or worker_id in self._gone:
            return
        await self._store.describe_worker(worker_id, description.encode())
        if worker_id not in self._gone:
            self._descriptions[worker_id] = description
            self._model_sizes = None
            self._change(worker_id)

    def note_online(self, worker_id: WorkerId, *, online: bool) -> None:
        """A worker that comes back has nothing loaded as far as we know."""
        if online:
            self._online.add(worker_id)
        else:
            self._online.discard(worker_id)
            self._warm.pop(worker_id, None)
        self._change(worker_id)

    def note_warm(self, worker_id: WorkerId, models: frozenset[str]) -> None:
        """The models that a worker has in memory by now."""
        if self._warm.get(worker_id, frozenset()) != models:
            self._warm[worker_id] = models
            self._change(worker_id)

    def expect(self, worker_id: WorkerId) -> None:
        """A worker is there, or there again under the id of one that was removed."""
        self._gone.discard(worker_id)

    def forget(self, worker_id: WorkerId) -> None:
        """The worker was removed: what is still on its way from it is not listened to."""
        self._gone.add(worker_id)
        for known in (self._used_by, self._descriptions, self._warm):
            known.pop(worker_id, None)
        self._online.discard(worker_id)
        self._merge()

    def _describe(self, worker_id: WorkerId) -> WorkerCapabilities:
        description = self._descriptions.get(worker_id, WorkerDescription())
        return WorkerCapabilities(
            id=worker_id,
            catalog=self._catalogs[self._used_by[worker_id]],
            is_online=worker_id in self._online,
            device=description.device,
            video_memory=description.video_memory,
            memory=description.memory,
            models=description.models,
            warm_models=self._warm.get(worker_id, frozenset()),
        )

    def _merge(self) -> None:
        used = set(self._used_by.values())
        self._catalogs = {key: each for key, each in self._catalogs.items() if key in used}
        self._merged = merge_catalogs(self._by_use())
        self._described = {}
        self._capabilities = self._model_sizes = None

    def _change(self, worker_id: WorkerId) -> None:
        """What is known of one worker is out of date: it is described anew when it is asked for."""
        self._described.pop(worker_id, None)
        self._capabilities = None

    def _by_use(self) -> list[NodeCatalog]:
        """The most common first; the order in which workers came must not matter."""
        uses = Counter(self._used_by.values())
        ordered = sorted(self._catalogs, key=lambda key: (-uses[key], key))
        return [self._catalogs[key] for key in ordered]


def _parse(content: bytes) -> NodeCatalog:
    try:
        return parse_object_info(decode_reply(content))
    except (ValueError, TypeError, AttributeError) as error:
        raise WorkerProtocolError(f"The worker's /object_info makes no sense: {error}.") from error
