"""What a job asks of the worker that runs it."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

MEMORY_STEP = 256 << 20
"""Needs that differ by less than this are one need: groups must not be split by single bytes."""

_encode = msgspec.json.Encoder(order="sorted").encode


@dataclass(frozen=True, slots=True, order=True)
class ModelUse:
    """A model that a job loads, with its size in bytes as far as it is known or guessed."""

    folder: str
    name: str
    size: int = 0


@dataclass(frozen=True)
class JobNeeds:
    """What placement looks at. Jobs with equal needs are of one group: a worker that has just run
    one of them is warm for all of them.
    """

    node_types: frozenset[str] = frozenset()
    models: tuple[ModelUse, ...] = ()
    video_memory: int = 0
    """Bytes at the peak, in steps of MEMORY_STEP."""
    memory: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    """What the job asks of its worker's labels (region, pool, …)."""
    avoided: tuple[str, ...] = ()
    """Workers on which it has failed, the last one last: it goes to others that can run it, where
    there are any, and to those first on which it failed long ago."""
    above_memory: int = 0
    """Bytes of video memory that were too few: it goes to workers with more, if there are any."""
    worker: str = ""
    """The only worker that it goes to, whatever became of it there; "": any that can run it."""

    @cached_property
    def group(self) -> str:
        """The same for equal needs, in every process and version of the program."""
        return hashlib.sha256(self.encode()).hexdigest()[:32]

    @cached_property
    def model_names(self) -> frozenset[str]:
        return frozenset(model.name for model in self.models)

    @cached_property
    def model_bytes(self) -> int:
        return sum(model.size for model in self.models)

    def encode(self) -> bytes:
        content: dict[str, Any] = {
            "node_types": sorted(self.node_types),
            "models": [[each.folder, each.name, each.size] for each in sorted(self.models)],
            "video_memory": self.video_memory,
            "memory": self.memory,
            "labels": dict(self.labels),
        }
        # Only where they say something: the groups of all other jobs stay what they were.
        if self.avoided:
            content["avoided"] = list(self.avoided)
        if self.above_memory:
            content["above_memory"] = self.above_memory
        if self.worker:
            content["worker"] = self.worker
        return _encode(content)

    @classmethod
    def decode(cls, content: bytes) -> "JobNeeds":
        raw = msgspec.json.decode(content, type=_Encoded)
        return cls(
            frozenset(raw.node_types),
            tuple(ModelUse(*each) for each in raw.models),
            raw.video_memory,
            raw.memory,
            raw.labels,
            tuple(raw.avoided),
            raw.above_memory,
            raw.worker,
        )


class _Encoded(msgspec.Struct):
    node_types: list[str] = []
    models: list[tuple[str, str, int]] = []
    video_memory: int = 0
    memory: int = 0
    labels: dict[str, str] = {}
    avoided: list[str] = []
    above_memory: int = 0
    worker: str = ""


def job_needs(
    node_types: Iterable[str],
    models: Iterable[ModelUse],
    *,
    video_memory: int = 0,
    memory: int = 0,
    labels: Mapping[str, str] | None = None,
    worker: str = "",
) -> JobNeeds:
    """Needs in their one spelling: sorted, memory rounded up to its step."""
    return JobNeeds(
        frozenset(node_types),
        tuple(sorted(set(models))),
        _stepped(video_memory),
        _stepped(memory),
        dict(sorted((labels or {}).items())),
        worker=worker,
    )


def _stepped(amount: int) -> int:
    return -(-max(0, amount) // MEMORY_STEP) * MEMORY_STEP
