"""The file that describes pools and workers (COMFYRAIL_FLEET).

pools:
  gpu:
    driver: docker
    minimum: 0
    maximum: 4
    labels: {region: eu}
    config: {image: my/comfyui, gpus: all}
workers:
  studio:
    driver: ssh
    config: {host: studio.example.com, user: render}
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from comfyrail.errors import ConfigurationError, WorkerRefused
from comfyrail.fleet.drivers.registry import driver_named
from comfyrail.fleet.traits import labels_fault
from comfyrail.jobs.workers import PoolLimits

WORKER_NAME = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"
RESERVED_POOL = "local"

Name = Annotated[str, Field(pattern=WORKER_NAME)]
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid")

    driver: str
    config: dict[str, Any] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)

    @field_validator("labels")
    @classmethod
    def _check_labels(cls, labels: dict[str, str]) -> dict[str, str]:
        fault = labels_fault(labels)
        if fault is not None:
            raise ValueError(fault.rstrip("."))
        return labels


class _WorkerSection(_Section):
    pass


class _PoolSection(_Section):
    minimum: int = Field(0, ge=0, le=10_000)
    maximum: int = Field(1, ge=0, le=10_000)
    warm: int = Field(0, ge=0, le=10_000)
    idle_timeout: Seconds = 300.0
    start_seconds: Seconds = 60.0
    cost_cap: float | None = Field(None, ge=0, allow_inf_nan=False)
    warm_up: Path | None = None

    @model_validator(mode="after")
    def _check_order(self) -> "_PoolSection":
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is more than maximum {self.maximum}")
        if self.warm > self.maximum:
            raise ValueError(f"warm {self.warm} is more than maximum {self.maximum}")
        return self


class _FleetFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    pools: dict[Name, _PoolSection] = Field(default_factory=dict)
    workers: dict[Name, _WorkerSection] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """A pool as someone wrote it down, with the driver's settings checked."""

    name: str
    driver: str
    config: Mapping[str, Any]
    limits: PoolLimits
    labels: Mapping[str, str] = field(default_factory=dict)
    warm_up: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    name: str
    driver: str
    config: Mapping[str, Any]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FleetPlan:
    pools: tuple[PoolPlan, ...] = ()
    workers: tuple[WorkerPlan, ...] = ()


def read_fleet_file(path: Path | None) -> FleetPlan:
    """Raises ConfigurationError naming what is wrong in the file."""
    if path is None:
        return FleetPlan()
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _StrictLoader)  # noqa: S506 - a safe one
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigurationError(f"The fleet file {path} cannot be read: {error}") from error
    if content is None:
        raise ConfigurationError(
            f"The fleet file {path} is empty. To have nothing in it, and to end what it had, "
            "write: pools: {}"
        )
    try:
        given = _FleetFile.model_validate(content)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in each['loc']) or 'the file'}: "
            f"{each['msg'].removeprefix('Value error, ')}"
            for each in error.errors()
        )
        raise ConfigurationError(f"The fleet file {path} is not right: {faults}.") from error
    _refuse_names_of_pools(path, given)
    return FleetPlan(
        tuple(_pool(path, name, section) for name, section in given.pools.items()),
        tuple(
            WorkerPlan(name, section.driver, _checked(path, name, section), section.labels)
            for name, section in given.workers.items()
        ),
    )


class _StrictLoader(yaml.SafeLoader):
    """Of two entries of one name the second would count, without a word."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                raise yaml.composer.ComposerError(
                    None, None, f"'{key.value}' is there twice", key.start_mark
                )
            seen.add((key.tag, str(key.value)))
        return node


def _refuse_names_of_pools(path: Path, given: _FleetFile) -> None:
    pools = {RESERVED_POOL, *given.pools}
    for name in given.workers:
        pool, _, number = name.rpartition("-")
        if pool in pools and number.isdecimal():
            raise ConfigurationError(
                f"The fleet file {path}: the worker '{name}' has a name that the pool '{pool}' "
                "gives to its own workers. Give it another name."
            )


def _pool(path: Path, name: str, section: _PoolSection) -> PoolPlan:
    if name == RESERVED_POOL:
        raise ConfigurationError(
            f"The fleet file {path}: the pool '{RESERVED_POOL}' is made by --workers. "
            "Give it another name, and start the server with --workers 0 to have only the file's."
        )
    if section.driver in {"static", "agent"}:
        raise ConfigurationError(
            f"The fleet file {path}, pool {name}: the driver {section.driver} cannot make workers "
            "by itself. Write such a worker under 'workers'."
        )
    limits = PoolLimits(
        section.minimum,
        section.maximum,
        section.warm,
        section.idle_timeout,
        section.start_seconds,
        section.cost_cap,
    )
    config = _checked(path, name, section)
    warm_up = None if section.warm_up is None else _read_warm_up(path, name, section.warm_up)
    return PoolPlan(name, section.driver, config, limits, section.labels, warm_up)


def _checked(path: Path, name: str, section: _Section) -> Mapping[str, Any]:
    try:
        return driver_named(section.driver).check(section.config)
    except WorkerRefused as error:
        raise ConfigurationError(f"The fleet file {path}, {name}: {error.message}") from error


def _read_warm_up(path: Path, name: str, warm_up: Path) -> Mapping[str, Any]:
    """A workflow in API format; relative to the fleet file."""
    where = path.parent / warm_up
    try:
        prompt = json.loads(where.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"The fleet file {path}, {name}: the warm-up workflow {where} cannot be read: {error}"
        ) from error
    if not isinstance(prompt, dict) or not all(
        isinstance(node, dict) and "class_type" in node for node in prompt.values()
    ):
        raise ConfigurationError(
            f"The fleet file {path}, {name}: the warm-up workflow {where} is not in API format. "
            "Convert it with: comfyrail convert"
        )
    return prompt
