"""What holds for every round, whatever the queue and the fleet are."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from comfyrail.clock import Instant
from comfyrail.ids import JobId, TenantId, WorkerId
from comfyrail.jobs.needs import JobNeeds, ModelUse
from comfyrail.jobs.priority import QueueClass
from comfyrail.jobs.queue import Lane, QueuedJob
from comfyrail.jobs.workers import SchedulableWorker, WorkerProfile
from comfyrail.scheduling.candidates import CandidateMemo
from comfyrail.scheduling.fairness import FairShares, RoundOfService
from comfyrail.scheduling.placement import PlacementRules, place
from comfyrail.scheduling.scoring import can_run, gpu_score, load_seconds
from tests.scheduling.making import GIGABYTE, NOW, decide, lane, needs, worker

MODELS = ["m0", "m1", "m2", "m3"]
TYPES = ["A", "B"]
TENANTS = [TenantId("t0"), TenantId("t1"), TenantId("t2")]
PROFILES = [
    WorkerProfile(
        frozenset(types), {"checkpoints": frozenset(models)}, video_memory=memory, labels=labels
    )
    for types, models, memory, labels in (
        (TYPES, MODELS, 24 * GIGABYTE, {}),
        (["A"], MODELS, 12 * GIGABYTE, {"region": "eu"}),
        (TYPES, MODELS[:2], None, {}),
    )
]

job_needs = st.builds(
    lambda types, models, size, labels: JobNeeds(
        frozenset(types),
        tuple(ModelUse("checkpoints", name, size) for name in sorted(models)),
        size * len(models),
        labels=labels,
    ),
    st.sets(st.sampled_from(TYPES)),
    st.sets(st.sampled_from(MODELS), max_size=2),
    st.sampled_from([0, GIGABYTE, 9 * GIGABYTE, 9 * GIGABYTE]),
    st.sampled_from([{}, {}, {}, {"region": "eu"}]),
)
fleets = st.lists(
    st.builds(
        lambda profile, warm, slots, free_in, idle: (
            profile,
            frozenset(warm),
            slots,
            free_in,
            idle,
        ),
        st.sampled_from(PROFILES),
        st.sets(st.sampled_from(MODELS), max_size=2),
        st.integers(0, 2),
        st.sampled_from([0.0, 0.0, 3.0, 15.0, 30.0]),
        st.integers(0, 3),
    ),
    max_size=6,
).map(
    lambda found: [
        SchedulableWorker(
            WorkerId(f"w{n}"), profile, warm, slots, free_in, 0.0 if slots else 1.0, float(idle)
        )
        for n, (profile, warm, slots, free_in, idle) in enumerate(found)
    ]
)


@st.composite
def queues(draw: st.DrawFn, tenants: Sequence[TenantId] = TENANTS) -> list[Lane]:
    groups = draw(st.lists(job_needs, min_size=1, max_size=4))
    lanes: dict[tuple[QueueClass, TenantId, str], Lane] = {}
    for number in range(draw(st.integers(0, 8))):
        group = draw(st.sampled_from(groups))
        queue_class = draw(st.sampled_from(list(QueueClass)))
        tenant = draw(st.sampled_from(tenants))
        ranks = sorted(draw(st.lists(st.integers(-900, 900), min_size=1, max_size=4)))
        jobs = [
            QueuedJob(JobId(f"j{number}-{n}"), NOW + 1000 * rank, draw(st.floats(0, 100)), NOW)
            for n, rank in enumerate(ranks)
        ]
        lanes.setdefault((queue_class, tenant, group.group), Lane(queue_class, tenant, group, jobs))
    return list(lanes.values())


def lane_of(lanes: Sequence[Lane]) -> dict[JobId, Lane]:
    return {job.id: each for each in lanes for job in each.jobs}


@given(lanes=queues(), workers=fleets)
def test_every_placement_is_possible_and_none_is_double(
    lanes: list[Lane], workers: list[SchedulableWorker]
) -> None:
    decision = decide(lanes, workers)
    by_id = {each.id: each for each in workers}
    lane_by_job = lane_of(lanes)
    assert all(count == 1 for count in Counter(p.job_id for p in decision.placements).values())
    for name, count in Counter(p.worker_id for p in decision.placements).items():
        assert count <= by_id[WorkerId(name)].slots
    for placement in decision.placements:
        chosen = by_id[WorkerId(placement.worker_id)]
        assert can_run(lane_by_job[placement.job_id].needs, chosen.profile)
        assert 0 <= placement.score <= 1
        assert placement.loads_bytes >= 0
        assert placement.warm_models <= placement.models


@given(lanes=queues(), workers=fleets)
def test_jobs_of_a_lane_begin_on_each_worker_in_the_order_of_their_deadlines(
    lanes: list[Lane], workers: list[SchedulableWorker]
) -> None:
    placements = decide(lanes, workers).placements
    for one in workers:
        begun = [each.job_id for each in placements if each.worker_id == one.id]
        for each in lanes:
            ids = [job.id for job in each.jobs if job.id in begun]
            assert ids == [job for job in begun if job in set(ids)]


@given(lanes=queues(), workers=fleets, limit=st.integers(0, 3), running=st.integers(0, 3))
def test_limits_of_tenants_hold(
    lanes: list[Lane], workers: list[SchedulableWorker], limit: int, running: int
) -> None:
    rules = PlacementRules(tenant_limits={TENANTS[0]: limit})
    decision = decide(lanes, workers, running={TENANTS[0]: running}, rules=rules)
    tenants = Counter(lane_of(lanes)[p.job_id].tenant for p in decision.placements)
    assert tenants[TENANTS[0]] <= max(0, limit - running)


@given(lanes=queues(tenants=TENANTS[:1]), workers=fleets)
def test_overdue_job_is_passed_over_only_within_its_window(
    lanes: list[Lane], workers: list[SchedulableWorker]
) -> None:
    """On one worker, by jobs for which it is warm, due no later after the overdue one than four
    times its load takes or half of the time by which it is late.
    """
    rules = PlacementRules()
    for alone in workers:
        decision = decide(lanes, [alone], rules=rules)
        if not decision.placements:
            continue
        first = decision.placements[0]
        rank = {job.id: job.rank for each in lanes for job in each.jobs}
        for each in lanes:
            head = each.jobs[0]
            is_passed_over = head.rank < min(NOW, rank[first.job_id])
            if not is_passed_over or not can_run(each.needs, alone.profile):
                continue
            sizes = [model.size or rules.assumed_model_bytes for model in each.needs.models]
            late = (NOW - head.rank) / 1000
            longest = rules.batch_loads * load_seconds(sum(sizes), alone.profile)
            window = max(longest, rules.batch_lateness * late)
            assert rank[first.job_id] <= head.rank + 1000 * window
            assert first.models
            assert first.warm_models


@given(lanes=queues(tenants=TENANTS[:1]), workers=fleets)
def test_without_a_window_deadlines_are_strict(
    lanes: list[Lane], workers: list[SchedulableWorker]
) -> None:
    rules = PlacementRules(batch_loads=0, batch_lateness=0)
    rank = {job.id: job.rank for each in lanes for job in each.jobs}
    for alone in workers:
        begun = [rank[p.job_id] for p in decide(lanes, [alone], rules=rules).placements]
        possible = [
            job.rank for each in lanes for job in each.jobs if can_run(each.needs, alone.profile)
        ]
        assert begun == sorted(possible)[: len(begun)]


@given(lanes=queues(), workers=fleets)
def test_same_state_gives_the_same_decision(
    lanes: list[Lane], workers: list[SchedulableWorker]
) -> None:
    one = place(lanes, workers, NOW, FairShares(), {}, PlacementRules(), CandidateMemo())
    two = place(lanes, workers, NOW, FairShares(), {}, PlacementRules(), CandidateMemo())
    assert one == two


@given(lanes=queues(), workers=fleets, lead=st.floats(0, 1e5))
def test_shares_are_read_and_not_changed(
    lanes: list[Lane], workers: list[SchedulableWorker], lead: float
) -> None:
    shares = FairShares()
    key = (QueueClass.MEDIUM, TENANTS[0])
    shares.charge(RoundOfService({key: lead}))
    decision = decide(lanes, workers, shares=shares)
    assert shares.clock(key) == lead
    served = {
        (lane_of(lanes)[p.job_id].queue_class, lane_of(lanes)[p.job_id].tenant)
        for p in decision.placements
    }
    assert set(decision.service.seconds) == served


@given(lanes=queues(tenants=TENANTS[:1]), workers=fleets)
def test_free_worker_stays_free_only_for_a_reason(
    lanes: list[Lane], workers: list[SchedulableWorker]
) -> None:
    """A job that is overdue by far begins wherever there is room for it."""
    decision = decide(lanes, workers)
    given_to = Counter(placement.worker_id for placement in decision.placements)
    begun = {placement.job_id for placement in decision.placements}
    left = [w for w in workers if w.slots and not given_to[w.id]]
    for each in lanes:
        waiting = [job for job in each.jobs if job.id not in begun]
        if waiting and NOW - waiting[0].rank > 1000 * PlacementRules().longest_late:
            assert not any(can_run(each.needs, w.profile) and w.free_in == 0 for w in left)


@settings(max_examples=40)
@given(lanes=queues(), workers=fleets, is_flooded=st.booleans(), lookahead=st.integers(0, 4))
def test_job_that_an_idle_worker_can_run_begins_or_is_woken_for(
    lanes: list[Lane], workers: list[SchedulableWorker], is_flooded: bool, lookahead: int
) -> None:
    """However many are before it that wait for busy workers."""
    rules = PlacementRules() if is_flooded else PlacementRules(lookahead=lookahead)
    if is_flooded:
        elsewhere = WorkerProfile(frozenset(TYPES), labels={"pool": "elsewhere"})
        asked = needs(types=TYPES, labels=elsewhere.labels)
        flood = [
            lane(asked, *[-900] * 16, name=f"f{n}", tenant=f"f{n}", expected=0.0) for n in range(70)
        ]
        lanes = [*flood, *lanes]
        workers = [worker("elsewhere", profile=elsewhere, slots=0, free_in=9), *workers]
    decision = decide(lanes, workers, rules=rules)
    begun = {placement.job_id for placement in decision.placements}
    given_to = {placement.worker_id for placement in decision.placements}
    idle = [w for w in workers if w.slots and w.free_in == 0 and w.id not in given_to]
    if any(
        can_run(each.needs, w.profile)
        for each in lanes
        for w in idle
        if any(job.id not in begun for job in each.jobs)
    ):
        assert decision.wake_in is not None


@given(warm=st.sets(st.sampled_from(MODELS)), load=st.floats(0, 1))
def test_score_in_the_placement_is_that_of_the_worker_as_it_is(warm: set[str], load: float) -> None:
    asked = needs("m0", "m1", size=5 * GIGABYTE)
    free = worker("w", *warm, load=load)
    (placement,) = decide([lane(asked, 1)], [free]).placements
    assert placement.score == gpu_score(asked, free.profile, free.warm, load)


def test_work_of_a_round_grows_with_groups_and_profiles_not_with_jobs_and_workers() -> None:
    """Counted, not timed: which workers can run a job is worked out once a group and profile, and
    asked for about once a job.
    """
    counts: list[tuple[int, int]] = []
    for scale in (1, 10):
        memo = CandidateMemo()
        lanes = [
            lane(needs(f"m{n}"), *range(1, 1 + 5 * scale), name=f"j{n}", tenant=f"t{n % 3}")
            for n in range(20)
        ]
        workers = [worker(f"w{n}", f"m{n % 20}", f"q{n % 7}") for n in range(100 * scale)]
        decision = place(lanes, workers, NOW, FairShares(), {}, PlacementRules(), memo)
        assert len(decision.placements) == 100 * scale
        counts.append((memo.worked_out, memo.asked))
    assert counts[0][0] == counts[1][0] == 20
    assert counts[1][1] <= 2 * 1000


def test_memo_of_candidates_is_bounded() -> None:
    memo = CandidateMemo(pairs_kept=10)
    for number in range(100):
        memo.can_run(JobNeeds(video_memory=number), PROFILES[0])
        assert len(memo) <= 10


@settings(max_examples=25)
@given(seconds=st.integers(0, 2000))
def test_job_that_waits_begins_at_the_latest_when_it_is_long_overdue(seconds: int) -> None:
    """Whatever is said about a busy worker: here it is said to be free at once, for ever."""
    liar = worker("liar", "x", slots=0, free_in=0.0)
    free = worker("free", "y", "z")
    waiting = lane(needs("x"), 120)
    later = Instant(NOW + 1000 * seconds)
    decision = place([waiting], [liar, free], later, FairShares(), {}, PlacementRules())
    assert bool(decision.placements) is (seconds > 120 + 300)
    if not decision.placements:
        assert decision.wake_in is not None
