"""A kit for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.assets.parts import Kit, asset_kit


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[Kit]:
    async with asset_kit(tmp_path) as made:
        yield made
