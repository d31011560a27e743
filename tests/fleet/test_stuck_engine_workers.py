"""Cancel and timeout on real engine workers whose nodes do not look up [4.7, 6.3]."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from comfyrail.fleet.session import SessionTimes
from comfyrail.jobs.states import JobState
from tests.engine.test_engine_stuck_nodes import StuckWorker
from tests.fleet.bench import TENANT, Bench

SHOW: dict[str, Any] = {"1": {"class_type": "Show", "inputs": {"value": 5}}}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StuckWorker]:
    with StuckWorker(tmp_path_factory.mktemp("stuck")) as running:
        yield running


async def until_stuck(worker: StuckWorker) -> None:
    await asyncio.to_thread(worker.until_stuck)


@pytest.mark.parametrize("node_type", ["LoopStuck", "SleepStuck"])
async def test_cancelled_job_ends_once_and_the_one_behind_it_runs(
    bench: Bench, worker: StuckWorker, node_type: str
) -> None:
    bench.times = SessionTimes()
    connection = await bench.connect(worker)
    stuck = await bench.begin(connection, graph=worker.graph(node_type))
    await until_stuck(worker)
    behind = await bench.begin(connection, graph=SHOW)
    await bench.store.request_cancel(TENANT, stuck.job_id)
    cancelled = await bench.end(stuck)
    assert (cancelled.state, cancelled.attempts) == (JobState.CANCELLED, 1)
    ((output, _),) = await bench.outputs(stuck.job_id)
    assert output.file.filename.startswith("a_")
    assert output.is_partial
    done = await bench.end(behind)
    assert (done.state, done.attempts, done.retries) == (JobState.COMPLETED, 1, 0)
    assert worker.mark.read_text() == "here"
    finals = [event for event in await bench.events(stuck.job_id) if event.type.is_final]
    assert len(finals) == 1


async def test_job_whose_time_is_up_fails_once_though_its_node_is_stuck(
    bench: Bench, worker: StuckWorker
) -> None:
    bench.times = SessionTimes()
    connection = await bench.connect(worker)
    graph = worker.graph("SleepStuck")
    run = await bench.begin(connection, graph=graph, timeout=0.5, max_retries=0)
    job = await bench.end(run)
    assert (job.state, job.attempts) == (JobState.FAILED, 1)
    assert job.fault is not None
    assert job.fault.code == "EXECUTION_TIMEOUT"
    again = await bench.begin(connection, graph=SHOW)
    assert (await bench.end(again)).state is JobState.COMPLETED
