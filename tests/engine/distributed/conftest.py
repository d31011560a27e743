import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.distributed.parts import Setup, WorkerProcess, workers
from tests.services.valkey import Valkey, valkey

SetupMaker = Callable[..., Setup]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """One server for all tests that do no harm to it."""
    with valkey(tmp_path_factory.mktemp("broker")) as server:
        yield server


@pytest.fixture(scope="session")
def lasting(tmp_path_factory: pytest.TempPathFactory, broker: Valkey) -> Setup:
    """What the long-lived workers are set up with."""
    return Setup(
        tmp_path_factory.mktemp("lasting"),
        distributed={"broker_url": broker.url, "queue": f"lasting-{uuid.uuid4().hex}"},
        # Without memory, so that what is lost in Redis is lost.
        caching={"redis_url": broker.url, "memory": False},
    )


@pytest.fixture(scope="session")
def lasting_workers(lasting: Setup) -> Iterator[list[WorkerProcess]]:
    """Workers that no test does harm to."""
    with workers(lasting, 2) as found:
        yield found


@pytest.fixture
def make_setup(tmp_path: Path, broker: Valkey) -> SetupMaker:
    """A setup with a queue of its own and an empty cache of its own."""

    def make(**distributed: Any) -> Setup:
        section = {"broker_url": broker.url, "queue": uuid.uuid4().hex, **distributed}
        return Setup(tmp_path, distributed=section, caching={"disk_path": str(tmp_path / "cache")})

    return make
