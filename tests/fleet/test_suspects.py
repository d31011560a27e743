"""Jobs that break workers are to blame themselves: the others' jobs go on [5.5]."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from comfyrail.fleet.drivers.static import StaticHost
from comfyrail.fleet.health import LATELY_SECONDS, Health, HealthRules, HealthState
from comfyrail.fleet.suspects import (
    MODELS_OF_ONE,
    SUSPECTS_KEPT,
    Suspect,
    Suspects,
    suspect_of,
)
from comfyrail.ids import JobId, TenantId, WorkerId
from comfyrail.jobs.faults import Fault
from comfyrail.jobs.outcome import Completed, Failed, Lost
from comfyrail.jobs.recovery import MOST_OF_KIND, RecoveryKind
from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import WorkerStatus
from comfyrail.store.interface import WorkerRecord
from tests.fleet.house import TENANT, House, open_house, playing, succeed
from tests.fleet.scripted_worker import GRAPH, OBJECT_INFO, ScriptedWorker
from tests.fleet.test_health import Clock

W1, W2, W3 = WorkerId("w1"), WorkerId("w2"), WorkerId("w3")
RULES = HealthRules(failures=3)
LONG_RESTS = HealthRules(failures=3, first_rest=1000, longest_rest=1000, probe_limit=5)
"""A worker that has to rest does not come back while a test lasts."""
LOST = Lost("the process ended")
DONE = Completed(())
MEMORY = Failed(Fault("resource", "OUT_OF_MEMORY", "CUDA out of memory"))
FULL = Failed(Fault("resource", "WORKER_DISK_FULL", "no space"))
DEVICE = Failed(Fault("system", "DEVICE_FAILED", "CUDA error: device-side assert"))
BROKEN = Failed(Fault("system", "WORKER_BROKEN", "[Errno 24] Too many open files"))
NO_OUTPUT = Failed(Fault("system", "OUTPUT_MISSING", "the file is not there"))
TOLD = pytest.mark.parametrize("told", [FULL, DEVICE, BROKEN, NO_OUTPUT])
TRIAL = {
    "EmptyImage": {
        "input": {
            "required": {name: ["INT", {}] for name in ("width", "height", "batch_size", "color")}
        },
        "output": ["IMAGE"],
    },
    "PreviewImage": {
        "input": {"required": {"images": ["IMAGE"]}},
        "output": [],
        "output_node": True,
    },
}


def suspect(graph: str = "a", tenant: str = "t") -> Suspect:
    return Suspect(TenantId(tenant), graph)


@pytest.fixture
def suspects() -> Suspects:
    return Suspects()


@pytest.fixture
def first(suspects: Suspects) -> Health:
    return Health(RULES, Clock(), W1, suspects)


@pytest.fixture
def second(suspects: Suspects) -> Health:
    return Health(RULES, Clock(), W2, suspects)


# Who is guilty


def test_graph_that_fails_on_two_workers_is_guilty_until_it_succeeds(suspects: Suspects) -> None:
    for worker in (W1, W1):
        suspects.note_failure(suspect(), worker)
    assert not suspects.is_guilty(suspect()), "one worker alone may be at fault"
    suspects.note_failure(suspect(), W2)
    assert suspects.is_guilty(suspect())
    assert not suspects.is_guilty(suspect(tenant="other"))
    suspects.note_success(suspect(), W3)
    assert not suspects.is_guilty(suspect())
    assert suspects.works_elsewhere(suspect(), W1)
    assert not suspects.works_elsewhere(suspect(), W3)


def test_graph_that_fails_by_a_model_on_two_workers_misuses_it_until_it_succeeds(
    suspects: Suspects,
) -> None:
    for worker in (W1, W1):
        suspects.note_model_failure(suspect(), "m", worker)
    assert not suspects.misuses(suspect(), "m"), "one copy alone may be bad"
    suspects.note_model_failure(suspect(), "m", W2)
    assert suspects.misuses(suspect(), "m")
    assert not suspects.misuses(suspect(), "other")
    assert not suspects.is_guilty(suspect()), "that says nothing of how it treats workers"
    suspects.note_success(suspect(), W3)
    assert not suspects.misuses(suspect(), "m")


def test_models_of_one_suspect_are_not_remembered_without_end(suspects: Suspects) -> None:
    for number in range(MODELS_OF_ONE + 1):
        for worker in (W1, W2):
            suspects.note_model_failure(suspect(), str(number), worker)
    assert not suspects.misuses(suspect(), "0")
    assert suspects.misuses(suspect(), "1")


def test_suspects_are_not_remembered_without_end(suspects: Suspects) -> None:
    for number in range(SUSPECTS_KEPT + 1):
        suspects.convict(suspect(str(number)))
    assert not suspects.is_guilty(suspect("0"))
    assert suspects.is_guilty(suspect("1"))


def test_numbers_make_no_other_suspect_and_nodes_and_models_do() -> None:
    def of(prompt: Mapping[str, Any], *models: str) -> Suspect:
        return suspect_of(TenantId("t"), prompt, models)

    graph = {"1": {"class_type": "A", "inputs": {"seed": 1}}}
    other = {"7": {"class_type": "A", "inputs": {"seed": 2}}}
    assert of(graph) == of(other)
    assert of(graph) != of(graph, "large.safetensors")
    assert of(graph) != of({**graph, "2": {"class_type": "B", "inputs": {}}})
    assert of({"1": "nonsense"}) == of({})


# What is held against a worker


def test_losses_by_a_guilty_graph_are_not_held_against_workers(
    first: Health, second: Health
) -> None:
    first.note_end(LOST, suspect())
    second.note_end(LOST, suspect())
    for health in (first, second):
        for _ in range(5):
            health.note_end(LOST, suspect())
        assert health.view().state is HealthState.OK
    first.note_failure("the process ended", suspect("other"))
    assert first.view().failures == 1


def test_worker_where_a_graph_fails_that_works_elsewhere_has_to_rest(
    first: Health, second: Health
) -> None:
    for _ in range(3):
        second.note_end(DONE, suspect())
        first.note_end(LOST, suspect())
    assert first.is_blocked
    assert not first.is_in_doubt
    first.note_probe(None, ran_a_prompt=True)
    first.note_end(LOST, suspect())
    assert first.is_blocked, "a small prompt proves nothing where the same graph works elsewhere"


def test_worker_that_passes_its_trial_is_cleared_and_the_graph_is_guilty(first: Health) -> None:
    for _ in range(3):
        first.note_end(LOST, suspect())
    assert first.is_in_doubt
    first.note_probe(None, ran_a_prompt=True)
    for _ in range(5):
        first.note_end(LOST, suspect())
    assert not first.is_blocked
    first.block("later")
    assert first.seconds_until_probe == RULES.first_rest, "the doubt was no block"


def test_worker_that_fails_its_trial_rests_longer_each_time(first: Health) -> None:
    for _ in range(3):
        first.note_end(LOST, suspect())
    first.note_probe("still bad")
    assert not first.is_in_doubt
    assert first.seconds_until_probe == 2 * RULES.first_rest


# What jobs tell of a worker


@TOLD
def test_what_one_graph_tells_on_two_workers_is_held_against_neither(
    first: Health, second: Health, told: Failed
) -> None:
    for _ in range(5):
        first.note_end(told, suspect())
        second.note_end(told, suspect())
    assert first.view().state is HealthState.OK
    assert second.view().state is HealthState.OK


@TOLD
def test_what_one_graph_tells_is_hearsay_and_the_worker_clears_itself_at_once(
    first: Health, told: Failed
) -> None:
    for _ in range(3):
        first.note_end(told, suspect())
    assert first.is_acquitted, "it need not rest, nor wait for others"
    first.note_probe(None, ran_a_prompt=True)
    for _ in range(5):
        first.note_end(told, suspect())
    assert not first.is_blocked, "the graph is guilty"


def test_worker_that_fails_the_probe_after_hearsay_has_to_rest(first: Health) -> None:
    for _ in range(3):
        first.note_end(FULL, suspect())
    first.note_probe("its disk is full")
    assert not first.is_acquitted
    assert first.seconds_until_probe == 2 * RULES.first_rest


@TOLD
def test_what_different_graphs_tell_is_the_workers_fault(
    first: Health, second: Health, told: Failed
) -> None:
    for graph in "abc":
        second.note_end(told, suspect(graph))
    for graph in "abc":
        assert not first.is_blocked
        first.note_end(told, suspect(graph))
    assert first.is_blocked, "though each of them has failed elsewhere, too"
    assert not first.is_in_doubt
    first.note_probe(None, ran_a_prompt=True)
    first.note_end(told, suspect("d"))
    assert first.is_blocked, "a small prompt proves nothing against so many"
    assert not first.is_in_doubt
    assert first.seconds_until_probe == 2 * RULES.first_rest


@TOLD
def test_worker_where_a_graph_tells_what_it_does_not_elsewhere_has_to_rest(
    first: Health, second: Health, told: Failed
) -> None:
    for _ in range(3):
        second.note_end(DONE, suspect())
        first.note_end(told, suspect())
    assert first.is_blocked
    assert not first.is_in_doubt


@TOLD
def test_one_tenant_of_several_does_not_block_a_worker_by_what_its_graphs_tell(
    first: Health, second: Health, told: Failed
) -> None:
    first.note_end(DONE, suspect("good", "other"))
    for number in range(50):  # so many that they are all that it has lately had
        second.note_end(DONE, suspect(str(number)))
        first.note_end(told, suspect(str(number)))
        if first.is_blocked:
            assert first.is_acquitted
            first.note_probe(None, ran_a_prompt=True)
    assert first.seconds_until_probe is None
    for number in range(3):
        first.note_end(told, suspect(str(number)))
    first.note_end(told, suspect("good", "other"))
    assert first.is_blocked
    assert not first.is_acquitted, "two tenants agree"


def test_tenant_that_was_here_long_ago_does_not_count(suspects: Suspects) -> None:
    clock = Clock()
    health = Health(RULES, clock, W1, suspects)
    health.note_end(DONE, suspect("good", "other"))
    clock.seconds += LATELY_SECONDS + 1
    for graph in "abc":
        health.note_end(DEVICE, suspect(graph))
    assert health.is_blocked
    assert not health.is_in_doubt


# Memory


def test_job_that_wants_too_much_memory_never_blocks_a_worker(first: Health) -> None:
    for _ in range(50):
        first.note_end(MEMORY, suspect())
    assert first.view().state is HealthState.OK
    first.block("other")
    first.note_probe(None)
    first.note_end(MEMORY, suspect())
    assert not first.is_blocked, "not on probation either"


def test_different_graphs_that_run_out_of_memory_in_a_row_block_it(first: Health) -> None:
    for graph in ("a", "b"):
        first.note_end(MEMORY, suspect(graph))
    first.note_end(DONE, suspect("c"))
    for graph in ("a", "b"):
        first.note_end(MEMORY, suspect(graph))
    assert not first.is_blocked
    first.note_end(MEMORY, suspect("d"))
    assert first.is_blocked


def test_one_tenant_alone_does_not_block_a_worker_of_several_for_want_of_memory(
    first: Health,
) -> None:
    first.note_end(DONE, suspect("good", "other"))
    for graph in "abcdef":
        first.note_end(MEMORY, suspect(graph))
    assert not first.is_blocked
    first.note_end(MEMORY, suspect("good", "other"))
    assert first.is_blocked


# Real workers


class MortalHost(StaticHost):
    """Its worker ends when it is given poison, and is started again."""

    def __init__(self, worker: ScriptedWorker) -> None:
        super().__init__(worker.url)
        self.worker = worker
        self.ended = asyncio.Event()

    @property
    def place(self) -> str | None:
        return None

    async def wait_ended(self) -> str:
        await self.ended.wait()
        self.ended.clear()
        self.worker.queue.clear()
        self.worker.pending.clear()
        return "the process ended with code 3"


def graph_of(kind: str) -> dict[str, dict[str, Any]]:
    return {**GRAPH, "3": {"class_type": kind, "inputs": {}}}


def kinds_in(worker: ScriptedWorker, prompt_id: str) -> set[str]:
    return {node["class_type"] for node in worker.prompts[prompt_id]["prompt"].values()}


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path, health=LONG_RESTS) as opened:
        yield opened


async def add_mortals(house: House, stack: AsyncExitStack, count: int) -> list[ScriptedWorker]:
    workers = []
    for number in range(1, count + 1):
        hosts: list[MortalHost] = []

        async def script(
            worker: ScriptedWorker, prompt_id: str, hosts: list[MortalHost] = hosts
        ) -> None:
            if any(kind.startswith("Poison") for kind in kinds_in(worker, prompt_id)):
                await worker.say("execution_start", prompt_id=prompt_id)
                hosts[0].ended.set()
            else:
                await succeed(worker, prompt_id)

        worker = await stack.enter_async_context(playing(script))
        worker.is_serial = True
        poison: dict[str, Any] = {f"Poison{each}": {"input": {}, "output": []} for each in range(8)}
        worker.object_info = {**OBJECT_INFO, **TRIAL, **poison}
        hosts.append(MortalHost(worker))
        worker_id = WorkerId(f"w{number}")
        record = WorkerRecord(worker_id, "static", None, house.clock.now())
        await house.store.save_worker(record)
        house.fleet.add(worker_id, hosts[0], record.added_at)
        await house.has_status(worker_id, WorkerStatus.IDLE)
        workers.append(worker)
    return workers


async def submit(house: House, kinds: list[str], priority: int) -> list[JobId]:
    return [
        await house.submit(graph=graph_of(kind), expected=0.1, priority=priority) for kind in kinds
    ]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kinds", [["Poison0"] * 4, [f"Poison{each}" for each in range(4)]])
async def test_jobs_that_end_their_workers_do_not_keep_the_others_waiting(
    house: House, kinds: list[str], count: int
) -> None:
    async with AsyncExitStack() as stack:
        await add_mortals(house, stack, count)
        poison = await submit(house, kinds, 10)
        good = [await house.submit(expected=0.1, priority=5) for _ in range(3)]
        for job_id in good:
            assert (await house.ended(job_id)).state is JobState.COMPLETED
        for job_id in poison:
            job = await house.ended(job_id)
            assert job.fault is not None
            assert job.fault.code == "WORKER_LOST"
        await house.until(
            lambda: all(
                view.health.state is not HealthState.BLOCKED for view in house.fleet.views()
            )
        )


async def test_jobs_that_want_too_much_memory_do_not_keep_the_others_waiting(
    house: House,
) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        if "Poison0" not in kinds_in(worker, prompt_id):
            await succeed(worker, prompt_id)
            return
        error: dict[str, Any] = {"node_id": "1", "node_type": "Make"}
        error["exception_type"] = "torch.OutOfMemoryError"
        error |= {"exception_message": "CUDA out of memory", "executed": []}
        worker.end(prompt_id, "error", [["execution_error", error]])
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(script) as first, playing(script) as second:
        for name, worker in (("w1", first), ("w2", second)):
            worker.object_info = {**OBJECT_INFO, "Poison0": {"input": {}, "output": []}}
            await house.add(worker, name)
            await house.has_status(WorkerId(name), WorkerStatus.IDLE)
        greedy = await submit(house, ["Poison0"] * 12, 10)
        good = [await house.submit(expected=0.1, priority=5) for _ in range(3)]
        for job_id in greedy:
            assert (await house.ended(job_id)).state is JobState.FAILED
        for job_id in good:
            assert (await house.ended(job_id)).state is JobState.COMPLETED
        tries = 1 + MOST_OF_KIND[RecoveryKind.LESS_MEMORY]
        await house.until(lambda: len(first.freed) + len(second.freed) >= 12 * tries)
        assert [*first.freed, *second.freed] == [
            {"unload_models": True, "free_memory": True}
        ] * 12 * tries


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    "said",
    [
        ("RuntimeError", "CUDA error: device-side assert triggered"),
        ("OSError", "[Errno 28] No space left on device"),
        ("PermissionError", "[Errno 13] Permission denied: '/etc/x'"),
    ],
)
async def test_jobs_that_tell_of_broken_workers_do_not_keep_the_others_waiting(
    house: House, said: tuple[str, str], count: int
) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        if "Poison0" not in kinds_in(worker, prompt_id):
            await succeed(worker, prompt_id)
            return
        error: dict[str, Any] = {"node_id": "3", "node_type": "Poison0", "executed": []}
        error |= dict(zip(("exception_type", "exception_message"), said, strict=True))
        worker.end(prompt_id, "error", [["execution_error", error]])
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with AsyncExitStack() as stack:
        for number in range(1, count + 1):
            worker = await stack.enter_async_context(playing(script))
            poison: dict[str, Any] = {"Poison0": {"input": {}, "output": []}}
            worker.object_info = {**OBJECT_INFO, **TRIAL, **poison}
            worker_id = await house.add(worker, f"w{number}")
            await house.has_status(worker_id, WorkerStatus.IDLE)
        bad = await submit(house, ["Poison0"] * 4, 10)
        good = [await house.submit(expected=0.1, priority=5) for _ in range(3)]
        for job_id in good:
            assert (await house.ended(job_id)).state is JobState.COMPLETED
        for job_id in bad:
            assert (await house.ended(job_id)).state is JobState.FAILED


async def test_worker_that_loses_jobs_which_others_complete_is_blocked(house: House) -> None:
    async def forget(worker: ScriptedWorker, prompt_id: str) -> None:
        worker.queue.remove(prompt_id)
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(forget) as bad, playing(succeed) as good:
        for name, worker in (("w1", bad), ("w2", good)):
            worker.object_info = {**OBJECT_INFO, **TRIAL}
            await house.add(worker, name)
            await house.has_status(WorkerId(name), WorkerStatus.IDLE)
        good_one = await house.submit(expected=0.1)
        jobs = [await house.submit(expected=0.1) for _ in range(12)]
        for job_id in (good_one, *jobs):
            job = await house.ended(job_id)
            assert (job.state, job.worker_id) == (JobState.COMPLETED, "w2")
        assert house.fleet.view(W1).health.state is HealthState.BLOCKED


async def test_worker_in_doubt_stays_blocked_while_another_one_can_show_whose_fault_it_is(
    house: House,
) -> None:
    async def loses_jobs(worker: ScriptedWorker, prompt_id: str) -> None:
        if "PreviewImage" in kinds_in(worker, prompt_id):
            await succeed(worker, prompt_id)
            return
        worker.queue.remove(prompt_id)
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async def begins(worker: ScriptedWorker, prompt_id: str) -> None:
        await worker.say("execution_start", prompt_id=prompt_id)

    async with playing(begins) as slow, playing(loses_jobs) as bad:
        for name, worker in (("w2", slow), ("w1", bad)):
            worker.object_info = {**OBJECT_INFO, **TRIAL}
            await house.add(worker, name)
            await house.has_status(WorkerId(name), WorkerStatus.IDLE)
            job_id = await house.submit(expected=1000)
            await house.until(partial(bool, worker.submitted))
        await house.has_status(W1, WorkerStatus.UNHEALTHY)
        assert (await house.store.get_job(TENANT, job_id)).retries == 3
        slow.script = succeed
        await succeed(slow, slow.submitted[0])
        job = await house.ended(job_id)
        assert (job.state, job.worker_id) == (JobState.COMPLETED, "w2")
        assert house.fleet.view(W1).health.state is HealthState.BLOCKED
