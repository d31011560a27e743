"""Put an executor together as a configuration says."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from comfyrail.clock import Clock, SystemClock
from comfyrail.engine.caching.build import CacheConfig, build_cache
from comfyrail.engine.caching.result_cache import ResultCache
from comfyrail.engine.configuration import EngineConfiguration
from comfyrail.engine.executor import Executor, RunnerFactory
from comfyrail.engine.folders import Folders
from comfyrail.engine.held_values import HeldValues, ValuesInMemory
from comfyrail.engine.hooks import Hook
from comfyrail.engine.memory.budget import MemoryBudget
from comfyrail.engine.memory.spill_area import SpillArea
from comfyrail.engine.memory.value_store import ValueStore
from comfyrail.engine.registry import NodeRegistry
from comfyrail.engine.resources.detect import detect_capacity
from comfyrail.engine.resources.pool import ResourcePool
from comfyrail.engine.runners.interface import Runner
from comfyrail.engine.runners.parallel import ParallelRunner
from comfyrail.engine.surroundings import Surroundings

MEGABYTE = 1 << 20


def build_executor(
    registry: NodeRegistry,
    folders: Folders,
    configuration: EngineConfiguration | None = None,
    *,
    clock: Clock | None = None,
    cache: CacheConfig | None = None,
    surroundings: Surroundings | None = None,
    hooks: Iterable[Hook] = (),
) -> Executor:
    """An executor for one thread; close it when it is no longer needed.

    `cache` takes the place of the configuration's section. Raises ConfigurationError.
    """
    configuration = configuration or EngineConfiguration()
    clock = clock or SystemClock()
    budget = _budget_of(configuration)
    results = build_cache(
        cache or configuration.cache_config(),
        clock,
        budget,
        None if surroundings is None else surroundings.measure_model,
    )
    return Executor(
        registry,
        folders,
        results,
        clock,
        surroundings=surroundings,
        hooks=hooks,
        options=configuration.run_options(),
        runners=_runners_of(configuration, folders, results),
        value_store=_value_store_of(configuration, folders, budget),
        checkpoints=configuration.execution.checkpoints,
        budget=budget,
    )


def _budget_of(configuration: EngineConfiguration) -> MemoryBudget | None:
    section = configuration.resource_management
    if section.memory_limit_mb is None:
        return None
    return MemoryBudget(int(section.memory_limit_mb * MEGABYTE), section.offload_threshold)


def _value_store_of(
    configuration: EngineConfiguration, folders: Folders, budget: MemoryBudget | None
) -> Callable[[], HeldValues]:
    if budget is None:
        return ValuesInMemory
    folder = configuration.resource_management.offload_path or folders.temp.parent / "offload"
    return partial(ValueStore, budget, SpillArea(folder))


def _runners_of(
    configuration: EngineConfiguration, folders: Folders, cache: ResultCache
) -> dict[str, RunnerFactory]:
    parallel = partial(_parallel_runner, configuration, folders.output)
    distributed = partial(_distributed_runner, configuration, cache, parallel)
    if configuration.execution.strategy == "distributed":
        distributed().close()  # what is wrong with it should be said now
    return {"parallel": parallel, "distributed": distributed}


def _parallel_runner(configuration: EngineConfiguration, folder: Path) -> ParallelRunner:
    capacity = configuration.capacity(detect_capacity(folder))
    execution = configuration.execution
    cores = max(1, int(capacity.cpu_cores))
    return ParallelRunner(
        ResourcePool(capacity),
        threads=execution.max_threads or cores,
        processes=execution.max_processes or cores,
    )


def _distributed_runner(
    configuration: EngineConfiguration, cache: ResultCache, local: Callable[[], Runner]
) -> Runner:
    """Raises ConfigurationError where no cache level is shared, or a package is missing."""
    from comfyrail.engine.distributed.build import build_remote_runner  # noqa: PLC0415 - few use it

    return build_remote_runner(configuration.execution.distributed, cache, local())
