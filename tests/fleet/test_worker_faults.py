"""Workers that are slow, lie, babble, forget, repeat themselves or break: every job ends right,
exactly once [issue 5, faults; 7.4].
"""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from comfyrail.fleet.comfyui import client as client_module
from comfyrail.ids import JobId, WorkerId
from comfyrail.jobs.events import EventType
from comfyrail.jobs.job import Job
from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import WorkerStatus
from comfyrail.store.sqlite.database import DATABASE_NAME
from tests.fleet.house import TENANT, House, open_house, playing, succeed
from tests.fleet.scripted_worker import GRAPH, ScriptedWorker


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path) as opened:
        yield opened


async def silent(_worker: ScriptedWorker, _prompt_id: str) -> None:
    return


async def ended_once(house: House, job_id: JobId) -> Job:
    """The job, with its log looked through: whole, one end, and nothing after it."""
    job = await house.ended(job_id)
    events = await house.store.events_after(TENANT, job_id, 0, 1000)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    finals = [event.type for event in events if event.type.is_final]
    assert len(finals) == 1
    assert events[-1].type is finals[0]
    starts = [event.data["attempt"] for event in events if event.type is EventType.STARTED]
    assert starts == list(range(1, job.attempts + 1))
    states = attempt_states(house, job_id)
    assert states.count("completed") == (1 if job.state is JobState.COMPLETED else 0)
    assert "running" not in states
    outputs = await house.store.list_outputs(TENANT, job_id)
    assert len({output.attempt for output in outputs}) <= 1
    return job


def attempt_states(house: House, job_id: JobId) -> list[str]:
    with contextlib.closing(sqlite3.connect(house.folder / DATABASE_NAME)) as database:
        query = "SELECT state FROM attempts WHERE job_id = ? ORDER BY number"
        return [row[0] for row in database.execute(query, (job_id,))]


async def test_worker_that_answers_late_is_waited_for(house: House) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        await asyncio.sleep(0.3)
        await succeed(worker, prompt_id)

    async with playing(script) as worker:
        worker.delay = 0.2  # less than a third of the time that a worker may be away
        await house.add(worker)
        job = await ended_once(house, await house.submit())
        assert (job.state, job.attempts) == (JobState.COMPLETED, 1)


async def test_job_of_a_worker_that_answers_too_late_ends_elsewhere(house: House) -> None:
    async with playing(silent) as slow, playing(succeed) as other:
        await house.add(slow)
        job_id = await house.submit()
        await house.until(lambda: slow.queue)
        slow.delay = 2.0
        await house.add(other, "w2")
        job = await ended_once(house, job_id)
        assert (job.state, job.worker_id) == (JobState.COMPLETED, "w2")


async def test_job_that_a_worker_denies_and_completes_all_the_same_is_complete_once(
    house: House,
) -> None:
    denied = asyncio.Event()

    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        if len(worker.submitted) > 1:
            await succeed(worker, prompt_id)
            return
        worker.is_hiding = True
        await denied.wait()
        worker.is_hiding = False
        await succeed(worker, prompt_id)

    async with playing(script) as worker:
        await house.add(worker)
        job_id = await house.submit()
        await house.until(lambda: len(worker.submitted) == 2)
        denied.set()
        job = await ended_once(house, job_id)
        assert (job.state, job.attempts) == (JobState.COMPLETED, 2)


async def test_worker_that_denies_once_what_it_speaks_of_is_asked_again(house: House) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        await worker.say("executing", node="1", prompt_id=prompt_id)
        worker.is_hiding = True
        asked = worker.calls.count("GET /queue")
        await worker.say("executing", node=None, prompt_id=prompt_id)  # not true
        while worker.calls.count("GET /queue") == asked:  # noqa: ASYNC110 - stands for a race
            await asyncio.sleep(0.005)
        await succeed(worker, prompt_id)

    async with playing(script) as worker:
        await house.add(worker)
        job = await ended_once(house, await house.submit())
        assert (job.state, job.attempts) == (JobState.COMPLETED, 1)


async def test_job_that_is_said_to_run_though_it_is_done_is_complete(house: House) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        worker.claims.append(prompt_id)
        worker.succeed(prompt_id, "a.png")

    async with playing(script) as worker:
        await house.add(worker)
        job = await ended_once(house, await house.submit())
        assert (job.state, job.attempts) == (JobState.COMPLETED, 1)


async def test_job_that_is_said_to_run_for_ever_fails_when_its_time_is_up(house: House) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        worker.claims.append(prompt_id)
        worker.queue.remove(prompt_id)

    async with playing(script) as worker:
        await house.add(worker)
        job = await ended_once(house, await house.submit(max_retries=0, timeout=0.3))
        assert job.fault is not None
        assert job.fault.code == "EXECUTION_TIMEOUT"


GARBAGE = [
    b"",
    b"<html><body>Bad gateway</body></html>",
    b"{" * 50_000,
    b"[1, 2, 3]",
    b'{"queue_running": {"a": 1}, "queue_pending": [5, [], [1]]}',
    b"\xff\xfe\x00binary",
    b"NaN",
]


async def test_job_of_a_worker_that_turns_to_garbage_ends_elsewhere(tmp_path: Path) -> None:
    async def turns_to(garbage: bytes, folder: Path) -> None:
        async with (
            open_house(folder) as house,
            playing(silent) as broken,
            playing(succeed) as other,
        ):
            await house.add(broken)
            job_id = await house.submit()
            await house.until(lambda: broken.queue)
            await house.has_status(await house.add(other, "w2"), WorkerStatus.IDLE)
            broken.garbage = {"/history": (200, garbage), "/queue": (200, garbage)}
            job = await ended_once(house, job_id)
            assert (job.state, job.worker_id) == (JobState.COMPLETED, "w2"), garbage

    folders = [tmp_path / str(number) for number in range(len(GARBAGE))]
    for folder in folders:
        folder.mkdir()
    # All at once: each of them waits until the worker is given up.
    await asyncio.gather(*map(turns_to, GARBAGE, folders))


async def test_answer_that_never_ends_is_not_kept(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "REPLY_LIMIT", 1 << 16)
    async with playing(silent) as broken, playing(succeed) as other:
        await house.add(broken)
        job_id = await house.submit()
        await house.until(lambda: broken.queue)
        broken.garbage = {"/history": (200, b"[" + b"1," * (1 << 20))}
        await house.add(other, "w2")
        job = await ended_once(house, job_id)
        assert (job.state, job.worker_id) == (JobState.COMPLETED, "w2")


ODD_ENTRIES: list[Any] = [
    5,
    [],
    {"status": [], "outputs": []},
    {"status": {"status_str": {"a": 1}, "messages": {"a": 1}}, "outputs": {"1": [1, 2]}},
    {"status": {"status_str": "success", "messages": [[1], [1, 2], None]}, "outputs": {"1": 5}},
    {"outputs": {"1": {"images": [{"filename": 5}, None, [[]], {"filename": ["a"]}]}}},
]


@pytest.mark.parametrize("entry", ODD_ENTRIES)
async def test_history_of_wrong_types_ends_the_job_in_some_right_way(
    house: House, entry: Any
) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        worker.queue.remove(prompt_id)
        worker.history[prompt_id] = entry
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(script) as worker:
        await house.add(worker)
        job = await ended_once(house, await house.submit(max_retries=0))
        assert job.state in {JobState.COMPLETED, JobState.FAILED}
        if job.state is JobState.FAILED:
            assert job.fault is not None
            assert job.fault.message


async def test_job_that_is_accepted_and_forgotten_again_and_again_fails_with_the_reason(
    house: House,
) -> None:
    async def forget(worker: ScriptedWorker, prompt_id: str) -> None:
        worker.queue.remove(prompt_id)

    async with playing(forget) as worker:
        await house.add(worker)
        job = await ended_once(house, await house.submit())
        assert (job.state, job.attempts) == (JobState.FAILED, 4)
        assert job.fault is not None
        assert job.fault.code == "WORKER_LOST"


async def test_events_that_come_again_late_and_in_any_order_change_nothing(house: House) -> None:
    finished: list[str] = []

    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        messages: list[tuple[str, dict[str, Any]]] = [
            ("executed", {"node": "1"}),
            ("execution_success", {}),
            ("progress", {"node": "2", "value": 9, "max": 10}),
            ("executing", {"node": "2"}),
            ("execution_start", {}),
            ("executing", {"node": "1"}),
            ("progress", {"node": "2", "value": 1, "max": 10}),
            ("execution_cached", {"nodes": ["1", "2"]}),
            ("executing", {"node": None}),
        ]
        for said_of in [*finished, prompt_id] * 2:
            for kind, data in messages:
                await worker.say(kind, prompt_id=said_of, **data)
        finished.append(prompt_id)
        await succeed(worker, prompt_id)

    async with playing(script) as worker:
        await house.add(worker)
        for _ in range(3):
            job_id = await house.submit()
            job = await ended_once(house, job_id)
            assert (job.state, job.attempts) == (JobState.COMPLETED, 1)
            events = await house.store.events_after(TENANT, job_id, 0, 1000)
            done = [e.data["node_id"] for e in events if e.type is EventType.NODE_COMPLETED]
            assert sorted(done) == ["1", "2"]
            shares = [e.data["progress"] for e in events if e.type is EventType.PROGRESS]
            assert shares == sorted(shares)
            assert all(share <= 0.99 for share in shares)


async def test_socket_that_is_dead_without_being_closed_is_noticed_and_made_anew(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "SOCKET_HEARTBEAT_SECONDS", 0.3)

    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        await worker.say("executing", node="1", prompt_id=prompt_id)
        worker.is_half_open = True
        worker.succeed(prompt_id, "a.png")
        await worker.say("executing", node=None, prompt_id=prompt_id)  # nobody hears it

    async with playing(script) as worker:
        await house.add(worker)
        job = await ended_once(house, await house.submit())
        assert (job.state, job.attempts) == (JobState.COMPLETED, 1)
        await house.until(lambda: len(worker.sockets) >= 2)
        worker.is_half_open = False
        worker.script = succeed
        await house.until(lambda: house.fleet.view(WorkerId("w1")).status is WorkerStatus.IDLE)
        # A fresh name: with the old one the worker would drop the new socket with the dead one.
        job = await ended_once(house, await house.submit())
        assert job.state is JobState.COMPLETED
        first, *_, last = worker.submitted
        assert worker.clients[first] != worker.clients[last]


async def test_job_whose_node_types_are_gone_after_a_restart_ends_where_they_are(
    house: House,
) -> None:
    async with playing(silent) as changed, playing(succeed) as other:
        await house.add(changed)
        job_id = await house.submit()
        await house.until(lambda: changed.queue)
        port = int(changed.url.rsplit(":", 1)[1])
        await changed.stop()
        changed.queue.clear()
        changed.object_info = {"Else": {"input": {}, "output": [], "output_node": True}}
        await changed.start(port)
        await house.in_state(job_id, JobState.QUEUED)
        await house.until(
            lambda: (
                {view.id: view.node_types for view in house.fleet.views()} == {"w1": 1}
                and house.fleet.view(WorkerId("w1")).status is WorkerStatus.IDLE
            )
        )
        assert len(changed.submitted) == 1
        await house.add(other, "w2")
        job = await ended_once(house, job_id)
        assert (job.state, job.worker_id) == (JobState.COMPLETED, "w2")


def failing(kind: str, message: str) -> Any:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        error = {
            "node_id": "1",
            "node_type": "Make",
            "exception_type": kind,
            "exception_message": message,
        }
        await worker.say("execution_error", prompt_id=prompt_id, **error)
        made = {"2": {"images": [{"filename": "a.png", "subfolder": "", "type": "output"}]}}
        worker.end(prompt_id, "error", [["execution_error", error]], made)
        await worker.say("executing", node=None, prompt_id=prompt_id)

    return script


@pytest.mark.parametrize(
    ("kind", "message", "code", "advice"),
    [
        ("torch.OutOfMemoryError", "Allocation on device", "OUT_OF_MEMORY", "smaller"),
        ("OSError", "[Errno 28] No space left on device", "WORKER_DISK_FULL", "Make room"),
    ],
)
async def test_worker_without_memory_or_disk_is_told_from_a_bad_node(
    house: House, kind: str, message: str, code: str, advice: str
) -> None:
    async with playing(failing(kind, message)) as worker:
        await house.add(worker)
        job = await ended_once(house, await house.submit(max_retries=0))
        assert job.state is JobState.FAILED
        assert job.fault is not None
        assert (job.fault.category, job.fault.code) == ("resource", code)
        assert advice in job.fault.message
        assert job.fault.details["exception_type"] == kind
        (output,) = await house.store.list_outputs(TENANT, job.id)
        assert output.is_partial


async def test_job_that_is_answered_with_500_and_never_queued_fails_in_the_end(
    house: House,
) -> None:
    async with playing(succeed) as worker:
        worker.garbage = {"/prompt": (500, b"OSError: No space left on device")}
        await house.add(worker)
        job = await ended_once(house, await house.submit())
        assert job.fault is not None
        assert job.fault.code == "WORKER_LOST"


async def test_many_jobs_over_workers_that_all_misbehave_all_end_right(house: House) -> None:
    async def forgetful(worker: ScriptedWorker, prompt_id: str) -> None:
        if len(worker.submitted) % 3 == 0:
            worker.queue.remove(prompt_id)
        else:
            await succeed(worker, prompt_id)

    async def dropping(worker: ScriptedWorker, prompt_id: str) -> None:
        await worker.drop_sockets()
        worker.succeed(prompt_id, "a.png")

    async def babbling(worker: ScriptedWorker, prompt_id: str) -> None:
        for text in ("}{", json.dumps({"type": "executing", "data": {"prompt_id": prompt_id}})):
            await worker.say_raw(text)
        await succeed(worker, prompt_id)

    async with playing(forgetful) as one, playing(dropping) as two, playing(babbling) as three:
        for name, worker in (("w1", one), ("w2", two), ("w3", three)):
            await house.add(worker, name)
        jobs = [await house.submit(graph=GRAPH, expected=1) for _ in range(24)]
        ends = await asyncio.gather(*(ended_once(house, job_id) for job_id in jobs))
        assert {job.state for job in ends} == {JobState.COMPLETED}
