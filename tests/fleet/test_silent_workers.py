"""Workers that are stopped, hang, or are cut off: what that costs their jobs, and nobody else's
[7.4].
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from comfyrail.clock import Instant, SystemClock
from comfyrail.errors import WorkerUnreachable
from comfyrail.faultlab.proxy import LineProxy, proxy_to
from comfyrail.fleet.agent_dialer import CONNECT_SECONDS, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.connection import WorkerConnection
from comfyrail.fleet.drivers.agent_frames import PING_SECONDS, SILENCE_SECONDS
from comfyrail.fleet.drivers.interface import HostContext, WorkerHost
from comfyrail.fleet.drivers.local import LocalHost, LocalSettings
from comfyrail.fleet.drivers.process import ProcessDriver
from comfyrail.fleet.drivers.ssh import SshDriver
from comfyrail.fleet.patience import Contact
from comfyrail.fleet.session import SessionTimes
from comfyrail.fleet.watchdog import Watchdog, WatchdogRules
from comfyrail.fleet.workload import PrefetchRules
from comfyrail.ids import JobId, WorkerId
from comfyrail.jobs.events import EventType
from comfyrail.jobs.job import Job
from comfyrail.jobs.states import JobState
from comfyrail.jobs.workers import WorkerStatus
from comfyrail.store.interface import DEFAULT_LEASE_SECONDS, WorkerRecord
from tests.fleet.drivers.checkout import make_checkout
from tests.fleet.drivers.process_state import is_running
from tests.fleet.drivers.setting import host_context
from tests.fleet.drivers.ssh_server import ssh_server
from tests.fleet.drivers.ssh_setting import tunnel_config
from tests.fleet.house import TENANT, House, open_house, playing, succeed
from tests.fleet.scripted_worker import ScriptedWorker
from tests.graphs import slow_picture
from tests.processes import server
from tests.services.ports import free_ports

W1 = WorkerId("w1")
LEASE = 2.0
TIMES = SessionTimes(poll_interval=0.3, unreachable_limit=LEASE, retry_interval=0.1, stop_limit=0.5)
PATIENT = SessionTimes(poll_interval=0.3, unreachable_limit=30, retry_interval=0.1, stop_limit=0.5)
DEEP = PrefetchRules(horizon=1000)

GREEDY_NODE = '''
import ctypes


class Greedy:
    """Lets nobody else in its process do anything for a while."""

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"seconds": ("FLOAT", {"default": 1.0})}}

    RETURN_TYPES = ()
    OUTPUT_NODE = True
    FUNCTION = "run"

    def run(self, seconds):
        ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
        return {"ui": {"text": ["done"]}}


NODE_CLASS_MAPPINGS = {"Greedy": Greedy}
'''


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path, prefetch=DEEP, times=TIMES) as opened:
        yield opened


async def begins(worker: ScriptedWorker, prompt_id: str) -> None:
    await worker.say("execution_start", prompt_id=prompt_id)


async def silent(_worker: ScriptedWorker, _prompt_id: str) -> None:
    """Takes a prompt and says nothing."""


async def add_host(house: House, host: WorkerHost) -> None:
    await house.store.save_worker(WorkerRecord(W1, host.driver, None, house.clock.now()))
    house.fleet.add(W1, host, house.clock.now())
    await house.has_status(W1, WorkerStatus.IDLE)


async def local_worker(house: House, **settings: Any) -> LocalHost:
    """A process of its own."""
    host = LocalHost(
        house.folder / "worker", house.folder / "input", settings=LocalSettings(**settings)
    )
    await add_host(house, host)
    return host


async def running_and_waiting(house: House, **graphs: Any) -> tuple[JobId, JobId]:
    """Two jobs on the one worker: one that has begun, and one behind it."""
    running = await house.submit(expected=100, **graphs)
    workload = house.fleet.find(W1).attempts.workload
    await house.until(lambda: [h for h in workload.held.values() if h.session.has_begun])
    waiting = await house.submit(expected=1, **graphs)
    await house.until(lambda: len(workload.jobs) == 2)
    return running, waiting


async def is_queued(house: House, job_id: JobId) -> bool:
    return (await house.store.get_job(TENANT, job_id)).state is JobState.QUEUED


async def seconds_until_queued(house: House, job_id: JobId) -> float:
    began = time.monotonic()
    await house.in_state(job_id, JobState.QUEUED)
    return time.monotonic() - began


async def ended_once(house: House, job_id: JobId) -> Job:
    job = await house.ended(job_id)
    events = await house.store.events_after(TENANT, job_id, 0, 1000)
    assert sum(event.type.is_final for event in events) == 1
    assert sum(event.type is EventType.STARTED for event in events) == job.attempts
    return job


def status(house: House) -> WorkerStatus:
    return house.fleet.view(W1).status


# Processes that are stopped


@pytest.mark.parametrize("poll_interval", [0.3, 60.0])
async def test_stopped_process_costs_its_job_a_lease_and_the_one_behind_it_less(
    tmp_path: Path, poll_interval: float
) -> None:
    times = replace(TIMES, poll_interval=poll_interval)
    async with open_house(tmp_path, prefetch=DEEP, times=times) as house:
        host = await local_worker(house)
        running, waiting = await running_and_waiting(house, graph=slow_picture(1.0))
        assert host.pid is not None
        os.kill(host.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            await house.in_state(waiting, JobState.QUEUED)
            assert not await is_queued(house, running), "it may be merely busy"
            assert status(house) is WorkerStatus.UNHEALTHY
            assert "has not answered for" in str(house.fleet.view(W1).error)
            assert not house.fleet.schedulable_workers()
            await house.in_state(running, JobState.QUEUED)
            assert time.monotonic() - began < LEASE + 1
        finally:
            os.kill(host.pid, signal.SIGCONT)
        ends = [await ended_once(house, each) for each in (running, waiting)]
        assert [(job.state, job.attempts, job.retries) for job in ends] == [
            (JobState.COMPLETED, 2, 0),
            (JobState.COMPLETED, 2, 0),
        ], "nobody knows which of them ran when it was stopped"


async def test_process_that_was_stopped_for_less_than_a_lease_keeps_its_job(house: House) -> None:
    host = await local_worker(house)
    running, waiting = await running_and_waiting(house, graph=slow_picture(1.0))
    assert host.pid is not None
    os.kill(host.pid, signal.SIGSTOP)
    try:
        await house.has_status(W1, WorkerStatus.UNHEALTHY)
    finally:
        os.kill(host.pid, signal.SIGCONT)
    done = await ended_once(house, running)
    assert (done.state, done.attempts) == (JobState.COMPLETED, 1)
    assert (await ended_once(house, waiting)).state is JobState.COMPLETED
    assert house.fleet.view(W1).error is None


async def test_idle_process_that_is_stopped_gets_no_job_until_it_is_back(house: House) -> None:
    host = await local_worker(house)
    pid = host.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        await house.has_status(W1, WorkerStatus.UNHEALTHY)
        job_id = await house.submit(graph=slow_picture(0))
        assert await is_queued(house, job_id)
    finally:
        os.kill(pid, signal.SIGCONT)
    job = await ended_once(house, job_id)
    assert (job.state, job.attempts) == (JobState.COMPLETED, 1)
    assert host.pid == pid, "it was waited for"


async def test_process_that_hangs_for_good_is_killed_and_started_anew(tmp_path: Path) -> None:
    times = SessionTimes(unreachable_limit=0.5, retry_interval=0.1)
    async with open_house(tmp_path, times=times) as house:
        host = await local_worker(house)
        pid = host.pid
        assert pid is not None
        job_id = await house.submit(graph=slow_picture(0.5))
        await house.until(lambda: house.fleet.view(W1).current_jobs)
        os.kill(pid, signal.SIGSTOP)
        await house.until(lambda: host.pid not in {None, pid})
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        job = await ended_once(house, job_id)
        assert (job.state, job.attempts, job.retries) == (JobState.COMPLETED, 2, 1)


async def test_checkout_that_is_stopped_is_killed_with_what_it_has_started(tmp_path: Path) -> None:
    async with host_context(tmp_path) as context:
        driver = ProcessDriver()
        config = driver.check({"folder": str(make_checkout(tmp_path / "checkout"))})
        host = driver.host(W1, config, context)
        try:
            pids = (await ComfyClient(await host.start(), context.http).system_stats())["system"]
            os.kill(pids["pid"], signal.SIGSTOP)
            ended = asyncio.create_task(host.wait_ended())
            assert await host.end_hung()
            async with asyncio.timeout(10):
                assert "signal 9" in await ended
            assert not is_running(pids["pid"])
            assert not is_running(pids["child"])
            assert not await host.end_hung(), "there is nothing to end any more"
        finally:
            await host.stop()


async def test_program_behind_ssh_that_is_stopped_is_killed_if_it_is_ours(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    async with ssh_server(tmp_path / "ssh") as machine, host_context(tmp_path) as context:
        driver = SshDriver()
        plain = tunnel_config(machine, f"http://127.0.0.1:{port}")
        main = make_checkout(tmp_path / "checkout") / "main.py"
        command = f"{sys.executable} -uS {main} --listen 127.0.0.1 --port {port}"
        host = driver.host(W1, driver.check({**plain, "command": command}), context)
        found = driver.host(WorkerId("w2"), driver.check(plain), context)
        try:
            pids = (await ComfyClient(await host.start(), context.http).system_stats())["system"]
            await found.start()
            assert not await found.end_hung(), "somebody else has started it"
            os.kill(pids["pid"], signal.SIGSTOP)
            ended = asyncio.create_task(host.wait_ended())
            assert await host.end_hung()
            async with asyncio.timeout(10):
                assert "has ended" in await ended
            assert not is_running(pids["pid"])
        finally:
            await found.stop()
            await host.stop()


async def test_worker_that_is_not_ours_is_waited_for(tmp_path: Path) -> None:
    times = SessionTimes(unreachable_limit=0.3, retry_interval=0.1)
    async with open_house(tmp_path, times=times) as house, cut_off(succeed) as (worker, relay):
        await house.add(worker, url=relay.url)
        await house.has_status(W1, WorkerStatus.IDLE)
        relay.fall_silent()
        await house.until(lambda: "for 2 s" in str(house.fleet.view(W1).error))
        relay.speak_again()
        await house.has_status(W1, WorkerStatus.IDLE)


async def test_node_that_keeps_its_process_from_answering_for_less_than_a_lease_is_let_be(
    house: House,
) -> None:
    pack = house.folder / "greedy.py"
    pack.write_text(GREEDY_NODE)
    await local_worker(house, nodes=(str(pack),))
    node = {"class_type": "Greedy", "inputs": {"seconds": LEASE * 0.7}}
    job_id = await house.submit(graph={"1": node})
    await house.has_status(W1, WorkerStatus.UNHEALTHY)
    job = await ended_once(house, job_id)
    assert (job.state, job.attempts) == (JobState.COMPLETED, 1)
    await house.has_status(W1, WorkerStatus.IDLE)


# Lines that go dead


@asynccontextmanager
async def cut_off(
    script: Callable[[ScriptedWorker, str], Any],
) -> AsyncIterator[tuple[ScriptedWorker, LineProxy]]:
    """A worker behind a line that can go dead without a word."""
    async with playing(script) as worker:
        worker.obeys_interrupts = True
        async with proxy_to(int(worker.url.rpartition(":")[2])) as line:
            yield worker, line


async def on_cut_off_worker(house: House, worker: ScriptedWorker, relay: LineProxy) -> None:
    worker.is_serial = True
    await house.add(worker, url=relay.url)
    await house.has_status(W1, WorkerStatus.IDLE)


async def test_jobs_of_a_worker_behind_a_dead_line_end_elsewhere_and_are_stopped_when_it_is_back(
    house: House,
) -> None:
    async with cut_off(begins) as (worker, relay), playing(succeed) as other:
        await on_cut_off_worker(house, worker, relay)
        running, waiting = await running_and_waiting(house)
        relay.fall_silent()
        await house.add(other, "w2")
        for job_id in (waiting, running):
            job = await ended_once(house, job_id)
            assert (job.state, job.worker_id, job.retries) == (JobState.COMPLETED, "w2", 0)
            assert job.runs_alone, "nobody knows which of them ran"
        assert not worker.stopped
        relay.speak_again()
        await house.has_status(W1, WorkerStatus.IDLE)
        first, second = worker.submitted
        assert first in worker.stopped
        assert second in worker.deleted
        assert not worker.queue
        assert not worker.pending


async def test_line_that_is_dead_for_less_than_a_lease_costs_the_running_job_nothing(
    house: House,
) -> None:
    async with cut_off(begins) as (worker, relay):
        await on_cut_off_worker(house, worker, relay)
        running, waiting = await running_and_waiting(house)
        relay.fall_silent()
        await house.in_state(waiting, JobState.QUEUED)
        worker.succeed(worker.submitted[0], "a.png")  # the worker itself has gone on
        relay.speak_again()
        job = await ended_once(house, running)
        assert (job.state, job.attempts, job.retries) == (JobState.COMPLETED, 1, 0)
        await house.until(lambda: len(worker.submitted) == 3)
        await succeed(worker, worker.submitted[2])
        assert (await ended_once(house, waiting)).retries == 0


async def test_job_that_is_being_handed_over_when_the_line_goes_dead_does_not_wait_for_an_answer(
    house: House,
) -> None:
    async with cut_off(begins) as (worker, relay):
        await on_cut_off_worker(house, worker, relay)
        running = await house.submit(expected=100)
        held = house.fleet.find(W1).attempts.workload.held
        await house.until(lambda: [each for each in held.values() if each.session.has_begun])
        relay.fall_silent()
        waiting = await house.submit(expected=1)
        await house.until(lambda: len(held) == 2)
        assert await seconds_until_queued(house, waiting) < LEASE, "a submission may take 30 s"
        assert not await is_queued(house, running)


async def test_job_alone_on_a_worker_that_falls_silent_counts_though_it_was_not_seen_to_begin(
    house: House,
) -> None:
    """It may be what the worker hangs of; else it would hang one worker after another."""
    async with cut_off(silent) as (worker, relay):
        await on_cut_off_worker(house, worker, relay)
        job_id = await house.submit()
        await house.until(lambda: worker.submitted)
        relay.fall_silent()
        await house.has_status(W1, WorkerStatus.UNHEALTHY)
        assert not await is_queued(house, job_id)
        await house.in_state(job_id, JobState.QUEUED)
        assert (await house.store.get_job(TENANT, job_id)).retries == 1


# Workers that are there


async def test_worker_that_answers_is_not_suspected_however_long_its_executor_hangs(
    house: House,
) -> None:
    async with playing(begins) as worker:
        await house.add(worker)
        await house.has_status(W1, WorkerStatus.IDLE)
        await house.submit(expected=100)
        looks = 2 * LEASE / TIMES.poll_interval
        seen: set[WorkerStatus] = set()

        def has_been_looked_at() -> bool:
            seen.add(status(house))
            return worker.calls.count("GET /queue") > looks

        await house.until(has_been_looked_at)
        assert seen <= {WorkerStatus.IDLE, WorkerStatus.BUSY}
        assert "GET /prompt" not in worker.calls, "its socket gives signs of life"


async def test_socket_that_drops_and_comes_back_at_once_costs_nobody_anything(
    house: House,
) -> None:
    async with playing(begins) as worker:
        worker.is_serial = True
        await house.add(worker)
        await house.has_status(W1, WorkerStatus.IDLE)
        running, waiting = await running_and_waiting(house)
        await worker.drop_sockets()
        await house.has_status(W1, WorkerStatus.BUSY)
        await house.until(lambda: worker.sockets)
        for prompt_id in list(worker.submitted):
            await succeed(worker, prompt_id)
        for job_id in (running, waiting):
            job = await ended_once(house, job_id)
            assert (job.state, job.attempts) == (JobState.COMPLETED, 1)


async def test_worker_without_a_socket_keeps_what_runs_and_gives_back_what_waits(
    house: House,
) -> None:
    async with playing(begins) as worker:
        worker.is_serial = True
        await house.add(worker)
        await house.has_status(W1, WorkerStatus.IDLE)
        running, waiting = await running_and_waiting(house)
        worker.accepts_sockets = False
        await worker.drop_sockets()
        await house.in_state(waiting, JobState.QUEUED)
        worker.succeed(worker.submitted[0], "a.png")
        job = await ended_once(house, running)
        assert (job.state, job.attempts) == (JobState.COMPLETED, 1)


async def test_worker_that_restarts_within_a_second_and_knows_nothing_gets_its_jobs_again_at_once(
    tmp_path: Path,
) -> None:
    async with (
        open_house(tmp_path, prefetch=DEEP, times=PATIENT) as house,
        playing(begins) as worker,
    ):
        worker.is_serial = True
        await house.add(worker)
        await house.has_status(W1, WorkerStatus.IDLE)
        running, waiting = await running_and_waiting(house)
        port = int(worker.url.rpartition(":")[2])
        await worker.stop()
        worker.queue.clear()
        worker.pending.clear()
        worker.script = succeed
        await worker.start(port)
        for job_id in (running, waiting):
            job = await ended_once(house, job_id)
            assert (job.state, job.attempts, job.retries) == (JobState.COMPLETED, 2, 0)


async def test_worker_that_answers_calls_late_is_suspected_and_used_again(house: House) -> None:
    """Its socket lives all the time: only the calls get no answer."""
    async with playing(begins) as worker:
        await house.add(worker)
        await house.has_status(W1, WorkerStatus.IDLE)
        await house.submit(expected=100)
        await house.until(lambda: worker.submitted)
        worker.is_frozen = True
        await house.has_status(W1, WorkerStatus.UNHEALTHY)
        worker.is_frozen = False
        await house.has_status(W1, WorkerStatus.BUSY)


# Tunnels


async def test_job_behind_an_ssh_line_that_breaks_is_followed_on(house: House) -> None:
    async with ssh_server(house.folder / "ssh") as machine, playing(begins) as worker:
        context = HostContext(house.folder, house.context.http, house.clock)
        driver = SshDriver()
        config = driver.check(tunnel_config(machine, worker.url))
        await add_host(house, driver.host(W1, config, context))
        job_id = await house.submit(expected=100)
        await house.until(lambda: worker.submitted)
        machine.drop_connections()
        await house.until(lambda: not house.fleet.find(W1).life.is_ready)
        await house.has_status(W1, WorkerStatus.BUSY)
        await succeed(worker, worker.submitted[0])
        job = await ended_once(house, job_id)
        assert (job.state, job.attempts) == (JobState.COMPLETED, 1)


def test_agent_is_back_well_before_a_lease_is_over() -> None:
    until_noticed = SILENCE_SECONDS + PING_SECONDS
    assert until_noticed + FIRST_PAUSE_SECONDS < 0.7 * DEFAULT_LEASE_SECONDS
    assert LONGEST_PAUSE_SECONDS + CONNECT_SECONDS < 0.7 * DEFAULT_LEASE_SECONDS


# A server that was itself away


class JumpingClock(SystemClock):
    """Stands for a process that is stopped: its timers fire when it goes on, much too late."""

    def __init__(self) -> None:
        self.jumped = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.jumped

    def now(self) -> Instant:
        return Instant(super().now() + round(1000 * self.jumped))


async def test_own_time_stands_still_while_the_server_is_away() -> None:
    clock = JumpingClock()
    contact = Contact(clock)
    waiting = asyncio.create_task(contact.rest(0.2))
    await asyncio.sleep(0)
    clock.jumped += 60
    assert contact.silence() < 0.3, "also for one who asks before the watcher has woken"
    await waiting
    assert contact.silence() < 1
    clock.jumped += 5
    assert contact.silence() >= 5, "nobody was waiting"


async def test_own_time_counts_what_the_server_has_waited_for() -> None:
    clock = JumpingClock()
    contact = Contact(clock)
    for _ in range(5):
        waiting = asyncio.create_task(contact.rest(2.0))
        await asyncio.sleep(0)
        clock.jumped += 2.0
        contact.note_unanswered()
        await waiting
    assert 10 <= contact.silence() < 11
    contact.note_heard()
    assert contact.silence() < 1


async def test_server_that_is_always_late_still_counts_what_it_has_waited_for() -> None:
    clock = JumpingClock()
    contact = Contact(clock)
    for _ in range(5):
        waiting = asyncio.create_task(contact.rest(2.0))
        await asyncio.sleep(0)
        clock.jumped += 5.0
        contact.note_unanswered()
        await waiting
    assert 10 <= contact.silence() < 11
    assert contact.pauses == 5


@asynccontextmanager
async def watched(
    worker: ScriptedWorker, clock: JumpingClock, rules: WatchdogRules
) -> AsyncIterator[tuple[WorkerConnection, list[str]]]:
    """A worker with a watchdog, and what that tells."""
    told: list[str] = []

    async def nothing(*_: object) -> None:
        """Nobody has to be stopped or ended."""

    async with aiohttp.ClientSession() as http:
        connection = WorkerConnection(ComfyClient(worker.url, http, 5.0, Contact(clock)), "me")
        watchdog = Watchdog(
            W1,
            connection,
            rules,
            suspect=lambda is_so: told.append("suspected" if is_so else "trusted"),
            line_lost=lambda: told.append("line lost"),
            lose=lambda _: told.append("lost"),
            recover=nothing,
            end=nothing,
            is_idle=lambda: True,
        )
        opened = asyncio.Event()
        tasks = [
            asyncio.create_task(connection.follow(opened.set)),
            asyncio.create_task(watchdog.run()),
        ]
        await opened.wait()
        try:
            yield connection, told
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_server_that_was_stopped_does_not_take_its_workers_for_silent() -> None:
    clock = JumpingClock()
    rules = WatchdogRules(beat=0.02, sign=0.2, answer=0.3, lost=5.0)
    async with playing(silent) as worker, watched(worker, clock, rules) as (connection, told):
        for _ in range(20):
            before = connection.contact.line_heard_at
            clock.jumped += 60
            async with asyncio.timeout(5):
                while connection.contact.line_heard_at == before:  # noqa: ASYNC110 - of a socket
                    await asyncio.sleep(0.005)
        assert told == []


async def test_answer_that_came_while_the_server_was_stopped_is_asked_for_again() -> None:
    rules = WatchdogRules(beat=0.02, sign=0.05, answer=0.4)
    async with (
        playing(silent) as worker,
        watched(worker, JumpingClock(), rules) as (_connection, told),
    ):
        worker.delay = 0.1
        worker.is_half_open = True  # no signs of life: calls alone can tell
        for _ in range(3):
            asked = worker.calls.count("GET /prompt")
            async with asyncio.timeout(5):
                while worker.calls.count("GET /prompt") == asked:  # noqa: ASYNC110 - of a server
                    await asyncio.sleep(0.005)
            time.sleep(1.0)  # noqa: ASYNC251 - nothing goes on meanwhile, as in a stopped process
        assert told == []


async def test_worker_that_is_silent_before_and_after_the_server_was_away_is_lost() -> None:
    clock = JumpingClock()
    rules = WatchdogRules(beat=0.05, sign=0.1, answer=0.1, lost=1.0)
    async with playing(silent) as worker, watched(worker, clock, rules) as (connection, told):
        worker.is_half_open = worker.is_frozen = True
        async with asyncio.timeout(5):
            while told != ["suspected"]:  # noqa: ASYNC110 - said by another task
                await asyncio.sleep(0.005)
        clock.jumped += 60
        assert connection.contact.silence() < rules.lost + 0.1, "no more than it was waited for"
        async with asyncio.timeout(5):
            while told != ["suspected", "lost"]:  # noqa: ASYNC110 - said by another task
                await asyncio.sleep(0.005)
        worker.is_frozen = False
        async with asyncio.timeout(10):
            while told[-1] != "trusted":  # noqa: ASYNC110 - said by another task
                await asyncio.sleep(0.005)


async def test_worker_that_is_merely_slow_is_suspected_once_and_trusted_when_it_is_quick() -> None:
    rules = WatchdogRules(beat=0.02, sign=0.05, answer=0.2)
    async with playing(silent) as worker, watched(worker, JumpingClock(), rules) as (_, told):
        worker.is_half_open = True  # no signs of life: calls alone can tell
        worker.delay = 0.3
        async with asyncio.timeout(10):
            while worker.calls.count("GET /prompt") < 10:  # noqa: ASYNC110 - of a server
                await asyncio.sleep(0.005)
        assert told == ["suspected"]
        worker.delay = 0.0
        async with asyncio.timeout(10):
            while len(told) == 1:  # noqa: ASYNC110 - said by another task
                await asyncio.sleep(0.005)
        assert told == ["suspected", "trusted"]


def test_job_goes_on_though_its_server_was_stopped_for_longer_than_a_lease(tmp_path: Path) -> None:
    with server(tmp_path / "data", COMFYRAIL_LEASE_SECONDS="1") as running:
        running.wait_ready()
        job_id = running.submit(slow_picture(4.0))
        running.wait_for(job_id, "processing")
        running.process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)  # the pause itself
        running.process.send_signal(signal.SIGCONT)
        job = running.wait_for(job_id)
        assert (job["status"], job["attempts"]) == ("completed", 1)


# Calls


async def test_call_about_a_prompt_is_broken_off_and_others_are_not() -> None:
    async with playing(silent) as worker, aiohttp.ClientSession() as http:
        client = ComfyClient(worker.url, http)
        worker.is_frozen = True
        calls = [asyncio.create_task(client.history(each)) for each in ("mine", "other")]
        async with asyncio.timeout(5):
            while len(worker.calls) < 2:  # noqa: ASYNC110 - of a server
                await asyncio.sleep(0.005)
        client.drop_calls("mine")
        with pytest.raises(WorkerUnreachable):
            await calls[0]
        assert not calls[1].done()
        worker.is_frozen = False
        assert await calls[1] is None
