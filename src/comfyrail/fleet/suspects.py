"""Whose fault a lost worker is: its own, or that of what it was given [5.5].

A graph that ends every worker which is given it would put the whole fleet out of service. So what
a graph does on one worker is compared with what it does on others: one that has failed on two of
them is guilty, and what it does is held against workers no more, until it succeeds somewhere. The
same goes for models that it fails to load.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from comfyrail.ids import TenantId, WorkerId

SUSPECTS_KEPT = 1000
WORKERS_FOR_GUILT = 2
MODELS_OF_ONE = 20
"""Of so many models is remembered where one suspect has failed by them."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """What an attempt ran. A tenant's graphs of the same node types and models are one suspect:
    other numbers and seeds make no other graph.
    """

    tenant: TenantId
    graph: str


def suspect_of(tenant: TenantId, prompt: Mapping[str, Any], models: Iterable[str]) -> Suspect:
    types = {str(node.get("class_type")) for node in prompt.values() if isinstance(node, Mapping)}
    content = msgspec.json.encode((sorted(types), sorted(models)))
    return Suspect(tenant, hashlib.sha256(content).hexdigest()[:32])


@dataclass(slots=True)
class _Trace:
    """What is known of one suspect since it last succeeded."""

    failed_on: set[WorkerId] = field(default_factory=set)
    failed_by: dict[str, set[WorkerId]] = field(default_factory=dict)
    """By a model, and where."""
    is_guilty: bool = False
    succeeded_on: WorkerId | None = None


class Suspects:
    """Shared by all workers of a fleet. Of those that nobody has heard of for the longest time
    nothing is remembered.
    """

    def __init__(self) -> None:
        self._traces: OrderedDict[Suspect, _Trace] = OrderedDict()

    def note_success(self, suspect: Suspect, worker_id: WorkerId) -> None:
        self._put(suspect, _Trace(succeeded_on=worker_id))

    def note_failure(self, suspect: Suspect, worker_id: WorkerId) -> None:
        trace = self._traces.get(suspect) or _Trace()
        if not trace.is_guilty:
            trace.failed_on.add(worker_id)
            trace.is_guilty = len(trace.failed_on) >= WORKERS_FOR_GUILT
        self._put(suspect, trace)

    def note_model_failure(self, suspect: Suspect, model: str, worker_id: WorkerId) -> None:
        trace = self._traces.get(suspect) or _Trace()
        workers = trace.failed_by.setdefault(model, set())
        if len(workers) < WORKERS_FOR_GUILT:
            workers.add(worker_id)
        if len(trace.failed_by) > MODELS_OF_ONE:
            del trace.failed_by[next(iter(trace.failed_by))]
        self._put(suspect, trace)

    def convict(self, suspect: Suspect) -> None:
        """It fails where something else has been seen to work."""
        trace = self._traces.get(suspect) or _Trace()
        trace.is_guilty = True
        self._put(suspect, trace)

    def is_guilty(self, suspect: Suspect) -> bool:
        trace = self._traces.get(suspect)
        return trace is not None and trace.is_guilty

    def misuses(self, suspect: Suspect, model: str) -> bool:
        """Whether it has failed by the model on several workers: not one copy of it is bad."""
        trace = self._traces.get(suspect)
        return trace is not None and len(trace.failed_by.get(model, ())) >= WORKERS_FOR_GUILT

    def works_elsewhere(self, suspect: Suspect, worker_id: WorkerId) -> bool:
        """Whether it has last succeeded on another worker than this one."""
        trace = self._traces.get(suspect)
        return trace is not None and trace.succeeded_on not in {None, worker_id}

    def _put(self, suspect: Suspect, trace: _Trace) -> None:
        self._traces[suspect] = trace
        self._traces.move_to_end(suspect)
        if len(self._traces) > SUSPECTS_KEPT:
            self._traces.popitem(last=False)
