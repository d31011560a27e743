"""What a job's owner is told when no worker takes it."""

import pytest

from comfyrail.jobs.needs import JobNeeds, ModelUse
from comfyrail.jobs.workers import WorkerProfile
from comfyrail.scheduling.obstacles import NO_WORKER, NOT_TOGETHER, obstacle

A = frozenset({"A"})
SMALL = WorkerProfile(A, {"loras": frozenset({"x"})}, video_memory=1 << 30, labels={"zone": "a"})
OTHER = WorkerProfile(frozenset({"B"}), {"loras": frozenset()}, video_memory=2 << 30)


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        (JobNeeds(A), None),
        (JobNeeds(A, labels={"zone": "b"}), "the label zone=b"),
        (JobNeeds(frozenset("ABCDEF")), "the node type C, D, E and 1 more"),
        (JobNeeds(A, (ModelUse("loras", "y"),)), "the model y"),
        (JobNeeds(A, video_memory=4 << 30), "4.3 GB of video memory; the largest"),
        (JobNeeds(frozenset("AB")), NOT_TOGETHER),
    ],
)
def test_obstacle_is_named(needs: JobNeeds, said: str | None) -> None:
    found = obstacle(needs, [SMALL, OTHER])
    assert (found is None) if said is None else (found is not None and said in found)


def test_no_worker_at_all_is_said() -> None:
    assert obstacle(JobNeeds(A), []) == NO_WORKER
