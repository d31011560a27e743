"""Where jobs go that have failed before: not where they failed, and to larger workers [7.2]."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from comfyrail.ids import JobId
from comfyrail.jobs.needs import JobNeeds
from comfyrail.jobs.queue import Lane
from comfyrail.jobs.workers import SchedulableWorker, WorkerProfile
from comfyrail.scheduling.scoring import can_run
from comfyrail.scheduling.timeline import LONGEST_DETOUR
from tests.scheduling.making import GIGABYTE, PROFILE, busy, decide, lane, needs, pairs, worker
from tests.scheduling.test_placement_properties import PROFILES, fleets, lane_of, queues

LARGER = replace(PROFILE, video_memory=48 * GIGABYTE)
AVOIDED = st.lists(st.sampled_from([f"w{n}" for n in range(7)]), unique=True, max_size=4)
TOO_LITTLE = st.sampled_from([0, 0, 11 * GIGABYTE, 12 * GIGABYTE, 24 * GIGABYTE])


@st.composite
def queues_after_failures(draw: st.DrawFn) -> list[Lane]:
    """Lanes whose jobs have failed here and there, or not."""
    lanes = []
    for each in draw(queues()):
        changed = replace(each.needs, avoided=tuple(draw(AVOIDED)), above_memory=draw(TOO_LITTLE))
        lanes.append(replace(each, needs=changed))
    return lanes


def where_they_went(
    lanes: Sequence[Lane], workers: Sequence[SchedulableWorker]
) -> list[tuple[JobNeeds, SchedulableWorker]]:
    by_id = {str(each.id): each for each in workers}
    lanes_by_job = lane_of(lanes)
    return [
        (lanes_by_job[JobId(job)].needs, by_id[name]) for job, name in pairs(decide(lanes, workers))
    ]


def others(asked: JobNeeds, workers: Sequence[SchedulableWorker]) -> list[SchedulableWorker]:
    """Those that can run it and on which it has not failed."""
    return [
        each for each in workers if can_run(asked, each.profile) and each.id not in asked.avoided
    ]


def is_idle_still(one: SchedulableWorker, given: Collection[str]) -> bool:
    """It was free before the round and got nothing in it."""
    return one.free_in == 0 and one.slots > 0 and one.id not in given


def is_larger(asked: JobNeeds, one: SchedulableWorker) -> bool:
    return (one.profile.video_memory or 0) > asked.above_memory


@given(lanes=queues_after_failures(), workers=fleets)
def test_job_goes_where_it_failed_only_if_nobody_else_is_free_for_it(
    lanes: list[Lane], workers: list[SchedulableWorker]
) -> None:
    went = where_they_went(lanes, workers)
    given_to = {chosen.id for _, chosen in went}
    for asked, chosen in went:
        assert can_run(asked, chosen.profile)
        if chosen.id in asked.avoided:
            assert not any(is_idle_still(each, given_to) for each in others(asked, workers))


@given(lanes=queues_after_failures(), workers=fleets)
def test_job_that_had_too_little_memory_goes_to_a_larger_worker_if_there_is_one(
    lanes: list[Lane], workers: list[SchedulableWorker]
) -> None:
    for asked, chosen in where_they_went(lanes, workers):
        if chosen.id in asked.avoided or not asked.above_memory:
            continue
        if any(is_larger(asked, each) for each in others(asked, workers)):
            assert is_larger(asked, chosen)


@given(
    profiles=st.lists(st.sampled_from(PROFILES), min_size=1, max_size=5),
    too_little=TOO_LITTLE,
    warm=st.sampled_from([(), ("m0",)]),
)
def test_job_that_has_failed_everywhere_is_not_stuck(
    profiles: list[WorkerProfile], too_little: int, warm: tuple[str, ...]
) -> None:
    workers = [worker(f"w{n}", *warm, profile=each) for n, each in enumerate(profiles)]
    everywhere = tuple(str(each.id) for each in workers)
    asked = replace(
        needs("m0", types=["A"], size=GIGABYTE), avoided=everywhere, above_memory=too_little
    )
    assert len(decide([lane(asked, -400)], workers).placements) == 1


@given(lanes=queues(), workers=fleets)
def test_failures_on_workers_that_are_gone_change_nothing(
    lanes: list[Lane], workers: list[SchedulableWorker]
) -> None:
    failed = [
        replace(each, needs=replace(each.needs, avoided=("gone", "gone too"))) for each in lanes
    ]
    plain, after = decide(lanes, workers), decide(failed, workers)
    assert pairs(plain) == pairs(after)
    assert plain.wake_in == after.wake_in


@given(lanes=queues_after_failures(), workers=fleets)
def test_free_worker_stays_free_only_if_a_late_job_may_go_elsewhere(
    lanes: list[Lane], workers: list[SchedulableWorker]
) -> None:
    decision = decide(lanes, workers)
    begun = {each.job_id for each in decision.placements}
    taken = {each.worker_id for each in decision.placements}
    idle = [w for w in workers if w.slots and not w.free_in and w.id not in taken]
    for each in lanes:
        late = [job for job in each.jobs if job.id not in begun]
        if not late or decision.wake_in is not None:
            continue
        for one in idle:
            if can_run(each.needs, one.profile):
                is_avoided = one.id in each.needs.avoided or not is_larger(each.needs, one)
                assert is_avoided
                assert others(each.needs, workers)


def test_job_waits_for_a_busy_worker_rather_than_go_where_it_failed() -> None:
    asked = replace(needs(types=["A"]), avoided=("failed",))
    workers = [worker("failed"), busy("other", free_in=LONGEST_DETOUR - 1)]
    assert not decide([lane(asked, -900)], workers).placements
    assert pairs(decide([lane(asked, -900)], [*workers, worker("free")])) == [("job-0", "free")]
    assert pairs(decide([lane(asked, -900)], workers[:1])) == [("job-0", "failed")]
    long_busy = [worker("failed"), busy("other", free_in=LONGEST_DETOUR + 1)]
    assert pairs(decide([lane(asked, -900)], long_busy)) == [("job-0", "failed")]


def test_worker_on_which_one_job_failed_is_given_others() -> None:
    failed = lane(replace(needs("m"), avoided=("a",)), -900, name="failed")
    plain = lane(needs("m"), 10, name="plain")
    assert sorted(pairs(decide([failed, plain], [worker("a", "m"), worker("b", "m")]))) == [
        ("failed-0", "b"),
        ("plain-0", "a"),
    ]
    assert pairs(decide([failed, plain], [worker("a", "m"), busy("b", "m", free_in=5)])) == [
        ("plain-0", "a")
    ]


def test_warm_worker_on_which_a_job_failed_does_not_draw_it_before_another_one() -> None:
    failed = lane(replace(needs("m"), avoided=("a",)), 10, name="failed")
    first = lane(needs("x"), 5, name="first")
    workers = [worker("a", "m"), busy("b", free_in=LONGEST_DETOUR - 1)]
    assert pairs(decide([first, failed], workers)) == [("first-0", "a")]


def test_worker_that_one_job_avoids_is_still_known_to_be_warm_for_the_next() -> None:
    failed = lane(replace(needs("m"), avoided=("a",)), -900, name="failed")
    plain = lane(needs("m"), 10, name="plain")
    workers = [worker("a", "m"), worker("b", "m"), worker("c")]
    assert dict(pairs(decide([failed, plain], workers))) == {"failed-0": "b", "plain-0": "a"}


def test_larger_worker_is_waited_for_even_if_a_smaller_one_is_warm_and_free() -> None:
    asked = replace(needs("m"), above_memory=24 * GIGABYTE)
    small, large = worker("small", "m"), worker("large", profile=LARGER)
    busy_large = replace(large, slots=0, free_in=20.0)
    assert pairs(decide([lane(asked, 10)], [small, large])) == [("job-0", "large")]
    assert not decide([lane(asked, 10)], [small, busy_large]).placements
    assert pairs(decide([lane(asked, 10)], [small])) == [("job-0", "small")]


def test_larger_worker_on_which_it_failed_too_is_avoided() -> None:
    asked = replace(needs("m"), above_memory=24 * GIGABYTE, avoided=("large",))
    workers = [worker("small"), worker("large", "m", profile=LARGER)]
    assert pairs(decide([lane(asked, 10)], workers)) == [("job-0", "small")]


def test_every_worker_is_used_though_every_job_avoids_another_one() -> None:
    """Each job that has failed is a group of its own."""
    workers = [worker(f"w{n}", "m") for n in range(400)]
    lanes = [
        lane(replace(needs("m"), avoided=(f"w{n}",)), 10, name=f"j{n}", tenant=f"t{n}")
        for n in range(400)
    ]
    placed = dict(pairs(decide(lanes, workers)))
    assert len(set(placed.values())) == 400
    assert all(placed[f"j{n}-0"] != f"w{n}" for n in range(400))
