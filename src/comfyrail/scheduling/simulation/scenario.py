"""What is simulated, read from a file that is checked strictly."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml

from comfyrail.errors import ConfigurationError
from comfyrail.jobs.priority import QueueClass
from comfyrail.workflow.nearest import did_you_mean, nearest_names, printable

LARGEST_FILE = 1 << 20
SCENARIOS = files("comfyrail.scheduling.simulation") / "scenarios"

Count = Annotated[int, msgspec.Meta(ge=1, le=2_000_000)]
Workers = Annotated[int, msgspec.Meta(ge=1, le=20_000)]
Models = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
Gigabytes = Annotated[float, msgspec.Meta(gt=0, le=10_000)]
Part = Annotated[float, msgspec.Meta(ge=0, le=1)]
Weight = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
Sigma = Annotated[float, msgspec.Meta(ge=0, le=3)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Seed = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class Pattern(StrEnum):
    POISSON = "poisson"
    BURSTS = "bursts"
    AT_ONCE = "at_once"


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Arrivals(_Strict, frozen=True):
    """`load`: of the fleet's capacity while nothing has to be loaded."""

    pattern: Pattern = Pattern.POISSON
    load: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 0.8
    burst_every: Seconds = 300.0
    burst_share: Part = 0.5
    """Of all jobs, those that come in bursts; the others come evenly."""


class RunTimes(_Strict, frozen=True):
    """Log-normal: `mean` is that of the times, `sigma` of their logarithm."""

    mean: Seconds = 12.0
    sigma: Sigma = 0.6
    estimate_sigma: Sigma = 0.3
    """How far off the scheduler's estimates are: log-normal around the true time."""


class ModelSet(_Strict, frozen=True):
    count: Models = 1
    size_gb: tuple[Gigabytes, Gigabytes] = (6.0, 12.0)
    """Uniform between these."""
    zipf: Annotated[float, msgspec.Meta(ge=0, le=5)] = 1.0
    """The n-th model is wanted 1 / n ** zipf as often as the first."""
    load_seconds_per_gb: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 0.8


class WorkerSet(_Strict, frozen=True):
    count: Workers
    memory_gb: Gigabytes = 24.0


class Tenant(_Strict, frozen=True):
    """`share`: of the jobs, by weight."""

    name: Name
    share: Weight = 1.0


class Scenario(_Strict, frozen=True):
    jobs: Count
    workers: Annotated[tuple[WorkerSet, ...], msgspec.Meta(min_length=1, max_length=100)]
    about: str = ""
    seeds: Annotated[tuple[Seed, ...], msgspec.Meta(min_length=1, max_length=1000)] = (0,)
    arrivals: Arrivals = Arrivals()
    run_seconds: RunTimes = RunTimes()
    models: ModelSet = ModelSet()
    classes: dict[QueueClass, Part] = msgspec.field(
        default_factory=lambda: {QueueClass.MEDIUM: 1.0}
    )
    tenants: Annotated[tuple[Tenant, ...], msgspec.Meta(min_length=1, max_length=1000)] = (
        Tenant("one"),
    )
    round_seconds: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0
    """At least so long between two rounds; 0: a round at every change."""
    jobs_per_lane: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 16
    """As many of each lane as a round looks at."""
    policies: tuple[str, ...] = ()
    """Which to run when none is asked for; empty: all."""
    stop_after: Seconds | None = None
    """Virtual seconds after which nothing more is begun: for a look at the start of a long run."""

    @property
    def worker_count(self) -> int:
        return sum(each.count for each in self.workers)


def known_scenarios() -> list[str]:
    return sorted(
        each.name.removesuffix(".yaml")
        for each in SCENARIOS.iterdir()
        if each.name.endswith(".yaml")
    )


def read_scenario(name: str) -> Scenario:
    """A scenario by its name, or from a file. Raises ConfigurationError that says what is wrong."""
    if name in known_scenarios():
        return parse_scenario((SCENARIOS / f"{name}.yaml").read_bytes(), name)
    path = Path(name)
    try:
        if not path.is_file():
            near = did_you_mean(nearest_names(name, known_scenarios()))
            raise ConfigurationError(
                f"There is no scenario {printable(name)!r} and no such file.{near} "
                f"Scenarios: {', '.join(known_scenarios())}."
            )
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"The scenario {printable(name)} cannot be read: {error}"
        ) from error
    return parse_scenario(content, name)


def parse_scenario(content: bytes, name: str) -> Scenario:
    where = f"The scenario {printable(name)}"
    if len(content) > LARGEST_FILE:
        raise ConfigurationError(f"{where} is larger than {LARGEST_FILE >> 20} MiB.")
    try:
        raw = yaml.safe_load(content)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{where} cannot be read as YAML: {error}") from error
    for fault in _unknown_keys(raw, Scenario, ""):
        raise ConfigurationError(f"{where} has {fault}")
    try:
        scenario = msgspec.convert(raw, Scenario)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ConfigurationError(f"{where}: {error}.") from error
    _check_whole(scenario, where)
    return scenario


PARTS: Mapping[str, type[msgspec.Struct]] = {
    "arrivals": Arrivals,
    "run_seconds": RunTimes,
    "models": ModelSet,
}
LISTS: Mapping[str, type[msgspec.Struct]] = {"workers": WorkerSet, "tenants": Tenant}


def _unknown_keys(raw: Any, kind: type[msgspec.Struct], where: str) -> Iterator[str]:
    if not isinstance(raw, dict):
        return
    known = kind.__struct_fields__
    for key, value in raw.items():
        if not isinstance(key, str) or key not in known:
            near = did_you_mean(nearest_names(str(key), known))
            name = printable(str(key))
            yield f"an unknown key {name!r}{where}.{near} Known are {', '.join(known)}."
        elif kind is Scenario and key in PARTS:
            yield from _unknown_keys(value, PARTS[key], f" in {key}")
        elif kind is Scenario and key in LISTS and isinstance(value, list):
            for number, each in enumerate(value, 1):
                yield from _unknown_keys(each, LISTS[key], f" in {key}, number {number}")


def _check_whole(scenario: Scenario, where: str) -> None:
    if abs(sum(scenario.classes.values()) - 1) > 1e-6:
        raise ConfigurationError(f"{where}: the parts of classes do not add up to 1.")
    low, high = scenario.models.size_gb
    if low > high:
        raise ConfigurationError(f"{where}: models.size_gb is to be [smallest, largest].")
    if high > max(each.memory_gb for each in scenario.workers):
        raise ConfigurationError(
            f"{where}: a model of {high:g} GB fits on no worker. Give one more memory_gb."
        )
    names = [tenant.name for tenant in scenario.tenants]
    if len(set(names)) != len(names):
        raise ConfigurationError(f"{where}: two tenants have the same name.")
    if scenario.worker_count > 20_000:
        raise ConfigurationError(f"{where}: more than 20,000 workers.")
