"""Everything that can happen to jobs, in any order: submissions, attempts, ends, time, crashes."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from comfyrail.clock import Instant
from comfyrail.ids import AttemptToken, BatchId, JobId, TenantId, WorkerId
from comfyrail.jobs.events import EventType
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.job import BatchPlace, IdempotencyKey, NewJob, NewOutput
from comfyrail.jobs.needs import MEMORY_STEP, JobNeeds
from comfyrail.jobs.outcome import Cancelled, Completed, Failed, Lost, Outcome
from comfyrail.jobs.priority import standing_of
from comfyrail.jobs.recovery import RecoveryKind, Remedy
from comfyrail.store.interface import Assignment
from comfyrail.store.sqlite.database import DATABASE_NAME
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.store.life_cycle.checks import ask_all, untruths, untruths_of_job
from tests.store.life_cycle.model import KEY_MILLISECONDS, Model, ModelAttempt, ModelJob
from tests.store.life_cycle.observed import Observer, broken_rules, settle
from tests.store.life_cycle.operations import (
    Add,
    AddBatch,
    Adopt,
    Answer,
    AttendBatches,
    Cancel,
    CancelBatch,
    CancelBatchJobs,
    ExpireLeases,
    ExpireQueued,
    Extend,
    Finish,
    GiveUp,
    NoteJump,
    Operation,
    Pause,
    Record,
    ReleaseDue,
    Reprioritize,
    Resume,
    Start,
    answer_of,
)
from tests.store.test_store import ManualClock, an_output, new_job

Result = TypeVar("Result")

TENANTS = (TenantId("t"), TenantId("other"))
WORKERS = tuple(WorkerId(f"w{number}") for number in range(3))
OWNERS = ("me", "you")
STORED_AT_ONCE = 2
"""Of a batch: small ones go the way of large ones."""
FAST_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Here nothing is about the disk, and thousands of commits would wait for it."""
WAL_NAME = f"{DATABASE_NAME}-wal"
EVENTS = (EventType.PROGRESS, EventType.NODE_STARTED, EventType.OUTPUT_READY)

which = st.integers(0, 7)
"""One of those that come into question, by its number."""
tenants = st.sampled_from(TENANTS)
workers = st.sampled_from(WORKERS)
owners = st.sampled_from(OWNERS)
leases = st.sampled_from((1.0, 15.0, 60.0))
events = st.lists(st.sampled_from(EVENTS), max_size=2).map(tuple)
# All of them are exact in binary: no clock is off by a rounding.
durations = st.sampled_from((0.25, 2.0, 8.0, 15.0, 45.0, 100.0, 3600.0, 90_000.0))
jumps = st.sampled_from((-7200.0, -3600.0, -20.0, -1.5, 1.5, 20.0, 3600.0, 7200.0))
priorities = st.integers(1, 10)
standings = st.builds(standing_of, priorities, is_batch=st.booleans())
needs_of_all_kinds = st.builds(
    JobNeeds,
    node_types=st.sampled_from((frozenset({"A"}), frozenset({"B"}))),
    video_memory=st.sampled_from((0, 4 * MEMORY_STEP, 11 * MEMORY_STEP)),
)
keys = st.builds(IdempotencyKey, st.sampled_from(("k", "l")), st.sampled_from(("x", "y")))


@st.composite
def new_jobs(draw: st.DrawFn, /, **fixed: Any) -> NewJob:
    """With a made-up id and time: the machine sets both. `not_before` counts from then."""
    values: dict[str, Any] = {
        "priority": draw(priorities),
        "standing": draw(standings),
        "tenant": draw(tenants),
        "needs": draw(needs_of_all_kinds),
        "expected_seconds": draw(st.sampled_from((0.1, 30.0, 400.0))),
        "timeout_seconds": draw(st.sampled_from((10.0, 70_000.0))),
        "max_retries": draw(st.integers(0, 4)),
        "not_before": draw(st.sampled_from((None, None, None, -5000, 3000, 60_000))),
        "queue_timeout": draw(st.sampled_from((None, None, 5.0, 30.0))),
    }
    return new_job(ManualClock(), **(values | fixed))


FAULT = Fault("execution", "NODE_FAILED", "it broke")
MENDED = b'{"1": {"class_type": "Mended", "inputs": {}}}'

remedies = st.one_of(
    st.builds(
        Remedy,
        st.sampled_from(RecoveryKind),
        avoid=st.one_of(st.none(), workers),
        above_memory=st.sampled_from((0, 1 << 30)),
    ),
    st.just(Remedy(RecoveryKind.MENDED, prompt=MENDED, node_count=1, changes=("put right",))),
)
outputs = st.lists(st.just(an_output()), max_size=2).map(tuple)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Completed, outputs),
    st.builds(Failed, st.just(FAULT), outputs),
    st.builds(Failed, st.just(FAULT), outputs, remedies),
    st.builds(Failed, st.just(FAULT), outputs, remedies),
    st.builds(Cancelled, outputs),
    st.builds(Lost, st.just("gone"), st.booleans()),
)
failures = st.one_of(
    st.builds(Failed, st.just(FAULT), outputs, remedies),
    st.builds(Lost, st.just("gone"), st.booleans()),
)
on_a_job = st.sampled_from(("start", "cancel", "move", "expire", "release", "pause"))
on_an_attempt = st.sampled_from(
    ("finish", "finish", "cancel", "lose", "extend", "record", "adopt", "give up")
)


class LifeCycle(RuleBasedStateMachine):
    """One store, its clock, and the model that says what should be in it."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        self.folder = Path(tempfile.mkdtemp(prefix="life-cycle-", dir=FAST_DISK))
        self.starts = 0
        self.made = 0
        self.is_open = False
        self.has_failed = False
        self.patch = mock.patch(
            "comfyrail.store.sqlite.batch_operations.STORED_AT_ONCE", STORED_AT_ONCE
        )
        self.patch.start()
        self.model = Model(self.clock.now())
        self.open(15.0)

    def teardown(self) -> None:
        try:
            if not self.has_failed:
                self.bring_everything_to_its_end()
        finally:
            self.patch.stop()
            if self.is_open:
                self.shut()
            self.runner.close()
            shutil.rmtree(self.folder)

    # The store and its likeness

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(work)

    @property
    def data(self) -> Path:
        return self.folder / str(self.starts)

    def open(self, lease_seconds: float) -> None:
        self.store: SqliteStore = self.run(open_sqlite_store(self.data, self.clock, lease_seconds))
        self.observer = Observer(self.data)
        self.seen = self.observer.look()
        self.is_open = True

    def shut(self) -> None:
        self.is_open = False
        self.observer.close()
        self.run(self.store.close())

    def do(self, *operations: Operation) -> Sequence[Answer]:
        """Ask for them all at once: it must look as if one had come after the other."""
        for operation in operations:
            note(f"{'   with ' if len(operations) > 1 else ''}{operation}")
        answers = self.run(self._ask(operations))
        self.seen = self.observer.look()
        problems: list[str] = []
        for order in permutations(range(len(operations))):
            problems = self._compare([(operations[each], answers[each]) for each in order])
            if not problems:
                return answers
        self.demand_none(problems)
        return answers

    def demand_none(self, problems: Sequence[str]) -> None:
        """After the first one nothing that follows would tell anything."""
        self.has_failed |= bool(problems)
        assert not problems, "\n".join(problems)

    async def _ask(self, operations: Sequence[Operation]) -> Sequence[Answer]:
        return await asyncio.gather(*(answer_of(each, self.store) for each in operations))

    def _compare(self, answered: Sequence[tuple[Operation, Answer]]) -> list[str]:
        """How the store differs from a model to which this has happened; if not, it is ours."""
        model = self.model.copy()
        problems = []
        for operation, answer in answered:
            expected = operation.expect(model)
            if answer != expected:
                problems.append(f"{operation}\n  answered {answer}\n  and not {expected}")
        model, differences = settle(model, self.seen, self._lease_shift())
        if not problems and not differences:
            self.model = model
        return problems + differences

    def _lease_shift(self) -> int:
        return self.model.steady - self.store._steady_now()

    # What comes in

    def named(self, job: NewJob, **changes: Any) -> NewJob:
        """With an id and the time of now."""
        self.made += 1
        now = self.clock.now()
        until = None if job.not_before is None else Instant(now + job.not_before)
        job_id = JobId(f"job-{self.made:03}")
        return replace(job, id=job_id, submitted_at=now, not_before=until, **changes)

    @initialize(jobs=st.lists(new_jobs(not_before=None), min_size=1, max_size=3))
    def begin(self, jobs: list[NewJob]) -> None:
        for job in jobs:
            self.do(Add(self.named(job)))

    @rule(job=new_jobs(), key=st.one_of(st.none(), keys))
    def add(self, job: NewJob, key: IdempotencyKey | None) -> None:
        self.do(Add(self.named(job, idempotency=key)))

    @rule(jobs=st.lists(new_jobs(), min_size=2, max_size=3), key=keys)
    def add_at_once_with_one_key(self, jobs: list[NewJob], key: IdempotencyKey) -> None:
        tenant = jobs[0].tenant
        self.do(*(Add(self.named(job, idempotency=key, tenant=tenant)) for job in jobs))

    @precondition(lambda self: len(self.model.batches) < 4)
    @rule(
        jobs=st.lists(new_jobs(), min_size=1, max_size=4),
        stop_on_error=st.booleans(),
        tenant=tenants,
    )
    def add_batch(self, jobs: list[NewJob], stop_on_error: bool, tenant: TenantId) -> None:
        batch_id = BatchId(f"batch-{len(self.model.batches)}")
        members = tuple(
            self.named(job, tenant=tenant, batch=BatchPlace(batch_id, index))
            for index, job in enumerate(jobs)
        )
        self.do(AddBatch(batch_id, tenant, stop_on_error, members, STORED_AT_ONCE))

    # Attempts

    def assignment(self, job_id: JobId, worker_id: WorkerId) -> Assignment:
        self.made += 1
        return Assignment(job_id, worker_id, AttemptToken(f"token-{self.made}"))

    @precondition(lambda self: self.model.startable())
    @rule(number=which, worker=workers, owner=owners, lease=leases)
    def start(self, number: int, worker: WorkerId, owner: str, lease: float) -> None:
        job = _pick(self.model.startable(), number)
        self.do(Start((self.assignment(job.id, worker),), owner, lease))

    @precondition(lambda self: self.model.jobs)
    @rule(numbers=st.lists(which, min_size=1, max_size=4), worker=workers, lease=leases)
    def start_any(self, numbers: list[int], worker: WorkerId, lease: float) -> None:
        """Also such as are held, running or over, and the same twice."""
        startable = self.model.startable()
        others = [job for job in self.model.jobs.values() if job not in startable]
        jobs = [_pick(others + startable, number) for number in numbers]
        made = tuple(self.assignment(job.id, worker) for job in jobs)
        self.do(Start(made, OWNERS[0], lease))

    @precondition(lambda self: self.model.running())
    @rule(number=which, outcome=outcomes, told=events, is_slow=st.booleans())
    def finish(
        self, number: int, outcome: Outcome, told: tuple[EventType, ...], is_slow: bool
    ) -> None:
        token = _pick(self.model.running(), number)[1].token
        if is_slow:
            self.do(Record(token, told))
            told = ()
        self.do(Finish(token, self.with_new_outputs(outcome), told))

    @precondition(lambda self: self.model.dead_tokens)
    @rule(number=which, outcome=outcomes, told=events)
    def finish_again(self, number: int, outcome: Outcome, told: tuple[EventType, ...]) -> None:
        token = _pick(self.model.dead_tokens[::-1], number)
        (answer,) = self.do(Finish(token, self.with_new_outputs(outcome), told))
        assert answer == ("StaleAttempt",)
        self.do(Record(token, told))

    @precondition(lambda self: self.model.startable())
    @rule(number=which, worker=workers, outcome=outcomes)
    def work(self, number: int, worker: WorkerId, outcome: Outcome) -> None:
        self.try_once(_pick(self.model.startable(), number), worker, outcome)

    @precondition(lambda self: self.model.startable() or self.model.held())
    @rule(number=which, ends=st.lists(failures, min_size=1, max_size=4), worker=workers)
    def fail_again_and_again(self, number: int, ends: list[Outcome], worker: WorkerId) -> None:
        """One job, waited for each time: retries of all kinds in a row come up often enough."""
        job = _pick(self.model.startable() + self.model.held(), number)
        for outcome in ends:
            if job.held is not None:
                self.pass_time(max(0, job.held.latest - self.model.wall + 999) // 1000)
                self.do(ReleaseDue())
                job = self.model.jobs[job.id]
            if job not in self.model.startable():
                return
            job = self.try_once(job, worker, outcome)

    def try_once(self, job: ModelJob, worker: WorkerId, outcome: Outcome) -> ModelJob:
        assignment = self.assignment(job.id, worker)
        self.do(Start((assignment,), OWNERS[0], 60.0))
        self.do(Finish(assignment.token, self.with_new_outputs(outcome)))
        return self.model.jobs[job.id]

    def with_new_outputs(self, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Lost):
            return outcome
        return replace(outcome, outputs=tuple(self.new_output() for _ in outcome.outputs))

    def new_output(self) -> NewOutput:
        self.made += 1
        return an_output(f"{self.made}.png")

    @precondition(lambda self: self.model.running() or self.model.dead_tokens)
    @rule(numbers=st.lists(which, max_size=3), lease=leases)
    def extend(self, numbers: list[int], lease: float) -> None:
        tokens = [attempt.token for _, attempt in self.model.running()]
        tokens += self.model.dead_tokens[-2:]
        self.do(Extend(tuple({_pick(tokens, number): None for number in numbers}), lease))

    @precondition(lambda self: self.model.running())
    @rule(seconds=durations)
    def expire_leases(self, seconds: float) -> None:
        self.pass_time(seconds)
        self.do(ExpireLeases())

    @precondition(lambda self: self.model.running())
    @rule(number=which, owner=owners, lease=leases, is_given_up=st.booleans())
    def adopt(self, number: int, owner: str, lease: float, is_given_up: bool) -> None:
        """Nobody takes over what another one still follows."""
        _, attempt = _pick(self.model.running(), number)
        if is_given_up:
            self.do(GiveUp(attempt.owner or owner, lease))
        self.do(Adopt(attempt.worker_id, owner, lease))

    # What owners of jobs and of the queue do

    @precondition(lambda self: self.model.jobs)
    @rule(number=which, whose=st.sampled_from(("own", "own", "own", "other", "unknown")))
    def cancel(self, number: int, whose: str) -> None:
        job = _pick(self.model.active() or list(self.model.jobs.values()), number)
        tenant = job.tenant if whose == "own" else TenantId("stranger")
        self.do(Cancel(tenant, JobId("nobody") if whose == "unknown" else job.id))

    @precondition(lambda self: len(self.model.jobs) > len(self.model.active()))
    @rule(number=which)
    def cancel_what_is_over(self, number: int) -> None:
        ended = [job for job in self.model.jobs.values() if not job.is_active]
        job = _pick(ended, number)
        self.do(Cancel(job.tenant, job.id))

    @precondition(lambda self: self.model.jobs)
    @rule(number=which, priority=priorities, is_batch=st.booleans(), whose=st.integers(0, 3))
    def reprioritize(self, number: int, priority: int, is_batch: bool, whose: int) -> None:
        queued = self.model.waiting() + self.model.held()
        job = _pick(queued or list(self.model.jobs.values()), number)
        tenant = job.tenant if whose else TenantId("stranger")
        standing = standing_of(priority, is_batch=is_batch)
        self.do(Reprioritize(tenant, job.id, priority, standing))

    @rule(is_again=st.booleans(), seconds=durations)
    def pause_or_resume(self, is_again: bool, seconds: float) -> None:
        """`is_again`: what it is already."""
        self.do(Pause() if self.model.is_paused == is_again else Resume())
        self.pass_time(seconds)

    @precondition(lambda self: self.model.batches)
    @rule(number=which, is_own=st.booleans(), running=st.booleans(), is_half=st.booleans())
    def cancel_batch(self, number: int, is_own: bool, running: bool, is_half: bool) -> None:
        """`is_half`: the server went down before it had come to the jobs."""
        batch = _pick(list(self.model.batches.values()), number)
        tenant = batch.tenant if is_own else TenantId("stranger")
        (answer,) = self.do(CancelBatch(tenant, batch.id))
        if answer == () and not is_half:
            self.do(CancelBatchJobs(batch.id, running))

    @precondition(lambda self: self.batches_to_break())
    @rule(number=which, worker=workers, is_attended=st.booleans())
    def break_a_batch(self, number: int, worker: WorkerId, is_attended: bool) -> None:
        """One of its jobs fails for good while another runs and others wait."""
        jobs = _pick(self.batches_to_break(), number)
        made = tuple(self.assignment(job.id, worker) for job in jobs)
        self.do(Start(made[:2], OWNERS[0], 15.0))
        self.do(Finish(made[0].token, Failed(FAULT)))
        self.do(Start(made[2:], OWNERS[0], 15.0))
        if is_attended:
            self.do(AttendBatches())

    def batches_to_break(self) -> list[list[ModelJob]]:
        """Jobs that may start, by batch."""
        startable = self.model.startable()
        batches = self.model.batches
        found = [[job for job in startable if job.batch_id == each] for each in batches]
        return [jobs for jobs in found if jobs]

    @precondition(lambda self: self.model.batches)
    @rule()
    def attend_batches(self) -> None:
        self.do(AttendBatches())

    # Time

    @rule(seconds=durations)
    def pass_time(self, seconds: float) -> None:
        self.clock.move(seconds)
        self.model.pass_time(round(seconds * 1000))

    @rule(seconds=durations)
    def keep_the_queue(self, seconds: float) -> None:
        """What the server does once a second at least, when nothing keeps it from doing so."""
        self.pass_time(seconds)
        self.do(ReleaseDue())
        self.do(ExpireQueued())

    @rule(seconds=jumps)
    def set_the_clock(self, seconds: float) -> None:
        self.clock.set_forward(seconds)
        self.do(NoteJump(round(seconds * 1000)))

    # Crashes

    @rule(lease=leases, away=durations, is_killed=st.booleans())
    def restart(self, lease: float, away: float, is_killed: bool) -> None:
        """`is_killed`: the files are left as they were while it did nothing."""
        if is_killed:
            self.leave_to(self.folder / str(self.starts + 1))
            self.starts += 1
        else:
            self.shut()
        self.come_back(lease, away)

    @precondition(lambda self: self.model.active())
    @rule(number=which, outcome=outcomes, share=st.floats(0, 1, exclude_max=True), lease=leases)
    def crash_in_the_middle(
        self, number: int, outcome: Outcome, share: float, lease: float
    ) -> None:
        """The process is killed while it writes: what it had not acknowledged has not happened."""
        wal = self.data / WAL_NAME
        before = wal.stat().st_size
        acknowledged = self.model
        self.do(self.next_step(_pick(self.model.active(), number), outcome))
        written = wal.stat().st_size - before
        copy = self.folder / str(self.starts + 1)
        self.leave_to(copy)
        if written > 0:
            with (copy / WAL_NAME).open("r+b") as file:
                file.truncate(before + int(share * written))
            self.model = acknowledged
        self.starts += 1
        self.come_back(lease, 0.25)

    def next_step(self, job: ModelJob, outcome: Outcome) -> Operation:
        if job.running is not None:
            return Finish(job.running.token, self.with_new_outputs(outcome))
        if job.held is None:
            return Start((self.assignment(job.id, WORKERS[0]),), OWNERS[0], 15.0)
        return Cancel(job.tenant, job.id)

    def leave_to(self, copy: Path) -> None:
        """The files as they are now, with nothing of what a clean end would do to them."""
        copy.mkdir()
        for name in (DATABASE_NAME, WAL_NAME):
            shutil.copyfile(self.data / name, copy / name)
        self.shut()

    def come_back(self, lease: float, away: float) -> None:
        note(f"away for {away} s")
        self.pass_time(away)
        self.open(lease)
        self.model.give_up(None, round(lease * 1000))
        oldest = self.model.wall - KEY_MILLISECONDS
        self.model.keys = {key: used for key, used in self.model.keys.items() if used[2] > oldest}
        self.demand_none(self._compare(()))

    # At once

    @precondition(lambda self: self.model.jobs)
    @rule(
        number=which,
        kinds=st.lists(on_a_job, min_size=2, max_size=3),
        worker=workers,
        seconds=durations,
    )
    def race_for_a_job(
        self, number: int, kinds: list[str], worker: WorkerId, seconds: float
    ) -> None:
        self.pass_time(seconds)
        waiting = self.model.waiting() or list(self.model.jobs.values())
        job = _pick(waiting, number)
        self.do(*(self.on_job(job, kind, worker) for kind in kinds))

    def on_job(self, job: ModelJob, kind: str, worker: WorkerId) -> Operation:
        made: dict[str, Operation] = {
            "start": Start((self.assignment(job.id, worker),), OWNERS[0], 15.0),
            "cancel": Cancel(job.tenant, job.id),
            "move": Reprioritize(job.tenant, job.id, 9, standing_of(9)),
            "expire": ExpireQueued(),
            "release": ReleaseDue(),
            "pause": Pause(),
        }
        return made[kind]

    @precondition(lambda self: self.model.running())
    @rule(
        number=which,
        kinds=st.lists(on_an_attempt, min_size=2, max_size=3),
        ends=st.lists(outcomes, min_size=3, max_size=3),
        is_late=st.booleans(),
    )
    def race_for_an_attempt(
        self, number: int, kinds: list[str], ends: list[Outcome], is_late: bool
    ) -> None:
        job, attempt = _pick(self.model.running(), number)
        if is_late:
            self.pass_time(100.0)
        pairs = zip(kinds, ends, strict=False)
        self.do(*(self.on_attempt(job, attempt, kind, end) for kind, end in pairs))

    def on_attempt(
        self, job: ModelJob, attempt: ModelAttempt, kind: str, outcome: Outcome
    ) -> Operation:
        token = attempt.token
        made: dict[str, Operation] = {
            "finish": Finish(token, self.with_new_outputs(outcome), (EventType.PROGRESS,)),
            "cancel": Cancel(job.tenant, job.id),
            "lose": ExpireLeases(),
            "extend": Extend((token,), 15.0),
            "record": Record(token, (EventType.PROGRESS,)),
            "adopt": Adopt(attempt.worker_id, "a third", 15.0),
            "give up": GiveUp(attempt.owner or "nobody", 15.0),
        }
        return made[kind]

    # What holds at every moment

    @invariant()
    def nothing_is_broken_on_disk(self) -> None:
        self.demand_none(broken_rules(self.seen))

    @invariant()
    def the_store_tells_the_truth(self) -> None:
        said = self.run(ask_all(self.store, TENANTS, list(self.model.jobs)))
        self.demand_none(untruths(said, self.seen, self.model))
        if self.model.jobs:
            # One a step: each comes up again and again.
            job = _pick(list(self.model.jobs.values()), self.made)
            self.demand_none(self.run(untruths_of_job(self.store, job)))

    def bring_everything_to_its_end(self) -> None:
        """With a scheduler and workers that do their work no job is left, whatever was before."""
        note("to the end")
        self.do(Resume())
        for _ in range(3 * len(self.model.jobs) + 10):
            if not self.is_work_left():
                break
            self.do(ExpireLeases())
            (due,) = self.do(ReleaseDue())
            self.do(AttendBatches())
            if not self.work_off():
                self.wait_for(due[0])
        assert not self.is_work_left()
        assert not self.model.active()
        self.nothing_is_broken_on_disk()
        self.the_store_tells_the_truth()

    def is_work_left(self) -> bool:
        return any(self.run(self.store.count_jobs()).values())

    def work_off(self) -> bool:
        """Start all that the store offers, and complete it; whether there was anything."""
        lanes = self.run(self.store.queue_lanes(100, 100))
        jobs = [job for lane in lanes for job in lane.jobs]
        for job in jobs:
            assignment = self.assignment(job.id, WORKERS[0])
            (started,) = self.do(Start((assignment,), OWNERS[0], 15.0))
            assert started, f"{job.id} is offered and cannot start"
            self.do(Finish(assignment.token, Completed((self.new_output(),))))
        return bool(jobs)

    def wait_for(self, due: int | None) -> None:
        leases = [attempt.lease_until for _, attempt in self.model.running()]
        waits = [lease - self.model.steady + 1000 for lease in leases]
        waits += [] if due is None else [due - self.model.wall]
        if waits:
            self.pass_time(max(250, min(waits) // 250 * 250 + 250) / 1000)


def _pick(things: Sequence[Result], number: int) -> Result:
    return things[number % len(things)]
