"""A server with access on, for all tests that do no harm to it."""

from collections.abc import Iterator

import pytest

from tests.access.gate_parts import LISTED_ORIGIN, gated_server
from tests.processes import Comfyrail


@pytest.fixture(scope="session")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comfyrail]:
    """Each test comes with users and addresses of its own."""
    data = tmp_path_factory.mktemp("gate") / "data"
    origins = f"{LISTED_ORIGIN}, http://localhost:3000"
    with gated_server(data, COMFYRAIL_CORS_ORIGINS=origins) as process:
        yield process
