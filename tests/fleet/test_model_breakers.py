"""Models that do not load on one worker: it gets no jobs with them for a while [7.3]."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from comfyrail.api.worker_contract import worker_body
from comfyrail.circuit_breaker import BreakerState
from comfyrail.fleet.classification import classify_node_failure
from comfyrail.fleet.comfyui.history import NodeFailure
from comfyrail.fleet.drivers.static import StaticHost
from comfyrail.fleet.health import HealthRules, HealthState
from comfyrail.fleet.model_breakers import (
    MODELS_KEPT,
    BreakerRules,
    BreakerView,
    ModelBreakers,
    models_to_blame,
)
from comfyrail.fleet.suspects import Suspect, Suspects
from comfyrail.fleet.workload import RECENT_JOBS
from comfyrail.ids import JobId, TenantId, WorkerId
from comfyrail.jobs.job import Job
from comfyrail.jobs.needs import JobNeeds, ModelUse
from comfyrail.jobs.outcome import Cancelled, Completed, Failed, Lost, Outcome
from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import WorkerProfile, WorkerStatus
from comfyrail.scheduling.obstacles import obstacle
from comfyrail.scheduling.scoring import can_run
from comfyrail.store.interface import WorkerRecord
from tests.fleet.house import TENANT, House, open_house, playing, succeed
from tests.fleet.scripted_worker import OBJECT_INFO, ScriptedWorker
from tests.fleet.test_health import Clock

W1, W2 = WorkerId("w1"), WorkerId("w2")
BAD, GOOD = "bad.safetensors", "good.safetensors"
DONE = Completed(())
FOREVER = BreakerRules(rest=1000.0, longest_rest=1000.0)
SOON = BreakerRules(rest=0.2, longest_rest=0.4)


def broken(name: str = BAD) -> Failed:
    failure = NodeFailure("1", "Load", "SafetensorError", "header too large")
    return classify_node_failure(failure, [name])


def unfit(name: str = BAD) -> Failed:
    said = "Error(s) in loading state_dict for Flux: size mismatch"
    return classify_node_failure(NodeFailure("1", "Load", "RuntimeError", said), [name])


def missing(name: str = BAD) -> Failed:
    return classify_node_failure(NodeFailure("1", "Load", "FileNotFoundError", "no file"), [name])


def suspect(graph: str = "a", tenant: str = "t") -> Suspect:
    return Suspect(TenantId(tenant), graph)


# The rules


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def suspects() -> Suspects:
    return Suspects()


@pytest.fixture
def breakers(clock: Clock, suspects: Suspects) -> ModelBreakers:
    return ModelBreakers(BreakerRules(), clock, W1, suspects)


@pytest.fixture
def elsewhere(clock: Clock, suspects: Suspects) -> ModelBreakers:
    return ModelBreakers(BreakerRules(), clock, W2, suspects)


def end(
    breakers: ModelBreakers, outcome: Outcome | None, *models: str, by: Suspect | None = None
) -> None:
    breakers.note_end(models, breakers.begin(models), outcome, by)


def test_defaults_are_three_failures_and_two_minutes(breakers: ModelBreakers, clock: Clock) -> None:
    for _ in range(2):
        end(breakers, broken(), BAD, GOOD)
    assert breakers.refused() == frozenset()
    end(breakers, broken(), BAD, GOOD)
    assert breakers.refused() == {BAD}, "only the model that the failed node loads"
    assert breakers.seconds_until_probe() == 120
    clock.seconds += 119
    assert breakers.refuses([GOOD, BAD])
    clock.seconds += 1
    assert not breakers.refuses([GOOD, BAD])


def test_one_job_tries_the_model_again_and_its_end_decides(
    breakers: ModelBreakers, clock: Clock
) -> None:
    for _ in range(3):
        end(breakers, broken(), BAD)
    clock.seconds += 120
    probed = breakers.begin([BAD, GOOD])
    assert probed == {BAD}
    assert breakers.refuses([BAD]), "the one try is under way"
    breakers.note_end([BAD], frozenset(), Cancelled())
    assert breakers.refuses([BAD]), "another job's end says nothing of it"
    breakers.note_end([BAD, GOOD], probed, broken())
    assert breakers.seconds_until_probe() == 240
    clock.seconds += 240
    breakers.note_end([BAD, GOOD], breakers.begin([BAD, GOOD]), DONE)
    assert breakers.views() == []


@pytest.mark.parametrize("outcome", [None, Cancelled(), Lost("gone"), broken(GOOD)])
def test_try_that_shows_nothing_lets_another_one_through(
    breakers: ModelBreakers, clock: Clock, outcome: Outcome | None
) -> None:
    for _ in range(3):
        end(breakers, broken(), BAD)
    clock.seconds += 120
    end(breakers, outcome, BAD)
    assert not breakers.refuses([BAD])


def test_success_between_failures_makes_the_model_good_again(breakers: ModelBreakers) -> None:
    for outcome in (broken(), broken(), DONE, broken(), broken()):
        end(breakers, outcome, BAD)
    assert breakers.refused() == frozenset()
    (view,) = breakers.views()
    assert (view.model, view.state, view.failures) == (BAD, BreakerState.CLOSED, 2)
    assert BAD in (view.cause or "")


def test_damaged_file_counts_whichever_graph_finds_it(
    breakers: ModelBreakers, elsewhere: ModelBreakers
) -> None:
    for _ in range(3):
        end(elsewhere, broken(), BAD, by=suspect())
        end(breakers, broken(), BAD, by=suspect())
    assert breakers.refused() == elsewhere.refused() == {BAD}


def test_graph_that_a_model_does_not_fit_counts_once(breakers: ModelBreakers) -> None:
    for _ in range(20):
        end(breakers, unfit(), BAD, by=suspect())
    assert breakers.refused() == frozenset()
    (view,) = breakers.views()
    assert (view.failures, view.state) == (1, BreakerState.CLOSED)
    for graph in "bc":
        end(breakers, unfit(), BAD, by=suspect(graph))
    assert breakers.refused() == {BAD}, "different graphs agree"


@pytest.mark.parametrize("outcome", [unfit(), missing()])
def test_graph_that_fails_by_a_model_everywhere_counts_nowhere(
    breakers: ModelBreakers, elsewhere: ModelBreakers, outcome: Failed
) -> None:
    for graph in "abcd":
        end(breakers, outcome, BAD, by=suspect(graph))
        end(elsewhere, outcome, BAD, by=suspect(graph))
    assert breakers.refused() == elsewhere.refused() == frozenset()
    assert [view.failures for view in breakers.views()] == [0]


def test_missing_model_counts_for_one_graph_on_one_worker(breakers: ModelBreakers) -> None:
    for _ in range(3):
        end(breakers, missing(), BAD, by=suspect())
    assert breakers.refused() == {BAD}


def test_model_that_others_have_loaded_is_not_closed_by_one_tenant(
    breakers: ModelBreakers,
) -> None:
    end(breakers, DONE, BAD, by=suspect("good", "other"))
    for graph in "abcdef":
        end(breakers, unfit(), BAD, by=suspect(graph))
    assert breakers.refused() == frozenset()
    end(breakers, unfit(), BAD, by=suspect("good", "other"))
    assert breakers.refused() == {BAD}


def test_try_by_a_graph_that_has_failed_before_shows_nothing(
    breakers: ModelBreakers, clock: Clock
) -> None:
    for graph in "abc":
        end(breakers, unfit(), BAD, by=suspect(graph))
    clock.seconds += 120
    for _ in range(5):
        end(breakers, unfit(), BAD, by=suspect("a"))
        assert not breakers.refuses([BAD]), "the next job may try it at once"
    end(breakers, unfit(), BAD, by=suspect("d"))
    assert breakers.seconds_until_probe() == 240
    clock.seconds += 240
    end(breakers, DONE, BAD, by=suspect("e"))
    assert breakers.views() == []


def test_not_all_models_are_remembered_for_ever(breakers: ModelBreakers) -> None:
    for number in range(MODELS_KEPT + 10):
        end(breakers, broken(f"{number}.ckpt"), f"{number}.ckpt")
    assert len(breakers.views()) == MODELS_KEPT


def test_other_failures_blame_no_model() -> None:
    memory = NodeFailure("1", "Load", "MemoryError", "")
    assert models_to_blame(classify_node_failure(memory, [BAD])) == frozenset()
    assert models_to_blame(DONE) == frozenset()
    assert models_to_blame(broken()) == {BAD}


def test_worker_that_refuses_a_model_is_no_candidate_and_the_reason_is_told() -> None:
    types = frozenset({"Load"})
    refusing = WorkerProfile(types, refused_models=frozenset({BAD}))
    needs = JobNeeds(types, (ModelUse("checkpoints", BAD),))
    assert not can_run(needs, refusing)
    assert can_run(JobNeeds(types, (ModelUse("checkpoints", GOOD),)), refusing)
    said = obstacle(needs, [refusing, WorkerProfile(frozenset({"Other"}))])
    assert said is not None
    assert f"The model {BAD} has failed to load" in said
    assert obstacle(needs, [refusing, WorkerProfile(types)]) is None


# Real workers


def graph_with(model: str) -> dict[str, dict[str, Any]]:
    return {
        "1": {"class_type": "Load", "inputs": {"ckpt_name": model}},
        "2": {"class_type": "Keep", "inputs": {"image": ["1", 0]}},
    }


def model_in(worker: ScriptedWorker, prompt_id: str) -> str:
    return str(worker.prompts[prompt_id]["prompt"]["1"]["inputs"]["ckpt_name"])


async def cannot_load_bad(worker: ScriptedWorker, prompt_id: str) -> None:
    if model_in(worker, prompt_id) != BAD:
        await succeed(worker, prompt_id)
        return
    error: dict[str, Any] = {"node_id": "1", "node_type": "Load", "executed": []}
    error["exception_type"] = "safetensors._safetensors_rust.SafetensorError"
    error["exception_message"] = "Error while deserializing header: header too large"
    worker.end(prompt_id, "error", [["execution_error", error]])
    await worker.say("executing", node=None, prompt_id=prompt_id)


def equip(worker: ScriptedWorker) -> None:
    choices = {"required": {"ckpt_name": [[BAD, GOOD]]}}
    worker.object_info = {**OBJECT_INFO, "Load": {"input": choices, "output": ["IMAGE"]}}


async def up(house: House, worker: ScriptedWorker, worker_id: WorkerId = W1) -> None:
    equip(worker)
    await house.add(worker, worker_id)
    await house.has_status(worker_id, WorkerStatus.IDLE)


async def submit(house: House, model: str) -> JobId:
    use = ModelUse("checkpoints", model)
    return await house.submit(graph=graph_with(model), expected=0.1, models=[use])


async def completed(house: House, job_id: JobId) -> Job:
    job = await house.ended(job_id)
    assert job.state is JobState.COMPLETED, job.fault
    return job


def breaker_of(house: House, worker_id: WorkerId = W1) -> BreakerView | None:
    views = house.fleet.view(worker_id).health.breakers
    return next((each for each in views if each.model == BAD), None)


def is_open(house: House) -> bool:
    view = breaker_of(house)
    return view is not None and view.state is BreakerState.OPEN


def rules(models: BreakerRules) -> HealthRules:
    return HealthRules(models=models)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path, health=rules(FOREVER)) as opened:
        yield opened


async def test_worker_with_a_corrupt_model_runs_others_and_the_job_ends_where_it_is_good(
    house: House,
) -> None:
    async with playing(cannot_load_bad) as worker, playing(succeed) as other:
        await up(house, worker)
        job_id = await submit(house, BAD)
        await house.until(lambda: is_open(house))
        assert len(worker.submitted) == 3
        view = house.fleet.view(W1)
        assert view.status is WorkerStatus.IDLE
        assert view.health.state is HealthState.OK, "it is the model's fault, not the worker's"
        assert view.warm_models == ()
        profiles = [each.profile for each in house.fleet.schedulable_workers()]
        needs = await house.store.needs_of(job_id)
        assert "failed to load" in (obstacle(needs, profiles) or "")
        assert (await completed(house, await submit(house, GOOD))).worker_id == W1
        assert (await house.store.get_job(TENANT, job_id)).state is JobState.QUEUED
        await up(house, other, W2)
        assert (await completed(house, job_id)).worker_id == W2
        assert (await completed(house, await submit(house, BAD))).worker_id == W2
        assert len(worker.submitted) == 4, "three tries with it, one with the other"


async def test_graph_with_the_wrong_loader_does_not_keep_a_good_model_from_others(
    house: House,
) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        if "kind" not in worker.prompts[prompt_id]["prompt"]["1"]["inputs"]:
            await succeed(worker, prompt_id)
            return
        error: dict[str, Any] = {"node_id": "1", "node_type": "Load", "executed": []}
        error["exception_type"] = "RuntimeError"
        error["exception_message"] = "Error(s) in loading state_dict for Flux: size mismatch"
        worker.end(prompt_id, "error", [["execution_error", error]])
        await worker.say("executing", node=None, prompt_id=prompt_id)

    wrong = graph_with(GOOD)
    wrong["1"]["inputs"]["kind"] = "flux"
    use = ModelUse("checkpoints", GOOD)
    async with playing(script) as worker, playing(script) as other:
        await up(house, worker)
        await up(house, other, W2)
        for _ in range(3):
            job = await house.ended(await house.submit(graph=wrong, expected=0.1, models=[use]))
            assert job.fault is not None
            assert job.fault.code == "MODEL_LOAD_FAILED"
        await completed(house, await submit(house, GOOD))


async def test_breakers_are_in_the_workers_body(house: House) -> None:
    async with playing(cannot_load_bad) as worker:
        await up(house, worker)
        await submit(house, BAD)
        await house.until(lambda: is_open(house))
        body = worker_body(house.fleet.view(W1))
        own, of_model = body.breakers
        assert (own.kind, own.model, own.state, own.failures) == ("inference", None, "closed", 0)
        assert (of_model.kind, of_model.model) == ("model_loading", BAD)
        assert (of_model.state, of_model.failures) == ("open", 3)
        assert "header too large" in (of_model.cause or "")
        assert of_model.until is not None


async def test_after_the_rest_one_job_tries_it_and_closes_the_breaker(tmp_path: Path) -> None:
    released = asyncio.Event()
    tried: list[str] = []

    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        if model_in(worker, prompt_id) == BAD:
            tried.append(prompt_id)
            if len(tried) <= 3:
                await cannot_load_bad(worker, prompt_id)
                return
            await released.wait()
        await succeed(worker, prompt_id)

    async with open_house(tmp_path, health=rules(SOON)) as house, playing(script) as worker:
        await up(house, worker)
        for _ in range(RECENT_JOBS):  # so short that it is given several at once from now on
            await completed(house, await submit(house, GOOD))
        jobs = [await submit(house, BAD)]
        await house.until(lambda: len(tried) == 3)
        jobs += [await submit(house, BAD) for _ in range(6)]
        await house.until(lambda: len(tried) == 4)
        # Another job runs meanwhile: those with the model have been passed over.
        await completed(house, await submit(house, GOOD))
        assert len(tried) == 4, "three failures and one try"
        view = breaker_of(house)
        assert view is not None
        assert view.state is BreakerState.HALF_OPEN
        released.set()
        for job_id in jobs:
            await completed(house, job_id)
        assert breaker_of(house) is None


async def test_try_that_fails_opens_the_breaker_again(tmp_path: Path) -> None:
    async with (
        open_house(tmp_path, health=rules(BreakerRules(rest=0.2, longest_rest=1000))) as house,
        playing(cannot_load_bad) as worker,
    ):
        await up(house, worker)
        await submit(house, BAD)
        await house.until(lambda: len(worker.submitted) == 4)
        await house.until(lambda: is_open(house))
        view = breaker_of(house)
        assert view is not None
        assert view.failures == 4


async def test_model_that_is_not_there_counts_and_the_worker_is_asked_what_it_has(
    house: House,
) -> None:
    async with playing(succeed) as worker:
        await up(house, worker)
        extra = {"input_name": "ckpt_name", "input_config": None, "received_value": BAD}
        error = {"type": "value_not_in_list", "message": "Value not in list", "details": "d"}
        node = {"class_type": "Load", "errors": [{**error, "extra_info": extra}]}
        outer = {"type": "prompt_outputs_failed_validation", "message": "Prompt outputs failed"}
        worker.refuse_prompt = (400, {"error": outer, "node_errors": {"1": node}})
        asked = worker.calls.count("GET /object_info")
        await submit(house, BAD)
        await house.until(lambda: is_open(house))
        await house.until(lambda: worker.calls.count("GET /object_info") == asked + 1)
        assert worker.calls.count("POST /prompt") == 3


class RestartingHost(StaticHost):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.ended = asyncio.Event()

    async def wait_ended(self) -> str:
        await self.ended.wait()
        self.ended.clear()
        return "the process ended"


async def test_worker_that_starts_anew_is_trusted_with_all_its_models(house: House) -> None:
    async with playing(cannot_load_bad) as worker:
        equip(worker)
        host = RestartingHost(worker.url)
        record = WorkerRecord(W1, "static", None, house.clock.now())
        await house.store.save_worker(record)
        house.fleet.add(W1, host, record.added_at)
        await house.has_status(W1, WorkerStatus.IDLE)
        job_id = await submit(house, BAD)
        await house.until(lambda: is_open(house))
        worker.script = succeed
        host.ended.set()
        assert (await completed(house, job_id)).worker_id == W1


async def test_person_who_resumes_a_worker_has_its_models_tried_again(house: House) -> None:
    async with playing(cannot_load_bad) as worker:
        await up(house, worker)
        job_id = await submit(house, BAD)
        await house.until(lambda: is_open(house))
        worker.script = succeed
        await house.fleet.resume(W1)
        await completed(house, job_id)
        assert breaker_of(house) is None
