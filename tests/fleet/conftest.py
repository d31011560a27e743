"""Parts that several modules of this folder use."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fleet.bench import Bench, open_bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened
