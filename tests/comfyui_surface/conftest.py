"""One server with two engine workers for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.comfyui_surface.parts import Script
from tests.processes import Comfyrail, server, wait_until


@pytest.fixture(scope="session")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    data = tmp_path_factory.mktemp("comfyui") / "data"
    # No job is given to a worker ahead of its turn: what waits can be told from what runs.
    with server(data, workers=2, COMFYRAIL_PREFETCH_SECONDS="0") as process:
        process.wait_ready()
        wait_until(lambda: len(process.call("GET", "/system_stats")[1]["devices"]) == 2)
        yield process


@pytest.fixture
def house(two_workers: Comfyrail) -> Iterator[Comfyrail]:
    """Without jobs of other tests."""
    yield two_workers
    two_workers.end_all_jobs()


@pytest.fixture(params=["", "/api"], ids=["bare", "api"])
def script(house: Comfyrail, request: pytest.FixtureRequest) -> Script:
    return Script(house.url, request.param)


@pytest.fixture
def plain(house: Comfyrail) -> Script:
    return Script(house.url)
