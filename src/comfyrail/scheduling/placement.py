"""The decision itself, as a pure function."""

from collections.abc import Iterable, Sequence

from comfyrail.ids import JobId, WorkerId
from comfyrail.jobs.job import QueuedJob
from comfyrail.jobs.workers import FreeWorker


def place(head: Iterable[QueuedJob], free: Sequence[FreeWorker]) -> list[tuple[JobId, WorkerId]]:
    """Jobs in the order given, each on the worker that has been idle longest of those that can."""
    idle = sorted(free, key=lambda worker: worker.idle_since)
    placed: list[tuple[JobId, WorkerId]] = []
    for job in head:
        if not idle:
            break
        for index, worker in enumerate(idle):
            if job.node_types <= worker.node_types:
                placed.append((job.id, worker.id))
                del idle[index]
                break
    return placed
