"""Libraries for tests."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from comfyrail.library.library import WorkflowLibrary
from tests.library.parts import LOCAL
from tests.processes import Comfyrail

_numbers = itertools.count(1)


@pytest.fixture
def library(tmp_path: Path) -> Iterator[WorkflowLibrary]:
    opened = WorkflowLibrary(tmp_path, LOCAL)
    yield opened
    opened.close()


@pytest.fixture
def name(running_server: Comfyrail) -> Iterator[str]:
    """A name that no other test uses on the shared server."""
    chosen = f"workflow-{next(_numbers)}"
    yield chosen
    running_server.call("DELETE", f"/v1/workflows/{chosen}")
