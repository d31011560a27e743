"""Jobs that may go to one worker only, and so many of them at once [10.4]."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from comfyrail.ids import JobId
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.queue import Lane
from comfyrail.jobs.workers import SchedulableWorker
from comfyrail.scheduling.fairness import FairShares
from comfyrail.scheduling.placement import Decision, PlacementRules, place
from tests.scheduling.making import NOW, PROFILE, busy, decide, lane, needs, pairs, worker
from tests.scheduling.test_placement_properties import fleets, lane_of, queues

OTHER = replace(PROFILE, rate=0.002)


def only(name: str, *models: str) -> JobNeeds:
    return replace(needs(*models), worker=name)


def limited(lanes: list[Lane], running: int, limit: int | None) -> Decision:
    workers = [worker("a", slots=10), worker("b", slots=10)]
    rules = PlacementRules(worker_limit=limit)
    return place(lanes, workers, NOW, FairShares(), {}, rules, running_for_worker={"a": running})


def test_needs_with_a_worker_survive_the_way_to_the_disk() -> None:
    asked = only("a", "model")
    assert JobNeeds.decode(asked.encode()) == asked
    assert asked.group != needs("model").group


def test_job_goes_to_its_worker_among_others_that_are_alike() -> None:
    workers = [worker(name) for name in ("a", "b", "c")]
    assert pairs(decide([lane(only("b"), 10.0)], workers)) == [("job-0", "b")]


def test_job_waits_for_its_worker_while_others_are_free() -> None:
    workers = [worker("a"), busy("b", free_in=5.0), worker("c", profile=OTHER)]
    assert pairs(decide([lane(only("b"), 10.0)], workers)) == []


def test_job_goes_to_its_worker_although_another_one_is_warm() -> None:
    workers = [worker("a", "model"), worker("b")]
    assert pairs(decide([lane(only("b", "model"), 10.0)], workers)) == [("job-0", "b")]


def test_job_goes_to_its_worker_although_it_has_failed_there() -> None:
    asked = replace(only("b"), avoided=("b",))
    assert pairs(decide([lane(asked, 10.0)], [worker("a"), worker("b")])) == [("job-0", "b")]


def test_job_for_a_worker_that_is_gone_keeps_nobody_else_waiting() -> None:
    lanes = [lane(only("gone"), -100.0), lane(needs(), 10.0, name="other")]
    assert pairs(decide(lanes, [worker("a")])) == [("other-0", "a")]


def test_no_more_begin_on_a_worker_than_may_be_there_at_once() -> None:
    lanes = [lane(only("a"), *range(10)), lane(needs(), 1.0, 2.0, name="free")]
    begun = pairs(limited(lanes, running=1, limit=3))
    assert sum(job.startswith("job") for job, _ in begun) == 2
    assert sum(job.startswith("free") for job, _ in begun) == 2
    assert len(pairs(limited(lanes[:1], running=1, limit=None))) == 10
    assert pairs(limited(lanes[:1], running=3, limit=3)) == []


def test_limit_counts_jobs_of_all_lanes_and_tenants_together() -> None:
    lanes = [
        lane(only("a"), 1.0, 2.0, name="one", tenant="one"),
        lane(only("a", "model"), 1.0, 2.0, name="two", tenant="two"),
    ]
    assert len(pairs(limited(lanes, running=0, limit=3))) == 3


@given(lanes=queues(), workers=fleets, name=st.sampled_from([f"w{n}" for n in range(7)]))
def test_jobs_for_one_worker_are_never_anywhere_else(
    lanes: list[Lane], workers: list[SchedulableWorker], name: str
) -> None:
    changed = [
        replace(each, needs=replace(each.needs, worker=name if number % 2 else ""))
        for number, each in enumerate(lanes)
    ]
    by_job = lane_of(changed)
    for job, chosen in pairs(decide(changed, workers)):
        assert by_job[JobId(job)].needs.worker in {"", chosen}
