from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from comfyrail.engine.caching import CacheConfig, ResultCache, build_cache
from tests.engine.caching.cache_parts import ShiftedClock
from tests.services.seaweed import SeaweedS3, seaweed_s3
from tests.services.valkey import Valkey, valkey

Builder = Callable[..., ResultCache]


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """One server for all tests that do no harm to it."""
    with valkey(tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def own_redis_server(tmp_path: Path) -> Iterator[Valkey]:
    """One that the test may kill."""
    with valkey(tmp_path) as server:
        yield server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedS3]:
    with seaweed_s3(tmp_path_factory.mktemp("seaweed")) as server:
        yield server


@pytest.fixture
def clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture
def build(clock: ShiftedClock) -> Iterator[Builder]:
    """Makes caches from settings, each as a worker of its own would, and closes them."""
    made: list[ResultCache] = []

    def make(**settings: object) -> ResultCache:
        cache = build_cache(CacheConfig(**settings), clock)  # type: ignore[arg-type]
        made.append(cache)
        return cache

    yield make
    for cache in made:
        cache.close()
