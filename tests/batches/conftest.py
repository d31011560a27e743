"""Parts for tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from comfyrail.store.sqlite import batch_operations
from tests.batches.parts import CHUNK, Parts, open_parts


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch need not be large to be stored in several steps."""
    monkeypatch.setattr(batch_operations, "STORED_AT_ONCE", CHUNK)


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    async with open_parts(tmp_path) as opened:
        yield opened
