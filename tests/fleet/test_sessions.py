"""Attempts on workers that behave badly: every job still ends right, once [6.1, 7.4]."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from comfyrail.fleet.drivers.static import StaticHost
from comfyrail.ids import WorkerId, new_attempt_token
from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import WorkerStatus
from comfyrail.store.interface import Assignment
from tests.fleet.house import TENANT, House, open_house, playing, succeed
from tests.fleet.scripted_worker import ScriptedWorker


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path) as opened:
        yield opened


async def test_outputs_are_in_the_blob_store_when_the_job_is_complete(
    house: House, tmp_path: Path
) -> None:
    async with playing(succeed) as worker:
        await house.add(worker)
        job = await house.ended(await house.submit())
        assert job.state is JobState.COMPLETED
        (output,) = await house.store.list_outputs(TENANT, job.id)
        assert (tmp_path / "blobs" / output.file.blob_key).read_bytes() == b"picture"


async def test_completion_while_the_socket_was_down_is_not_missed(house: House) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        await worker.say("executing", node="1", prompt_id=prompt_id)
        worker.accepts_sockets = False
        await worker.drop_sockets()
        worker.succeed(prompt_id, "a.png")

    async with playing(script) as worker:
        await house.add(worker)
        job = await house.ended(await house.submit())
        assert (job.state, job.attempts) == (JobState.COMPLETED, 1)


async def test_worker_that_never_says_a_word_is_found_done_by_polling(house: House) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        worker.succeed(prompt_id, "a.png")

    async with playing(script) as worker:
        await house.add(worker)
        assert (await house.ended(await house.submit())).state is JobState.COMPLETED


async def test_prompt_that_the_worker_forgets_is_run_again(house: House) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        if len(worker.submitted) == 1:
            worker.queue.clear()
        else:
            await succeed(worker, prompt_id)

    async with playing(script) as worker:
        await house.add(worker)
        job = await house.ended(await house.submit())
        assert (job.state, job.attempts, job.retries) == (JobState.COMPLETED, 2, 1)


async def test_job_that_is_always_lost_fails_in_the_end_with_the_reason(house: House) -> None:
    async def script(worker: ScriptedWorker, _prompt_id: str) -> None:
        worker.queue.clear()

    async with playing(script) as worker:
        await house.add(worker)
        job = await house.ended(await house.submit())
        assert (job.state, job.attempts) == (JobState.FAILED, 4)
        assert job.fault is not None
        assert job.fault.code == "WORKER_LOST"


async def test_garbage_and_repeated_messages_do_no_harm(house: House) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        for text in ("nope", "[]", "{}", '{"type":"executing","data":{"prompt_id":5}}'):
            await worker.say_raw(text)
        for _ in range(3):
            await worker.say("executing", node="1", prompt_id=prompt_id)
            await worker.say("executed", node="1", prompt_id=prompt_id, output=None)
            await worker.say("executing", node=None, prompt_id="another prompt")
        worker.succeed(prompt_id, "a.png")
        for _ in range(3):
            await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(script) as worker:
        await house.add(worker)
        job_id = await house.submit()
        assert (await house.ended(job_id)).state is JobState.COMPLETED
        events = await house.store.events_after(TENANT, job_id, 0, 100)
        kinds = [event.type for event in events]
        assert len([kind for kind in kinds if kind == "execution.node_started"]) == 1


async def test_rejected_prompt_fails_with_what_the_worker_said(house: House) -> None:
    async with playing(succeed) as worker:
        worker.refuse_prompt = (
            400,
            {
                "error": {"type": "x", "message": "Prompt outputs failed validation"},
                "node_errors": {"1": {"errors": [{"message": "Bad", "details": "width"}]}},
            },
        )
        await house.add(worker)
        job = await house.ended(await house.submit())
        assert job.fault is not None
        assert (job.fault.category, job.fault.code) == ("validation", "PROMPT_REJECTED")
        assert "node 1: Bad (width)" in job.fault.message


async def test_node_error_is_told_without_the_workers_stack_trace(house: House) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        error = {
            "node_id": "1",
            "node_type": "Make",
            "exception_message": "out of paint",
            "exception_type": "RuntimeError",
            "traceback": ["secret/path.py"],
        }
        worker.end(prompt_id, "error", [["execution_error", error]])
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(script) as worker:
        await house.add(worker)
        job = await house.ended(await house.submit())
        assert job.fault is not None
        assert job.fault.message == "Node '1' (Make) failed: out of paint"
        assert "secret" not in str(job.fault)


async def test_blocked_branch_of_a_success_is_a_warning(house: House) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        blocked = {"node_id": "1", "node_type": "Make", "exception_message": "blocked"}
        await worker.say("execution_error", prompt_id=prompt_id, **blocked)
        await succeed(worker, prompt_id)

    async with playing(script) as worker:
        await house.add(worker)
        job = await house.ended(await house.submit())
        assert job.state is JobState.COMPLETED
        events = await house.store.events_after(TENANT, job.id, 0, 100)
        (warning,) = [event for event in events if event.type == "execution.warning"]
        assert "blocked" in warning.data["message"]
        (ready,) = [event for event in events if event.type == "execution.output_ready"]
        assert (ready.data["node_id"], ready.data["filename"]) == ("2", "a.png")


async def test_output_that_the_worker_has_no_more_fails_the_job(house: House) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        worker.succeed(prompt_id, "gone.png")
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(script) as worker:
        await house.add(worker)
        job = await house.ended(await house.submit())
        assert job.fault is not None
        assert job.fault.code == "OUTPUT_MISSING"


async def silent(_worker: ScriptedWorker, _prompt_id: str) -> None:
    return


async def test_cancel_stops_the_worker(house: House) -> None:
    async with playing(silent) as worker:
        await house.add(worker)
        job_id = await house.submit()
        await house.until(lambda: worker.queue)
        await house.store.request_cancel(TENANT, job_id)
        await house.until(lambda: worker.stopped)
        prompt_id = worker.submitted[0]
        worker.end(prompt_id, "error", [["execution_interrupted", {}]])
        assert (await house.ended(job_id)).state is JobState.CANCELLED
        assert worker.stopped[0] == prompt_id


async def test_worker_that_ignores_a_cancel_stays_busy_until_it_lets_go(house: House) -> None:
    async with playing(silent) as worker:
        await house.add(worker)
        job_id = await house.submit()
        await house.until(lambda: worker.queue)
        await house.store.request_cancel(TENANT, job_id)
        assert (await house.ended(job_id)).state is JobState.CANCELLED
        assert house.fleet.view(WorkerId("w1")).status is WorkerStatus.BUSY
        worker.queue.clear()
        await house.until(lambda: house.fleet.view(WorkerId("w1")).status is WorkerStatus.IDLE)


async def test_job_that_runs_too_long_is_stopped_and_says_so(house: House) -> None:
    async with playing(silent) as worker:
        await house.add(worker)
        job = await house.ended(await house.submit(max_retries=0, timeout=0.3))
        assert job.fault is not None
        assert (job.fault.category, job.fault.code) == ("timeout", "EXECUTION_TIMEOUT")
        assert worker.stopped


async def test_job_of_a_worker_that_goes_away_is_run_by_another(house: House) -> None:
    async with playing(silent) as first, playing(succeed) as second:
        await house.add(first)
        job_id = await house.submit()
        await house.until(lambda: first.queue)
        await house.add(second, "w2")
        await first.stop()
        job = await house.ended(job_id)
        assert (job.state, job.worker_id, job.retries) == (JobState.COMPLETED, "w2", 1)


async def test_removed_worker_gives_its_job_back_without_costing_a_retry(house: House) -> None:
    async with playing(silent) as first, playing(succeed) as second:
        await house.add(first)
        job_id = await house.submit()
        await house.until(lambda: first.queue)
        await house.add(second, "w2")
        await house.fleet.remove(WorkerId("w1"))
        job = await house.ended(job_id)
        assert (job.state, job.worker_id, job.retries) == (JobState.COMPLETED, "w2", 0)
        assert first.stopped == first.submitted


async def test_server_that_comes_back_finishes_what_ended_meanwhile(tmp_path: Path) -> None:
    async with playing(silent) as worker:
        async with open_house(tmp_path, "before") as house:
            await house.add(worker)
            job_id = await house.submit()
            await house.until(lambda: worker.queue)
        worker.succeed(worker.submitted[0], "a.png")
        async with open_house(tmp_path, "after") as house:
            await house.add(worker)
            job = await house.ended(job_id)
            assert (job.state, job.attempts) == (JobState.COMPLETED, 1)
            assert len(worker.submitted) == 1


async def test_worker_that_is_no_comfyui_is_unhealthy_and_says_why(house: House) -> None:
    async with playing(succeed) as worker:
        other = StaticHost(worker.url + "/nothing-here")
        house.fleet.add(WorkerId("odd"), other, house.clock.now())
        await house.until(
            lambda: house.fleet.view(WorkerId("odd")).status is WorkerStatus.UNHEALTHY
        )
        assert "404" in (house.fleet.view(WorkerId("odd")).error or "")


async def test_cancel_between_the_start_and_the_session_is_not_lost(house: House) -> None:
    async with playing(silent) as worker:
        worker.obeys_interrupts = True
        job_id = await house.submit()
        assignment = Assignment(job_id, WorkerId("w1"), new_attempt_token())
        attempts = await house.store.start_attempts([assignment], "me", 15)
        await house.store.request_cancel(TENANT, job_id)
        await house.add(worker)
        await house.until(house.fleet.schedulable_workers)
        await house.fleet.start(attempts)
        assert (await house.ended(job_id)).state is JobState.CANCELLED


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"execution_cached","data":{"prompt_id":"%s","nodes":5}}',
        '{"type":"progress","data":{"prompt_id":"%s","node":"1","value":'
        + "9" * 400
        + ',"max":1}}',
        '{"type":"progress","data":{"prompt_id":"%s","node":"1","value":NaN,"max":Infinity}}',
        '{"type":"progress_state","data":{"prompt_id":"%s","nodes":{"1":5,"2":{"value":"x"}}}}',
        '{"type":"execution_error","data":{"prompt_id":"%s"}}',
    ],
)
async def test_odd_messages_end_neither_the_job_nor_the_worker(house: House, text: str) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        await worker.say_raw(text.replace("%s", prompt_id).replace("HUGE", "9" * 400))
        await succeed(worker, prompt_id)

    async with playing(script) as worker:
        await house.add(worker)
        for _ in range(2):
            assert (await house.ended(await house.submit())).state is JobState.COMPLETED


async def test_worker_comes_back_after_a_fault_of_ours(house: House) -> None:
    async with playing(succeed) as worker:
        house.fleet._context.catalog._catalogs["poison"] = None  # type: ignore[assignment]
        house.fleet._context.catalog._used_by[WorkerId("other")] = "poison"
        await house.add(worker)
        await house.until(lambda: house.fleet.view(WorkerId("w1")).status is WorkerStatus.UNHEALTHY)
        house.fleet._context.catalog.forget(WorkerId("other"))
        assert (await house.ended(await house.submit())).state is JobState.COMPLETED


async def endless(worker: ScriptedWorker, prompt_id: str) -> None:
    worker.dripping.add("a.png")
    await succeed(worker, prompt_id)


async def test_cancel_breaks_off_an_output_that_never_ends(house: House) -> None:
    async with playing(endless) as worker:
        await house.add(worker)
        job_id = await house.submit()
        await house.until(lambda: worker.drips > 2)
        await house.store.request_cancel(TENANT, job_id)
        assert (await house.ended(job_id)).state is JobState.CANCELLED


async def test_timeout_counts_while_outputs_are_fetched(house: House) -> None:
    async with playing(endless) as worker:
        await house.add(worker)
        job = await house.ended(await house.submit(timeout=0.5))
        assert job.fault is not None
        assert job.fault.code == "EXECUTION_TIMEOUT"


async def test_worker_can_be_removed_while_outputs_are_fetched(house: House) -> None:
    async with playing(endless) as worker, playing(succeed) as second:
        await house.add(worker)
        job_id = await house.submit()
        await house.until(lambda: worker.drips > 2)
        await house.add(second, "w2")
        async with asyncio.timeout(5):
            await house.fleet.remove(WorkerId("w1"))
        assert (await house.ended(job_id)).worker_id == "w2"


async def test_too_many_files_are_refused(house: House) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        worker.succeed(prompt_id, *["a.png"] * 3000)
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(script) as worker:
        await house.add(worker)
        job = await house.ended(await house.submit())
        assert job.fault is not None
        assert job.fault.code == "TOO_MANY_OUTPUTS"


async def test_disk_that_refuses_an_output_does_not_cost_the_job(
    house: House, tmp_path: Path
) -> None:
    async with playing(succeed) as worker:
        await house.add(worker)
        incoming = tmp_path / "blobs" / "incoming"
        incoming.rmdir()
        job_id = await house.submit()
        await house.until(lambda: worker.views >= 2)
        incoming.mkdir()
        job = await house.ended(job_id)
        assert (job.state, job.attempts) == (JobState.COMPLETED, 1)
        assert len(worker.submitted) == 1


async def test_bare_nan_from_a_worker_is_understood(house: House) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        worker.succeed(prompt_id, "a.png")
        worker.history[prompt_id]["odd"] = float("nan")
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(script) as worker:
        worker.object_info["Make"]["max"] = float("inf")
        await house.add(worker)
        assert (await house.ended(await house.submit())).state is JobState.COMPLETED
        worker.refuse_prompt = (400, {"error": {"message": "No", "value": float("nan")}})
        job = await house.ended(await house.submit())
        assert job.fault is not None
        assert job.fault.code == "PROMPT_REJECTED"


async def test_long_refusal_is_cut_before_it_is_kept(house: House) -> None:
    async with playing(succeed) as worker:
        worker.refuse_prompt = (400, {"error": {"message": "x" * 3_000_000}})
        await house.add(worker)
        job = await house.ended(await house.submit())
        assert job.fault is not None
        assert len(str(job.fault)) < 20_000


async def test_other_refusals_than_of_the_graph_are_not_blamed_on_it(house: House) -> None:
    async with playing(succeed) as worker:
        worker.refuse_prompt = (401, {"error": "who are you"})
        await house.add(worker)
        job = await house.ended(await house.submit())
        assert job.fault is not None
        assert job.fault.code == "WORKER_LOST"


async def test_prompt_whose_job_was_taken_back_is_stopped_when_the_worker_returns(
    house: House,
) -> None:
    async with playing(silent) as worker:
        await house.add(worker)
        job_id = await house.submit()
        await house.until(lambda: worker.queue)
        worker.is_frozen = True
        await worker.drop_sockets()
        await house.in_state(job_id, JobState.QUEUED)
        stray = worker.submitted[0]
        worker.is_frozen = False
        await house.until(lambda: stray in worker.stopped)


async def test_worker_that_was_frozen_gets_no_job_before_it_has_let_go_of_the_last(
    house: House,
) -> None:
    async with playing(silent) as worker:
        worker.obeys_interrupts = True
        await house.add(worker)
        job_id = await house.submit()
        await house.until(lambda: worker.queue)
        worker.is_frozen = True  # its socket stays open: only the calls get no answer
        await house.in_state(job_id, JobState.QUEUED)
        await house.until(lambda: not house.fleet.view(WorkerId("w1")).current_jobs)
        assert house.fleet.view(WorkerId("w1")).status is WorkerStatus.UNHEALTHY
        worker.is_frozen = False
        await house.until(lambda: len(worker.submitted) == 2)
        assert worker.submitted[0] in worker.stopped
        assert worker.queue == worker.submitted[1:]


async def test_what_a_cancelled_job_had_made_is_kept_and_marked(house: House) -> None:
    async with playing(silent) as worker:
        await house.add(worker)
        job_id = await house.submit()
        await house.until(lambda: worker.queue)
        await house.store.request_cancel(TENANT, job_id)
        await house.until(lambda: worker.stopped)
        made = {"2": {"images": [{"filename": "a.png", "subfolder": "", "type": "output"}]}}
        worker.end(worker.submitted[0], "error", [["execution_interrupted", {}]], made)
        assert (await house.ended(job_id)).state is JobState.CANCELLED
        (output,) = await house.store.list_outputs(TENANT, job_id)
        assert (output.file.filename, output.is_partial) == ("a.png", True)
