"""Shared fixtures."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping

import pytest
from hypothesis import settings

from tests.loops import PatientLoop
from tests.processes import Comfyrail, server

# The same examples every time: a run says something about the change, not about its luck. To search
# for new ones: TEST_NEW_EXAMPLES=1.
settings.register_profile("same", derandomize=not os.environ.get("TEST_NEW_EXAMPLES"))
settings.load_profile("same")


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"patient": PatientLoop}


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    """One server with one engine worker for all tests that do no harm to it."""
    with server(tmp_path_factory.mktemp("shared") / "data") as process:
        yield process.wait_ready()


@pytest.fixture
def running_server(shared_server: Comfyrail) -> Iterator[Comfyrail]:
    """The shared server without jobs of other tests, even of those that failed half-way."""
    yield shared_server
    shared_server.end_all_jobs()
