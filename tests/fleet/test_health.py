"""Workers that are not trusted with jobs, and how they are trusted again [5.5]; warm-up [5.8]."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from comfyrail.clock import Instant
from comfyrail.fleet.health import Health, HealthRules, HealthState, fault_of_worker
from comfyrail.fleet.suspects import Suspects
from comfyrail.fleet.traits import WorkerTraits
from comfyrail.fleet.workload import PrefetchRules
from comfyrail.ids import WorkerId
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.outcome import Cancelled, Completed, Failed, Lost, Outcome
from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import WorkerStatus
from tests.fleet.house import House, open_house, playing, succeed
from tests.fleet.scripted_worker import GRAPH, OBJECT_INFO, ScriptedWorker

W1 = WorkerId("w1")
RULES = HealthRules(failures=3, check_seconds=30, first_rest=0.5, longest_rest=5, probe_limit=5)
LOST = Lost("the process ended")
DONE = Completed(())


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> Instant:
        return Instant(round(self.seconds * 1000))

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> Health:
    rules = HealthRules(failures=3, first_rest=30, longest_rest=100)
    return Health(rules, clock, W1, Suspects())


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path, health=RULES) as opened:
        yield opened


def fault(category: Any, code: str, message: str = "it failed") -> Failed:
    return Failed(Fault(category, code, message))


# The rules


@pytest.mark.parametrize(
    ("outcome", "is_blamed"),
    [
        (DONE, False),
        (Cancelled(), False),
        (LOST, True),
        (Lost("the worker was removed", counted=False), False),
        (fault("execution", "NODE_FAILED", "Node '3' (X) failed: ValueError: bad"), False),
        (fault("validation", "PROMPT_REJECTED"), False),
        (fault("timeout", "EXECUTION_TIMEOUT"), False),
        (fault("execution", "INTERRUPTED"), False),
        (fault("resource", "OUT_OF_MEMORY"), True),
        (fault("resource", "WORKER_DISK_FULL"), True),
        (fault("system", "OUTPUT_MISSING"), True),
        (fault("system", "WORKER_PROTOCOL_ERROR"), True),
        (fault("system", "DEVICE_FAILED", "CUDA error: device-side assert triggered"), True),
        (fault("system", "WORKER_BROKEN", "[Errno 30] Read-only file system"), True),
        (fault("resource", "MODEL_LOAD_FAILED"), False),
        (fault("resource", "MODEL_MISSING"), False),
        (fault("resource", "INSUFFICIENT_RESOURCES"), False),
    ],
)
def test_only_what_is_the_workers_fault_counts(outcome: Outcome, is_blamed: bool) -> None:
    assert (fault_of_worker(outcome) is not None) is is_blamed


def test_three_failures_in_a_row_block_a_worker(health: Health) -> None:
    for outcome in (LOST, LOST, DONE, LOST, LOST):
        health.note_end(outcome)
    assert not health.is_blocked
    assert health.view().state is HealthState.FAILING
    health.note_end(fault("execution", "NODE_FAILED"))
    assert not health.is_blocked, "a workflow's own fault says nothing of the worker"
    health.note_end(LOST)
    assert health.view().state is HealthState.BLOCKED
    assert health.view().cause == "the process ended"


def test_by_default_five_failures_block_a_worker_for_a_minute(clock: Clock) -> None:
    health = Health(HealthRules(), clock, W1, Suspects())
    for _ in range(4):
        health.note_end(LOST)
    assert (health.view().state, health.fault) == (HealthState.FAILING, None)
    health.note_end(LOST)
    assert health.view().state is HealthState.BLOCKED
    blocked = health.fault
    assert blocked is not None
    assert (blocked.code, blocked.retry_after) == ("WORKER_BLOCKED", 60)
    assert blocked.suggested_action


def test_breaker_of_a_worker_is_open_while_it_is_blocked_and_half_open_on_probation(
    health: Health, clock: Clock
) -> None:
    def told() -> tuple[str, int, bool]:
        (own,) = health.view().breakers
        assert (own.kind, own.model) == ("inference", None)
        return own.state, own.failures, own.until is not None

    health.note_end(LOST)
    assert told() == ("closed", 1, False)
    for _ in range(2):
        health.note_end(LOST)
    assert told() == ("open", 3, True)
    clock.seconds += 30
    health.note_probe(None)
    assert told() == ("half_open", 0, False)
    health.note_end(DONE)
    assert told() == ("closed", 0, False)


def test_success_makes_a_worker_whole_again(health: Health) -> None:
    health.note_end(LOST)
    health.note_end(DONE)
    assert health.view().state is HealthState.OK
    assert health.view().cause is None


def test_rest_doubles_with_every_failure_up_to_a_limit(health: Health, clock: Clock) -> None:
    for _ in range(3):
        health.note_failure("bad")
    rests = []
    for _ in range(5):
        rests.append(health.seconds_until_probe)
        until = health.view().until
        assert until is not None
        assert until > clock.now()
        clock.seconds += 1000
        assert health.seconds_until_probe == 0
        health.note_probe("still bad")
    assert rests == [30, 60, 100, 100, 100]


def test_worker_on_probation_is_blocked_by_one_failure_and_freed_by_one_success(
    health: Health,
) -> None:
    health.block("bad")
    health.note_probe(None)
    assert (health.is_blocked, health.is_on_probation) == (False, True)
    assert health.view().state is HealthState.FAILING
    health.note_failure("bad again")
    assert health.is_blocked
    assert health.seconds_until_probe == 60
    health.note_probe(None)
    health.note_end(DONE)
    assert not health.is_on_probation
    assert health.view().state is HealthState.OK
    health.block("much later")
    assert health.seconds_until_probe == 30, "the past is forgotten"


def test_checks_that_go_unanswered_block_too_and_answers_make_it_good(health: Health) -> None:
    for problem in ("no answer", "no answer", None, "no answer", "no answer"):
        health.note_check(problem)
    assert health.view().state is HealthState.FAILING
    health.note_check("no answer")
    assert health.is_blocked


# Real workers


async def forget(worker: ScriptedWorker, prompt_id: str) -> None:
    """Takes a prompt and knows nothing of it afterwards."""
    worker.queue.remove(prompt_id)
    await worker.say("executing", node=None, prompt_id=prompt_id)


async def up(house: House, worker: ScriptedWorker, name: str = "w1", **traits: Any) -> WorkerId:
    worker_id = await house.add(worker, name, WorkerTraits(**traits))
    await house.has_status(worker_id, WorkerStatus.IDLE)
    return worker_id


def only_first(count: int, bad: Callable[..., Any]) -> Callable[..., Any]:
    """A script that behaves badly for the first prompts and well afterwards."""

    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        await (bad if len(worker.submitted) <= count else succeed)(worker, prompt_id)

    return script


async def test_worker_that_fails_again_and_again_is_blocked_and_says_why(
    tmp_path: Path,
) -> None:
    async with (
        open_house(tmp_path, health=HealthRules(failures=3, first_rest=1000)) as house,
        playing(forget) as bad,
        playing(succeed) as good,
    ):
        await up(house, bad)
        job_id = await house.submit(expected=0.1)
        while house.fleet.view(W1).status is not WorkerStatus.UNHEALTHY:  # noqa: ASYNC110
            await asyncio.sleep(0)  # to see the very moment
        assert house.fleet.schedulable_workers() == [], "from the moment on in which it is blocked"
        view = house.fleet.view(W1)
        assert view.health.state is HealthState.BLOCKED
        assert view.health.until is not None
        assert "no longer knows" in (view.health.cause or "")
        assert "no longer knows" in (view.error or "")
        await up(house, good, "w2")
        job = await house.ended(job_id)
        assert (job.state, job.worker_id) == (JobState.COMPLETED, "w2")


async def test_blocked_worker_comes_back_by_a_probe_one_job_at_a_time(house: House) -> None:
    async with playing(only_first(3, forget)) as worker:
        await up(house, worker)
        jobs = [await house.submit(expected=0.1)]
        await house.has_status(W1, WorkerStatus.UNHEALTHY)
        stats = worker.calls.count("GET /object_info")
        jobs += [await house.submit(expected=0.1) for _ in range(3)]
        await house.until(lambda: worker.calls.count("GET /object_info") > stats)
        for job_id in jobs:
            assert (await house.ended(job_id)).state is JobState.COMPLETED
        assert house.fleet.view(W1).health.state is HealthState.OK


async def test_worker_that_fails_its_probe_stays_blocked(house: House) -> None:
    async with playing(forget) as worker:
        await up(house, worker)
        await house.submit(expected=0.1)
        await house.has_status(W1, WorkerStatus.UNHEALTHY)
        worker.garbage["/object_info"] = (500, b"broken")
        await house.until(lambda: "500" in (house.fleet.view(W1).health.cause or ""))
        assert house.fleet.view(W1).status is WorkerStatus.UNHEALTHY
        worker.garbage.clear()
        worker.script = succeed
        await house.has_status(W1, WorkerStatus.IDLE)


async def test_probe_runs_a_small_prompt_where_the_worker_has_the_nodes(house: House) -> None:
    trials: list[set[str]] = []

    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        types = {node["class_type"] for node in worker.prompts[prompt_id]["prompt"].values()}
        if "Make" not in types:
            trials.append(types)
        await (succeed if trials else forget)(worker, prompt_id)

    async with playing(script) as worker:
        size = {name: ["INT", {}] for name in ("width", "height", "batch_size", "color")}
        worker.object_info = {
            **OBJECT_INFO,
            "EmptyImage": {"input": {"required": size}, "output": ["IMAGE"]},
            "PreviewImage": {
                "input": {"required": {"images": ["IMAGE"]}},
                "output": [],
                "output_node": True,
            },
        }
        await up(house, worker)
        job = await house.ended(await house.submit(expected=0.1))
        assert job.state is JobState.COMPLETED
        assert trials == [{"EmptyImage", "PreviewImage"}]


async def test_faults_of_workflows_do_not_block_a_worker(house: House) -> None:
    async def raises(worker: ScriptedWorker, prompt_id: str) -> None:
        error: dict[str, Any] = {"node_id": "1", "node_type": "Make"}
        error["exception_type"] = "ValueError"
        error |= {"exception_message": "bad value", "executed": []}
        worker.end(prompt_id, "error", [["execution_error", error]])
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(raises) as worker:
        await up(house, worker)
        for _ in range(5):
            assert (await house.ended(await house.submit())).state is JobState.FAILED
        assert house.fleet.view(W1).health.state is HealthState.OK


async def test_job_behind_the_one_that_broke_the_worker_goes_back_without_cost(
    tmp_path: Path,
) -> None:
    async def runs_out(worker: ScriptedWorker, prompt_id: str) -> None:
        if prompt_id != worker.submitted[0]:
            return  # it never begins
        await worker.say("execution_start", prompt_id=prompt_id)
        await both_there.wait()
        error: dict[str, Any] = {"node_id": "1", "node_type": "Make"}
        error["exception_type"] = "OSError"
        error |= {"exception_message": "[Errno 28] No space left on device", "executed": []}
        worker.end(prompt_id, "error", [["execution_error", error]])
        await worker.say("executing", node=None, prompt_id=prompt_id)

    both_there = asyncio.Event()
    rules = HealthRules(failures=1, first_rest=1000)
    async with (
        open_house(tmp_path, prefetch=PrefetchRules(horizon=1000), health=rules) as house,
        playing(runs_out) as bad,
        playing(succeed) as good,
    ):
        bad.is_serial = True
        await up(house, bad)
        jobs = [await house.submit(expected=5) for _ in range(2)]
        await house.until(lambda: len(bad.submitted) == 2)
        bad.garbage["/object_info"] = (500, b"no space left")  # it is probed at once
        both_there.set()
        await house.has_status(W1, WorkerStatus.UNHEALTHY)
        await up(house, good, "w2")
        ended = [await house.ended(job_id) for job_id in jobs]
        second = ended[1]
        assert (second.state, second.retries) == (JobState.COMPLETED, 0)
        assert second.worker_id == "w2"


async def test_idle_worker_is_asked_now_and_then_and_its_memory_is_up_to_date(
    tmp_path: Path,
) -> None:
    rules = HealthRules(failures=3, check_seconds=0.05, first_rest=0.2)
    async with open_house(tmp_path, health=rules) as house, playing(succeed) as worker:
        await up(house, worker)
        stats = b'{"system": {}, "devices": [{"name": "gpu", "vram_total": 9, "vram_free": 7}]}'
        worker.garbage["/system_stats"] = (200, stats)
        await house.until(lambda: house.fleet.view(W1).memory_free == 7)
        assert house.fleet.view(W1).memory_total == 9
        worker.garbage["/system_stats"] = (200, b"[]")
        await house.has_status(W1, WorkerStatus.UNHEALTHY)
        assert "does not answer like" in (house.fleet.view(W1).health.cause or "")
        worker.garbage.clear()
        await house.has_status(W1, WorkerStatus.IDLE)


# Warm-up


async def test_warm_up_runs_before_the_first_job(house: House) -> None:
    running = asyncio.Event()

    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        if len(worker.submitted) == 1:
            await running.wait()
        await succeed(worker, prompt_id)

    async with playing(script) as worker:
        job_id = await house.submit()
        await house.add(worker, "w1", WorkerTraits(warm_up=GRAPH))
        await house.until(lambda: worker.submitted)
        assert house.fleet.view(W1).status is WorkerStatus.STARTING
        assert house.fleet.schedulable_workers() == []
        running.set()
        assert (await house.ended(job_id)).state is JobState.COMPLETED
        assert len(worker.submitted) == 2


async def test_models_of_the_warm_up_are_warm(house: House) -> None:
    async with playing(succeed) as worker:
        loader = {"input": {"required": {"ckpt_name": [["a.ckpt"]]}}, "output": ["IMAGE"]}
        worker.object_info = {**OBJECT_INFO, "Load": loader}
        graph = {
            "1": {"class_type": "Load", "inputs": {"ckpt_name": "a.ckpt"}},
            "2": {"class_type": "Keep", "inputs": {"image": ["1", 0]}},
        }
        await up(house, worker, warm_up=graph)
        assert house.fleet.view(W1).warm_models == ("a.ckpt",)


async def test_worker_whose_warm_up_fails_takes_no_jobs_until_it_succeeds(house: House) -> None:
    async def fails(worker: ScriptedWorker, prompt_id: str) -> None:
        error: dict[str, Any] = {"node_id": "1", "node_type": "Make"}
        error["exception_type"] = "OSError"
        error |= {"exception_message": "no such model", "executed": []}
        worker.end(prompt_id, "error", [["execution_error", error]])
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(only_first(1, fails)) as worker:
        await house.add(worker, "w1", WorkerTraits(warm_up=GRAPH))
        await house.has_status(W1, WorkerStatus.UNHEALTHY)
        assert "no such model" in (house.fleet.view(W1).error or "")
        job_id = await house.submit()
        assert (await house.ended(job_id)).state is JobState.COMPLETED
        assert len(worker.submitted) == 3, "the warm-up again as the probe, and then the job"


async def test_warm_up_that_the_worker_refuses_is_told(house: House) -> None:
    async with playing(succeed) as worker:
        error = {"type": "invalid_prompt", "message": "No such node", "details": ""}
        worker.refuse_prompt = (400, {"error": error, "node_errors": {}})
        await house.add(worker, "w1", WorkerTraits(warm_up=GRAPH))
        await house.has_status(W1, WorkerStatus.UNHEALTHY)
        assert "No such node" in (house.fleet.view(W1).error or "")
