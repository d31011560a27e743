"""How an execution is carried out: by the engine's configuration, or as one request asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from reprlib import repr as shortened
from typing import Any, Literal, get_args

from comfyrail.engine.plan import Order
from comfyrail.engine.policies import FAIL, ErrorPolicy, read_policy
from comfyrail.errors import ConfigurationError

Strategy = Literal["sequential", "parallel", "lazy", "distributed"]

LONGEST_CHECKPOINT_NAME = 200


@dataclass(frozen=True, slots=True)
class OptimizerOptions:
    """What may be done to make a graph cheaper to run. The outputs are the same either way."""

    dead_nodes: bool = True
    """Leave out what no wanted output needs."""
    common_subexpressions: bool = True
    """Run nodes that must give the same once."""
    fuse: bool = True
    """Run a chain of cheap nodes as one task, where tasks go to threads or machines."""
    branches: bool = True
    """Run branches side by side, where the strategy has threads or machines for it."""
    batch: bool = True
    """Join calls of one node type that differ in their images only."""
    memory_order: bool = False
    """Finish a branch before the next is begun, so that fewer values are held at once."""

    @property
    def order(self) -> Order:
        return "memory" if self.memory_order else "arrival"


@dataclass(frozen=True, slots=True)
class RunOptions:
    strategy: Strategy = "sequential"
    optimizer: OptimizerOptions = OptimizerOptions()
    checkpoint: str | None = None
    """The name under which results are written down while it runs, to resume from."""
    policies: Mapping[str, ErrorPolicy] = field(default_factory=dict)
    """By node id or node type."""
    default_policy: ErrorPolicy = FAIL


def read_run_options(raw: Any, defaults: RunOptions, where: str = "comfyrail") -> RunOptions:
    """What a request asks for, on top of the defaults. Raises ConfigurationError."""
    if raw is None:
        return defaults
    if not isinstance(raw, Mapping):
        raise ConfigurationError(f"{where} must be an object, not {shortened(raw)}.")
    known = {"strategy", "optimizer", "checkpoint", "on_error", "default_on_error"}
    unknown = {str(key) for key in raw} - known
    if unknown:
        raise ConfigurationError(
            f"{where} has the unknown field {shortened(min(unknown))}. "
            f"It may have {', '.join(sorted(known))}."
        )
    options = defaults
    if "strategy" in raw:
        options = replace(options, strategy=_read_strategy(raw["strategy"], f"{where}.strategy"))
    if "optimizer" in raw:
        read = read_switches(raw["optimizer"], options.optimizer, f"{where}.optimizer")
        options = replace(options, optimizer=read)
    if raw.get("checkpoint") is not None:
        options = replace(options, checkpoint=_read_name(raw["checkpoint"], f"{where}.checkpoint"))
    if "on_error" in raw:
        policies = _read_policies(raw["on_error"], f"{where}.on_error")
        options = replace(options, policies={**options.policies, **policies})
    if "default_on_error" in raw:
        policy = read_policy(raw["default_on_error"], f"{where}.default_on_error")
        options = replace(options, default_policy=policy)
    return options


def read_switches(raw: Any, defaults: OptimizerOptions, where: str) -> OptimizerOptions:
    """Optimizations by name, each on or off; or one word for all. Raises ConfigurationError."""
    names = [item.name for item in fields(OptimizerOptions)]
    if isinstance(raw, bool):
        return OptimizerOptions(**dict.fromkeys(names, raw))
    if not isinstance(raw, Mapping):
        raise ConfigurationError(f"{where} must be true, false or an object, not {shortened(raw)}.")
    for name, value in raw.items():
        if name not in names:
            raise ConfigurationError(f"{where}: {shortened(name)} is none of {', '.join(names)}.")
        if not isinstance(value, bool):
            raise ConfigurationError(
                f"{where}.{name} must be true or false, not {shortened(value)}."
            )
    return replace(defaults, **dict(raw))


def _read_strategy(raw: Any, where: str) -> Strategy:
    if raw not in get_args(Strategy):
        known = ", ".join(get_args(Strategy))
        raise ConfigurationError(f"{where}: {shortened(raw)} is none of {known}.")
    strategy: Strategy = raw
    return strategy


def _read_name(raw: Any, where: str) -> str:
    if not isinstance(raw, str) or not 1 <= len(raw) <= LONGEST_CHECKPOINT_NAME:
        raise ConfigurationError(
            f"{where} must be a text of 1 to {LONGEST_CHECKPOINT_NAME} characters."
        )
    return raw


def _read_policies(raw: Any, where: str) -> dict[str, ErrorPolicy]:
    if not isinstance(raw, Mapping):
        raise ConfigurationError(f"{where} must map node ids or node types to policies.")
    return {str(name): read_policy(policy, f"{where}.{name}") for name, policy in raw.items()}
