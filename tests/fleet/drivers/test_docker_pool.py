"""A pool of containers under a real server: from none to some and back, also over a crash [5.4]."""

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator

import pytest

from comfyrail.fleet.drivers.docker_settings import container_name
from comfyrail.store.sqlite.database import DATABASE_NAME
from tests.fleet.drivers import podman
from tests.fleet.drivers.docker_setting import engine_worker_config
from tests.graphs import slow_picture
from tests.processes import Comfyrail, server, wait_until

pytestmark = pytest.mark.skipif(
    podman.why_no_engine() is not None, reason=podman.why_no_engine() or ""
)

POOL = "boxes"
MAXIMUM = 2


class ContainerPool:
    """A server whose only workers are containers, made as jobs need them."""

    def __init__(self, process: Comfyrail) -> None:
        self.process = process

    def containers(self) -> dict[str, str]:
        """All that the engine has of the pool, running or not: name to id."""
        words = ("ps", "--all", "--filter", f"name={container_name(POOL)}-", "--format", "json")
        listed = json.loads(podman.engine().podman(*words))
        return {each["Names"][0]: each["Id"] for each in listed}

    def history(self) -> list[tuple[str, str]]:
        """What the engine's log says of the pool's containers so far: event and id."""
        words = ("events", "--stream=false", "--since", "1h", "--format", "json")
        events = [json.loads(line) for line in podman.engine().podman(*words).splitlines()]
        return [
            (event["Status"], event["ID"])
            for event in events
            if event["Type"] == "container" and event["Name"].startswith(f"{container_name(POOL)}-")
        ]

    def records(self) -> list[str]:
        path = self.process.data / DATABASE_NAME
        with contextlib.closing(sqlite3.connect(path)) as database:
            rows = database.execute("SELECT id FROM workers WHERE pool = ?", (POOL,))
            return sorted(row[0] for row in rows)

    def wait_until_empty(self) -> None:
        """No container, no worker, and no record but the one of what the pool can run."""
        wait_until(lambda: not self.containers(), limit=60, pause=0.2)
        wait_until(lambda: self.records() == [f"{POOL}-0"])
        wait_until(lambda: self.process.call("GET", "/v1/workers")[1] == {"workers": []})

    def assert_each_completed_once(self, job_ids: list[str]) -> None:
        jobs = [self.process.wait_for(job_id, limit=60) for job_id in job_ids]
        assert Counter(job["status"] for job in jobs) == {"completed": len(job_ids)}
        assert {(job["retries"], len(job["result"]["outputs"])) for job in jobs} == {(0, 1)}
        for job_id in job_ids:
            types = [event["type"] for event in self.process.events(job_id)]
            assert types.count("execution.completed") == 1


def most_at_once(history: list[tuple[str, str]]) -> int:
    there: set[str] = set()
    most = 0
    for event, container in history:
        if event == "create":
            there.add(container)
        elif event == "remove":
            there.remove(container)
        most = max(most, len(there))
    assert not there
    return most


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerPool]:
    folder = tmp_path_factory.mktemp("containers")
    pool = {
        "driver": "docker",
        "maximum": MAXIMUM,
        "idle_timeout": 0.5,
        "start_seconds": 2,
        "config": engine_worker_config(),
    }
    (folder / "fleet.yaml").write_text(json.dumps({"pools": {POOL: pool}}))
    arguments = ("--fleet", str(folder / "fleet.yaml"))
    # Jobs are to begin sooner than one worker could begin them all.
    with server(folder / "data", *arguments, workers=0, COMFYRAIL_WAIT_MEDIUM="1") as process:
        yield ContainerPool(process)


@pytest.fixture
def pool(serving: ContainerPool) -> Iterator[ContainerPool]:
    """With no container: a pool that was never seen starts one to learn what it can run."""
    wait_until(lambda: serving.process.call("GET", "/v1/nodes/EmptyImage")[0] == 200, limit=60)
    serving.wait_until_empty()
    yield serving
    serving.process.end_all_jobs()


def test_burst_makes_a_pool_of_containers_grow_from_zero_and_go_back_to_zero(
    pool: ContainerPool,
) -> None:
    """0 workers, 50 jobs: up within the limits, all done once, back to 0."""
    assert pool.containers() == {}
    seen = len(pool.history())
    jobs = [pool.process.submit(slow_picture(0.1, color)) for color in range(50)]
    pool.assert_each_completed_once(jobs)
    pool.wait_until_empty()
    assert most_at_once(pool.history()[seen:]) == MAXIMUM


def test_containers_of_a_killed_server_are_found_again_and_end_at_zero(
    pool: ContainerPool,
) -> None:
    process = pool.process
    seen = len(pool.history())
    # So many that two containers are needed whatever the server has learned of such jobs by now.
    jobs = [process.submit(slow_picture(0.3, 100 + color)) for color in range(30)]
    wait_until(lambda: len(pool.containers()) == MAXIMUM, limit=60, pause=0.2)
    wait_until(lambda: process.execution(jobs[0])["started_at"], limit=60)
    before = pool.containers()
    process.kill()
    assert pool.containers() == before, "they outlive the server"
    process.start()
    pool.assert_each_completed_once(jobs)
    pool.wait_until_empty()
    history = pool.history()[seen:]
    created = {container for event, container in history if event == "create"}
    assert created == set(before.values()), "found again, not made anew"
    assert most_at_once(history) == MAXIMUM
