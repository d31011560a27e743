"""The results of nodes in levels: memory, Redis, disk, object store."""

from comfyrail.engine.caching.build import CacheConfig, build_cache
from comfyrail.engine.caching.flights import Reservation
from comfyrail.engine.caching.result import CachedResult, Slot, freeze_arrays, measure_bytes
from comfyrail.engine.caching.result_cache import CacheFigures, ResultCache

__all__ = [
    "CacheConfig",
    "CacheFigures",
    "CachedResult",
    "Reservation",
    "ResultCache",
    "Slot",
    "build_cache",
    "freeze_arrays",
    "measure_bytes",
]
