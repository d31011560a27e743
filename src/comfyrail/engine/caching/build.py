"""A cache from settings: which levels there are, and how large."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from comfyrail.clock import Clock, SystemClock
from comfyrail.engine.caching.disk import DiskLevel
from comfyrail.engine.caching.file_leases import FileLeases
from comfyrail.engine.caching.leases import LeaseKeeper
from comfyrail.engine.caching.level import CacheLevel
from comfyrail.engine.caching.memory import MemoryLevel, measure_result
from comfyrail.engine.caching.result import CachedResult
from comfyrail.engine.caching.result_cache import ResultCache
from comfyrail.engine.memory.budget import MemoryBudget
from comfyrail.errors import ConfigurationError

MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """A lower level is on when it has a place and its switch is not off."""

    memory: bool = True
    memory_mb: int = 1024
    memory_entries: int = 100_000
    disk: bool = True
    disk_path: Path | None = None
    disk_mb: int = 4096
    redis: bool = True
    redis_url: str | None = field(default=None, repr=False)
    redis_max_entry_mb: int = 64
    lease_seconds: float = 10.0
    """How long a killed worker may keep the others waiting, where Redis says who computes what."""
    object_store: bool = True
    object_url: str | None = field(default=None, repr=False)
    object_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of the store such as `endpoint` and `region`; the rest is in the environment."""
    ttl_seconds: float | None = 3600.0
    """None keeps results for ever."""
    max_entry_mb: int = 1024
    """Larger results stay in memory."""
    queue_mb: int = 256
    """How much may wait to be written, beside what the memory level holds."""


def build_cache(
    config: CacheConfig,
    clock: Clock | None = None,
    budget: MemoryBudget | None = None,
    measure_model: Callable[[Any], int | None] | None = None,
) -> ResultCache:
    """The cache. Servers need not be up: they are asked when they are needed.

    `budget` is where the memory level counts what it holds. `measure_model` is given where results
    may hold models: what the last two executions used then stays in memory, without a limit of
    size or time.

    Raises ConfigurationError for a size, a folder or a URL that cannot be used, and for a level
    whose package is not installed.
    """
    _check_sizes(config)
    clock = clock or SystemClock()
    lower: list[CacheLevel] = []
    leases: list[LeaseKeeper] = []
    if config.redis and config.redis_url:
        _add_redis(config, config.redis_url, clock, lower, leases)
    if config.disk and config.disk_path:
        _add_disk(config, config.disk_path, clock, lower, leases)
    if config.object_store and config.object_url:
        lower.append(_object_level(config, config.object_url, clock))
    memory = MemoryLevel(
        clock,
        max_bytes=config.memory_mb * MEGABYTE if config.memory else 0,
        max_entries=config.memory_entries,
        ttl_seconds=config.ttl_seconds if measure_model is None else None,
        budget=budget,
        measure=measure_result if measure_model is None else partial(_with_models, measure_model),
        spares_recent=measure_model is not None,
    )
    return ResultCache(
        memory,
        lower,
        clock=clock,
        leases=leases,
        ttl_seconds=config.ttl_seconds,
        max_entry_bytes=config.max_entry_mb * MEGABYTE,
        queue_bytes=config.queue_mb * MEGABYTE,
    )


def _with_models(measure_model: Callable[[Any], int | None], result: CachedResult) -> int:
    models = (measure_model(value) or 0 for slot in result.slots for value in slot)
    return measure_result(result) + sum(models)


def _check_sizes(config: CacheConfig) -> None:
    sizes = {
        "memory_mb": config.memory_mb,
        "memory_entries": config.memory_entries,
        "disk_mb": config.disk_mb,
        "redis_max_entry_mb": config.redis_max_entry_mb,
        "max_entry_mb": config.max_entry_mb,
        "queue_mb": config.queue_mb,
        "ttl_seconds": config.ttl_seconds or 0,
    }
    for name, size in sizes.items():
        if size < 0:
            raise ConfigurationError(f"The cache's {name} is {size}. Set it to 0 or more.")
    if not 0.1 <= config.lease_seconds <= 10:
        raise ConfigurationError(
            f"The cache's lease_seconds is {config.lease_seconds}. Set it from 0.1 to 10."
        )


def _add_disk(
    config: CacheConfig,
    folder: Path,
    clock: Clock,
    lower: list[CacheLevel],
    leases: list[LeaseKeeper],
) -> None:
    try:
        level = DiskLevel(
            folder,
            clock,
            max_bytes=config.disk_mb * MEGABYTE,
            ttl_seconds=config.ttl_seconds,
        )
        leases.append(FileLeases(folder / "leases"))
    except OSError as error:
        raise ConfigurationError(
            f"The cache folder {folder} cannot be used: {error.strerror}. "
            "Choose another, or turn the disk level off."
        ) from error
    lower.append(level)


def _add_redis(
    config: CacheConfig,
    url: str,
    clock: Clock,
    lower: list[CacheLevel],
    leases: list[LeaseKeeper],
) -> None:
    try:
        from comfyrail.engine.caching.redis_leases import RedisLeases  # noqa: PLC0415 - an extra
        from comfyrail.engine.caching.redis_level import RedisLevel  # noqa: PLC0415
        from comfyrail.engine.caching.redis_link import RedisLink  # noqa: PLC0415
    except ImportError as error:
        raise _missing("Redis", "redis") from error
    try:
        link = RedisLink(url, clock)
    except ValueError as error:
        raise ConfigurationError(
            f"The cache's Redis URL cannot be used: {error} "
            "Write it as redis://host:6379/0, rediss://… or unix://…"
        ) from error
    lower.append(
        RedisLevel(
            link,
            clock,
            ttl_seconds=config.ttl_seconds,
            max_entry_bytes=config.redis_max_entry_mb * MEGABYTE,
        )
    )
    leases.append(RedisLeases(link, config.lease_seconds))


def _object_level(config: CacheConfig, url: str, clock: Clock) -> CacheLevel:
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - an extra

        from comfyrail.engine.caching.object_level import (  # noqa: PLC0415
            ObjectLevel,
            open_store,
        )
    except ImportError as error:
        raise _missing("object store", "s3") from error
    try:
        store = open_store(url, config.object_options)
    except (BaseError, ValueError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigurationError(
            f"The cache's object store at {urlsplit(url).scheme}:// cannot be used: {reason} "
            "Write its URL as s3://bucket/prefix, gs://…, az://… or file:///folder."
        ) from error
    return ObjectLevel(
        store,
        clock,
        ttl_seconds=config.ttl_seconds,
        max_entry_bytes=config.max_entry_mb * MEGABYTE,
    )


def _missing(level: str, extra: str) -> ConfigurationError:
    return ConfigurationError(
        f"The cache's {level} level needs a package that is not installed. "
        f"Install it with: pip install 'comfyrail[{extra}]'"
    )
