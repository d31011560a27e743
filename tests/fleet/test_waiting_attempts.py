"""Attempts that wait in a worker's own queue behind another one [6.1, 6.3]."""

import asyncio

import pytest

from comfyrail.jobs.events import EventType
from comfyrail.jobs.outcome import Failed, Lost
from comfyrail.jobs.states import JobState
from tests.fleet.bench import TENANT, Bench, MeasuringAccount, Run, playing, silent, succeed
from tests.fleet.scripted_worker import ScriptedWorker


async def two(bench: Bench, worker: ScriptedWorker, timeout: float = 30) -> tuple[Run, Run]:
    """One that runs, and one that waits behind it."""
    worker.is_serial = True
    connection = await bench.connect(worker)
    first = await bench.begin(connection)
    await bench.until(lambda: worker.queue)
    second = await bench.begin(connection, timeout=timeout)
    await bench.until(lambda: worker.pending)
    return first, second


async def test_time_in_the_workers_queue_does_not_count_towards_the_timeout(bench: Bench) -> None:
    async with playing(silent) as worker:
        first, second = await two(bench, worker, timeout=0.2)
        await bench.until(lambda: worker.calls.count("GET /queue") >= 4)
        assert not second.task.done()
        assert not second.session.has_begun
        worker.succeed(first.attempt.prompt_id, "a.png")
        await bench.end(second)
        assert isinstance(second.session.outcome, Failed)
        assert second.session.outcome.fault.code == "EXECUTION_TIMEOUT"
        assert second.session.has_begun


async def test_waiting_attempt_is_not_lost_while_the_worker_lists_it(bench: Bench) -> None:
    async with playing(silent) as worker:
        first, second = await two(bench, worker)
        history = f"GET /history/{second.attempt.prompt_id}"
        await bench.until(lambda: worker.calls.count(history) >= 3)
        worker.script = succeed
        worker.succeed(first.attempt.prompt_id, "a.png")
        assert (await bench.end(second)).state is JobState.COMPLETED
        assert (await bench.end(first)).state is JobState.COMPLETED


async def test_cancel_of_a_waiting_attempt_takes_it_out_and_disturbs_nobody(bench: Bench) -> None:
    async with playing(silent) as worker:
        first, second = await two(bench, worker)
        await bench.store.request_cancel(TENANT, second.job_id)
        job = await bench.end(second)
        assert job.state is JobState.CANCELLED
        assert worker.deleted == [second.attempt.prompt_id]
        assert worker.stopped == []  # older ComfyUIs would have interrupted the other one
        assert worker.queue == [first.attempt.prompt_id]
        assert not first.task.done()


async def test_worker_that_ends_costs_nobody_a_retry_where_either_may_have_run(
    bench: Bench,
) -> None:
    async with playing(silent) as worker:
        first, second = await two(bench, worker)
        await bench.until(lambda: first.session.has_begun)
        for run in (first, second):
            run.session.worker_is_gone(Lost("the worker's process ended"))
        ran, waited = await bench.end(first), await bench.end(second)
        for job, bounces in ((ran, 0), (waited, 1)):
            assert (job.state, job.retries) == (JobState.QUEUED, 0)
            assert (job.runs_alone, job.bounces) == (True, bounces)


async def test_worker_that_ends_under_the_only_attempt_costs_it_a_retry(bench: Bench) -> None:
    async with playing(silent) as worker:
        run = await bench.begin(await bench.connect(worker))
        await bench.until(lambda: worker.queue)
        run.session.worker_is_gone(Lost("the worker's process ended"))
        assert (await bench.end(run)).retries == 1


async def test_remaining_time_falls_with_the_attempts_own_pace(bench: Bench) -> None:
    async with playing(silent) as worker:
        connection = await bench.connect(worker)
        run = await bench.begin(connection, expected=100)
        await bench.until(lambda: worker.queue)
        assert run.session.remaining_seconds() == 100
        prompt_id = run.attempt.prompt_id
        await worker.say("execution_start", prompt_id=prompt_id)
        await worker.say("executed", node="1", prompt_id=prompt_id)
        await bench.until(lambda: run.session.remaining_seconds() < 50)
        assert run.session.has_begun
        assert run.session.remaining_seconds() >= 0


async def test_measured_time_begins_with_the_workers_work(bench: Bench) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        stamps = [
            ["execution_start", {"timestamp": 1000}],
            ["execution_success", {"timestamp": 3500}],
        ]
        worker.end(prompt_id, "success", stamps)
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(silent) as worker:
        connection = await bench.connect(worker)
        account = MeasuringAccount()
        worker.script = script  # only the end is heard of: the history says how long it took
        run = await bench.begin(connection, account=account)
        await bench.end(run)
        assert account.measured is not None
        assert account.measured.seconds == pytest.approx(2.5, abs=0.9)


async def test_adopted_attempt_that_still_waits_is_not_taken_for_running(bench: Bench) -> None:
    async with playing(silent) as worker:
        worker.is_serial = True
        worker.queue.append("another client's prompt")
        connection = await bench.connect(worker)
        attempt = await bench.attempt(timeout=0.2)
        worker.pending.append(attempt.prompt_id)
        run = bench.run(attempt, connection, adopted=True)
        await bench.until(lambda: worker.calls.count("GET /queue") >= 3)
        assert not run.session.has_begun
        assert not run.task.done()
        worker.script = succeed
        worker.end("another client's prompt", "success", [])
        assert (await bench.end(run)).state is JobState.COMPLETED


async def test_adopted_attempt_keeps_the_time_that_it_has_run_already(bench: Bench) -> None:
    async with playing(silent) as worker:
        connection = await bench.connect(worker)
        first = await bench.begin(connection, timeout=0.8, max_retries=0)
        prompt_id = first.attempt.prompt_id
        await bench.until(lambda: worker.queue)
        await worker.say("executing", node="1", prompt_id=prompt_id)
        await worker.say("executed", node="1", prompt_id=prompt_id)

        async def is_told() -> bool:
            events = await bench.events(first.job_id)
            return any(event.type is EventType.NODE_COMPLETED for event in events)

        async with asyncio.timeout(10):
            while not await is_told():  # noqa: ASYNC110 - the state of another part
                await asyncio.sleep(0.01)
        first.task.cancel()  # as when the server stops
        await asyncio.gather(first.task, return_exceptions=True)
        again = bench.run(first.attempt, connection, adopted=True)
        await bench.until(lambda: again.session.has_begun)
        # The worker tells all of it again to whoever comes back.
        await worker.say("executing", node="1", prompt_id=prompt_id)
        await worker.say("executed", node="1", prompt_id=prompt_id)
        job = await bench.end(again)
        assert job.fault is not None
        assert job.fault.code == "EXECUTION_TIMEOUT"
        kinds = [event.type for event in await bench.events(first.job_id)]
        assert kinds.count(EventType.NODE_STARTED) == 1
        assert kinds.count(EventType.NODE_COMPLETED) == 1


async def test_job_whose_time_is_up_is_not_run_again_when_its_worker_ends(bench: Bench) -> None:
    async with playing(silent) as worker:
        run = await bench.begin(await bench.connect(worker), timeout=0.1, max_retries=0)
        await bench.until(lambda: worker.stopped)
        run.session.worker_is_gone(Lost("the worker's process ended"))
        job = await bench.end(run)
        assert (job.state, job.retries) == (JobState.FAILED, 0)
