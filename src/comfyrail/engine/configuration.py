"""The engine's configuration file: the section `execution_engine` of a YAML file [12.11]."""

import math
from pathlib import Path
from typing import Any

import msgspec
import yaml

from comfyrail.engine.caching.build import CacheConfig
from comfyrail.engine.distributed.settings import DistributedSection
from comfyrail.engine.options import (
    OptimizerOptions,
    RunOptions,
    Strategy,
    read_run_options,
)
from comfyrail.engine.resources.needs import Capacity
from comfyrail.errors import ConfigurationError

SECTION = "execution_engine"


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field that is not known is a mistake, not a wish for later."""


class ExecutionSection(_Section, frozen=True):
    strategy: Strategy = "sequential"
    max_threads: int | None = None
    """Nodes at once in the strategy `parallel`; as many as there are cores where it is not set."""
    max_processes: int | None = None
    checkpoints: Path | None = None
    """Folder for checkpoints; beside the output folder where it is not set."""
    default_on_error: Any = "fail"
    on_error: dict[str, Any] = msgspec.field(default_factory=dict)
    """Policies by node type."""
    optimizer: bool | dict[str, bool] = msgspec.field(default_factory=dict)
    distributed: DistributedSection = msgspec.field(default_factory=DistributedSection)


class ResourceSection(_Section, frozen=True):
    """What nodes may use at once. What is not set is found out from the machine."""

    cpu_cores: float | None = None
    memory_mb: float | None = None
    disk_space_mb: float | None = None
    network_bandwidth_mbps: float | None = None
    gpus_mb: list[float] | None = None
    memory_limit_mb: float | None = None
    """Values above this are moved to disk; nothing is moved where it is not set."""
    offload_threshold: float = 0.8
    offload_path: Path | None = None


class CachingSection(_Section, frozen=True):
    """Levels are asked in this order: memory, Redis, disk, object store."""

    ttl_seconds: float | None = 3600.0
    memory: bool = True
    memory_mb: int = 1024
    memory_entries: int = 100_000
    redis: bool = True
    redis_url: str | None = None
    redis_max_entry_mb: int = 64
    disk: bool = True
    disk_path: Path | None = None
    disk_mb: int = 4096
    object_store: bool = True
    object_url: str | None = None
    object_options: dict[str, str] = msgspec.field(default_factory=dict)
    max_entry_mb: int = 1024


class MonitoringSection(_Section, frozen=True):
    metrics: bool = True
    metrics_port: int = 9090
    """Where a worker serves its metrics; 0 takes a free port."""
    tracing: bool = False
    sampling: float = 0.1
    otlp_endpoint: str | None = None


class EngineConfiguration(_Section, frozen=True):
    execution: ExecutionSection = ExecutionSection()
    resource_management: ResourceSection = ResourceSection()
    caching: CachingSection = CachingSection()
    monitoring: MonitoringSection = MonitoringSection()

    def run_options(self) -> RunOptions:
        """Raises ConfigurationError."""
        execution = self.execution
        return read_run_options(
            {
                "strategy": execution.strategy,
                "optimizer": execution.optimizer,
                "on_error": execution.on_error,
                "default_on_error": execution.default_on_error,
            },
            RunOptions(optimizer=OptimizerOptions()),
            where=f"{SECTION}.execution",
        )

    def cache_config(self) -> CacheConfig:
        return CacheConfig(**msgspec.structs.asdict(self.caching))

    def capacity(self, found: Capacity) -> Capacity:
        """What there is, as far as it is not set here."""
        section = self.resource_management
        gpus = found.gpus if section.gpus_mb is None else tuple(section.gpus_mb)
        return Capacity(
            cpu_cores=_first(section.cpu_cores, found.cpu_cores),
            memory_mb=_first(section.memory_mb, found.memory_mb),
            disk_space_mb=_first(section.disk_space_mb, found.disk_space_mb),
            network_bandwidth_mbps=_first(
                section.network_bandwidth_mbps, found.network_bandwidth_mbps
            ),
            gpus=gpus,
        )


def load_configuration(path: Path) -> EngineConfiguration:
    """Read a file. Raises ConfigurationError, which says where the fault is."""
    try:
        raw = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not YAML: {error}") from error
    section = raw.get(SECTION, raw) if isinstance(raw, dict) else raw
    return read_configuration(section, str(path))


def read_configuration(raw: Any, where: str) -> EngineConfiguration:
    """A configuration from plain data. Raises ConfigurationError."""
    try:
        read = msgspec.convert({} if raw is None else raw, EngineConfiguration, dec_hook=_read_path)
        _check_numbers(read)
        read.run_options()
    except msgspec.ValidationError as error:
        said = str(error).replace("`$.", f"`{SECTION}.").replace("`$`", f"`{SECTION}`")
        raise ConfigurationError(
            f"{where}: {said}. All fields are in docs/reference/engine.md."
        ) from error
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error.message}") from error
    return read


def _read_path(kind: type, raw: Any) -> Any:
    """YAML has no paths."""
    if kind is Path and isinstance(raw, str):
        return Path(raw)
    raise ValueError(f"Expected a path, got {raw!r}")


def _check_amounts(section: msgspec.Struct, where: str) -> None:
    """No number may be negative, and none may be none at all."""
    for name, value in msgspec.structs.asdict(section).items():
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, float | int) and not (math.isfinite(number) and number >= 0):
                raise ValueError(f"{where}.{name} must be a number of 0 or more, not {number}.")


def _check_numbers(configuration: EngineConfiguration) -> None:
    resources = configuration.resource_management
    _check_amounts(resources, "resource_management")
    _check_amounts(configuration.caching, "caching")
    for name in ("cpu_cores", "memory_mb", "memory_limit_mb"):
        if getattr(resources, name) == 0:
            raise ValueError(f"resource_management.{name} must be more than 0.")
    execution, monitoring = configuration.execution, configuration.monitoring
    for name in ("max_threads", "max_processes"):
        value = getattr(execution, name)
        if value is not None and not 1 <= value <= 1024:
            raise ValueError(f"execution.{name} must be 1 to 1024, not {value}.")
    if not 0 <= monitoring.sampling <= 1:
        raise ValueError(f"monitoring.sampling must be 0 to 1, not {monitoring.sampling}.")
    if not 0 <= monitoring.metrics_port <= 65535:
        raise ValueError(f"monitoring.metrics_port is no port: {monitoring.metrics_port}.")
    threshold = configuration.resource_management.offload_threshold
    if not 0 < threshold <= 1:
        raise ValueError(f"resource_management.offload_threshold must be 0 to 1, not {threshold}.")


def _first(chosen: float | None, found: float) -> float:
    return found if chosen is None else chosen
