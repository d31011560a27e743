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
        self._uses: Counter[str] = Counter()
        self._order: list[str] = []
        self._descriptions: dict[WorkerId, WorkerDescription] = {}
        self._warm: dict[WorkerId, frozenset[str]] = {}
        self._online: set[WorkerId] = set()
        self._gone: set[WorkerId] = set()
        self._likenesses: set[WorkerId] = set()
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
            self._capabilities = tuple(
                self._described[worker] for worker in self._used_by if not self._is_doubled(worker)
            )
        return self._capabilities

    def _is_doubled(self, worker_id: WorkerId) -> bool:
        """A likeness stands for workers that are not there: not beside one that is."""
        fingerprint = self._used_by[worker_id]
        return worker_id in self._likenesses and self._uses[fingerprint] > len(
            [each for each in self._likenesses if self._used_by.get(each) == fingerprint]
        )

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
                self._set_use(worker.id, worker.catalog_fingerprint)
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
                self._catalogs.setdefault(fingerprint, catalog)
                self._set_use(worker_id, fingerprint)
                self._merge()
                self._change(worker_id)
        return self._catalogs.get(fingerprint, catalog)

    async def describe(self, worker_id: WorkerId, description: WorkerDescription) -> None:
        """Take in what a worker says of its machine and models."""
        if self._descriptions.get(worker_id) == description or worker_id in self._gone:
            return
        await self._store.describe_worker(worker_id, description.encode())
        if worker_id not in self._gone:
            before = self._descriptions.get(worker_id, WorkerDescription())
            self._descriptions[worker_id] = description
            if before.models != description.models and not self._knows_all(before, description):
                self._model_sizes = None
            self._change(worker_id)

    def description(self, worker_id: WorkerId) -> WorkerDescription | None:
        """What the worker last said of itself."""
        return self._descriptions.get(worker_id)

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

    def remembered(self, worker_id: WorkerId) -> tuple[NodeCatalog, WorkerDescription] | None:
        """What a worker said when it was last seen."""
        fingerprint = self._used_by.get(worker_id)
        if fingerprint is None:
            return None
        return (
            self._catalogs[fingerprint],
            self._descriptions.get(worker_id, WorkerDescription()),
        )

    def expect(self, worker_id: WorkerId) -> None:
        """A worker is there, or there again under the id of one that was removed."""
        self._gone.discard(worker_id)

    def expect_likeness(self, likeness: WorkerId) -> None:
        """Remember under this id what workers of a pool can run, while there are none."""
        self._likenesses.add(likeness)
        self.expect(likeness)
        self._capabilities = None

    def forget(self, worker_id: WorkerId) -> None:
        """The worker was removed: what is still on its way from it is not listened to."""
        self._gone.add(worker_id)
        self._likenesses.discard(worker_id)
        self._set_use(worker_id, None)
        self._warm.pop(worker_id, None)
        # What it told of its models' sizes stays true of these files.
        self._descriptions.pop(worker_id, None)
        self._online.discard(worker_id)
        self._change(worker_id)
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

    def _knows_all(self, before: WorkerDescription, now: WorkerDescription) -> bool:
        """Whether what a worker tells of its models changes nothing: of a thousand that are alike
        only the first one costs a look at all.
        """
        if self._model_sizes is None or before.models:
            return False
        return all(
            size is None or 0 < self._model_sizes.get(f"{folder}/{name}", 0) <= size
            for folder, names in now.models.items()
            for name, size in names.items()
        )

    def _set_use(self, worker_id: WorkerId, fingerprint: str | None) -> None:
        before = self._used_by.pop(worker_id, None)
        if before is not None:
            self._uses[before] -= 1
        if fingerprint is not None:
            self._used_by[worker_id] = fingerprint
            self._uses[fingerprint] += 1

    def _merge(self) -> None:
        """Only where another catalog comes first, or the last worker with one has gone: a
        thousand workers that are alike must not be merged a thousand times.
        """
        used = [key for key, uses in self._uses.items() if uses > 0]
        order = sorted(used, key=lambda key: (-self._uses[key], key))
        if order == self._order and len(used) == len(self._catalogs):
            return
        self._order = order
        self._uses = Counter({key: self._uses[key] for key in used})
        self._catalogs = {key: self._catalogs[key] for key in order}
        self._merged = merge_catalogs(self._by_use())

    def _change(self, worker_id: WorkerId) -> None:
        """What is known of one worker is out of date: it is described anew when it is asked for."""
        self._described.pop(worker_id, None)
        self._capabilities = None

    def _by_use(self) -> list[NodeCatalog]:
        """The most common first; the order in which workers came must not matter."""
        return [self._catalogs[key] for key in self._order]


def _parse(content: bytes) -> NodeCatalog:
    try:
        return parse_object_info(decode_reply(content))
    except (ValueError, TypeError, AttributeError) as error:
        raise WorkerProtocolError(f"The worker's /object_info makes no sense: {error}.") from error
