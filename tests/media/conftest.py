"""Fixtures of the tests of media."""

from collections.abc import Iterator

import pytest

from tests.media.child import MediaChild


@pytest.fixture(scope="session")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MediaChild]:
    """One media process for all tests that it survives."""
    started = MediaChild(tmp_path_factory.mktemp("media"))
    yield started
    started.close()
