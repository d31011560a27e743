"""Predicted waits [4.5]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.queue import QueuePlace
from comfyrail.jobs.workers import WorkerProfile
from comfyrail.scheduling.candidates import CandidateMemo
from comfyrail.scheduling.waits import FleetSummary, predict_wait
from tests.scheduling.making import busy, needs, worker

FIRST = QueuePlace(1, 0.0)


def test_first_job_waits_for_the_first_worker() -> None:
    assert predict_wait(FIRST, [busy("a", free_in=9), busy("b", free_in=4)]) == 4
    assert predict_wait(FIRST, [busy("a", free_in=9), worker("b")]) == 0


def test_nobody_who_could_ever_run_it_is_none() -> None:
    assert predict_wait(FIRST, []) is None
    assert predict_wait(FIRST, [worker("a")], needs(types=["X"])) is None


def test_work_ahead_is_shared_out_over_the_workers_as_they_get_free() -> None:
    workers = [worker("a"), busy("b", free_in=10), busy("c", free_in=1000)]
    wait = predict_wait(QueuePlace(5, 30.0), workers)
    assert wait == pytest.approx(20, abs=0.3)  # a works 20 s, b 10 s


def test_workers_that_cannot_run_the_job_still_do_their_part_of_what_is_ahead() -> None:
    other = WorkerProfile(frozenset())
    workers = [worker("a"), *(worker(f"o{n}", profile=other) for n in range(9))]
    wait = predict_wait(QueuePlace(50, 100.0), workers, needs(types=["A"]))
    assert wait == pytest.approx(10, abs=0.2)


@given(
    free_in=st.lists(st.floats(0, 1e4), min_size=1, max_size=20),
    ahead=st.floats(0, 1e6),
    more=st.floats(0, 1e6),
)
def test_more_work_ahead_is_never_a_shorter_wait(
    free_in: list[float], ahead: float, more: float
) -> None:
    fleet = FleetSummary([busy(f"w{n}", free_in=each) for n, each in enumerate(free_in)])
    less = predict_wait(QueuePlace(2, ahead), fleet)
    longer = predict_wait(QueuePlace(3, ahead + more), fleet)
    assert less is not None
    assert longer is not None
    assert longer >= less * 0.97 - 0.02
    exact = sum(max(0.0, less - each) for each in free_in)
    assert exact == pytest.approx(ahead, rel=0.05, abs=0.05 * len(free_in) * (1 + less))


def test_fleet_is_looked_at_once_for_many_jobs() -> None:
    memo = CandidateMemo()
    fleet = FleetSummary([busy(f"w{n}", free_in=n) for n in range(1000)], memo)
    asked = [JobNeeds(video_memory=n) for n in range(10)]
    for _ in range(100):
        for each in asked:
            predict_wait(QueuePlace(9, 500.0), fleet, each)
    assert (memo.asked, memo.worked_out) == (1000, 10)
