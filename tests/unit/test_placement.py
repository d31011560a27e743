"""Which job goes where."""

from comfyrail.ids import JobId, WorkerId
from comfyrail.jobs.job import QueuedJob
from comfyrail.jobs.workers import FreeWorker
from comfyrail.scheduling.placement import place


def queued(name: str, *types: str) -> QueuedJob:
    return QueuedJob(JobId(name), 0, frozenset(types))


def free(name: str, since: float, *types: str) -> FreeWorker:
    return FreeWorker(WorkerId(name), frozenset(types), since)


def test_jobs_go_in_order_to_the_workers_that_were_idle_longest() -> None:
    workers = [free("young", 9, "A"), free("old", 1, "A")]
    assert place([queued("1", "A"), queued("2", "A"), queued("3", "A")], workers) == [
        ("1", "old"),
        ("2", "young"),
    ]


def test_worker_without_the_node_types_is_no_candidate() -> None:
    workers = [free("plain", 1, "A"), free("rich", 2, "A", "B")]
    assert place([queued("1", "A", "B")], workers) == [("1", "rich")]


def test_job_that_nobody_can_run_does_not_stop_those_behind_it() -> None:
    assert place([queued("1", "X"), queued("2", "A")], [free("w", 0, "A")]) == [("2", "w")]
