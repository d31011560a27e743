"""What workers can run, in the form that placement looks at: one object for all that are alike."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from comfyrail.fleet.description import WorkerDescription
from comfyrail.ids import WorkerId
from comfyrail.jobs.needs import MEMORY_STEP
from comfyrail.jobs.workers import WorkerProfile
from comfyrail.workflow.catalog import NodeCatalog


class Profiles:
    """Keeps a profile while a worker has it. A change of a worker gives it another object."""

    def __init__(self) -> None:
        self._profiles: dict[_Key, WorkerProfile] = {}
        self._catalogs: dict[int, _KnownCatalog] = {}
        self._used_by: dict[WorkerId, _Key] = {}
        self._uses: Counter[_Key] = Counter()

    def give(
        self,
        worker_id: WorkerId,
        catalog: NodeCatalog,
        description: WorkerDescription,
        labels: Mapping[str, str],
        *,
        rate: float,
        load_bytes_per_second: float,
        refused_models: frozenset[str] = frozenset(),
    ) -> WorkerProfile:
        """The worker's profile from now on."""
        models = {folder: frozenset(names) for folder, names in description.models.items()}
        key = _Key(
            id(catalog),
            frozenset(models.items()),
            _stepped(description.video_memory),
            _stepped(description.memory),
            frozenset(labels.items()),
            rate,
            load_bytes_per_second,
            description.keeps_models,
            refused_models,
        )
        profile = self._profiles.get(key)
        if profile is None:
            profile = self._profiles[key] = WorkerProfile(
                node_types=self._types_of(catalog),
                models=models,
                video_memory=key.video_memory,
                memory=key.memory,
                labels=dict(labels),
                rate=rate,
                load_bytes_per_second=load_bytes_per_second,
                keeps_models=description.keeps_models,
                refused_models=refused_models,
            )
        self._uses[key] += 1  # first, so that a profile which stays is not dropped in between
        self.take_back(worker_id)
        self._used_by[worker_id] = key
        return profile

    def find(self, worker_id: WorkerId) -> WorkerProfile | None:
        """What was last given to the worker."""
        key = self._used_by.get(worker_id)
        return None if key is None else self._profiles[key]

    def take_back(self, worker_id: WorkerId) -> None:
        """The worker has another profile now, or none."""
        key = self._used_by.pop(worker_id, None)
        if key is None:
            return
        self._uses[key] -= 1
        if self._uses[key]:
            return
        del self._uses[key], self._profiles[key]
        known = self._catalogs[key.catalog]
        known.profiles -= 1
        if not known.profiles:
            del self._catalogs[key.catalog]

    def _types_of(self, catalog: NodeCatalog) -> frozenset[str]:
        known = self._catalogs.get(id(catalog))
        if known is None:
            known = self._catalogs[id(catalog)] = _KnownCatalog(catalog, frozenset(catalog.types))
        known.profiles += 1
        return known.node_types


class _Key(NamedTuple):
    catalog: int
    models: frozenset[tuple[str, frozenset[str]]]
    video_memory: int | None
    memory: int | None
    labels: frozenset[tuple[str, str]]
    rate: float
    load_bytes_per_second: float
    keeps_models: bool
    refused_models: frozenset[str]


@dataclass(slots=True)
class _KnownCatalog:
    """Holds the catalog, so that no other object can get the number that stands for it."""

    catalog: NodeCatalog
    node_types: frozenset[str]
    profiles: int = 0


def _stepped(amount: int | None) -> int | None:
    """Rounded down, as needs are rounded up: the answer is the same, and machines that differ by
    a few bytes are alike.
    """
    return None if amount is None else amount // MEMORY_STEP * MEMORY_STEP
