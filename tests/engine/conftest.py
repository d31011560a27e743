from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from comfyrail.engine.folders import Folders
from comfyrail.engine.server.run import prepare_folders
from tests.engine.engine_parts import Engine, close_engines, serving
from tests.engine.worker_client import WorkerClient


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return prepare_folders(tmp_path / "data")


@pytest.fixture(autouse=True)
def _engines_are_closed() -> Iterator[None]:
    yield
    close_engines()


@pytest.fixture
def engine(folders: Folders) -> Engine:
    return Engine(folders)


@pytest.fixture
async def worker(folders: Folders) -> AsyncIterator[WorkerClient]:
    """A worker that serves, seen through a client."""
    async with serving(folders) as client:
        yield client
