"""What happens when a node fails: fail, retry, fall back, skip, or halt [12.7]."""

from collections.abc import Mapping
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Any, Literal, get_args

from comfyrail.errors import ConfigurationError

PolicyKind = Literal["fail", "retry", "fallback", "skip", "halt"]

MOST_ATTEMPTS = 100
LONGEST_PAUSE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """How to go on after a node has failed.

    - `fail`: the execution ends.
    - `retry`: run it again, `attempts` times in all, after `pause` seconds that grow by `factor`
      up to `longest_pause`; then `then` says what happens.
    - `fallback`: its outputs become `value` (one for each output, or one for all), or what the
      node type `node_type` makes of the same inputs.
    - `skip`: what depends on it does not run; the rest does.
    - `halt`: the execution ends, and what is done is written to a checkpoint to resume from.
    """

    kind: PolicyKind = "fail"
    attempts: int = 3
    pause: float = 0.1
    factor: float = 2.0
    longest_pause: float = 30.0
    value: Any = None
    node_type: str | None = None
    then: "ErrorPolicy | None" = None

    def pause_before(self, attempt: int) -> float:
        """Seconds to wait before attempt 2, 3 …"""
        grown: float = self.pause * self.factor ** min(attempt - 2, 64)
        return min(grown, self.longest_pause)


FAIL = ErrorPolicy("fail")


def read_policy(raw: Any, where: str) -> ErrorPolicy:
    """A policy from a word or a mapping. Raises ConfigurationError, which names `where`."""
    if isinstance(raw, str):
        raw = {"policy": raw}
    if not isinstance(raw, Mapping):
        raise ConfigurationError(
            f"{where} must be a policy's name or a mapping, not {shortened(raw)}."
        )
    fields = {str(key): value for key, value in raw.items()}
    kind = fields.pop("policy", None)
    if kind is None:
        raise ConfigurationError(f"{where} lacks the field 'policy', such as 'retry'.")
    if kind == "fallback" and not fields.keys() & {"value", "node_type"}:
        raise ConfigurationError(f"{where} lacks 'value' or 'node_type': what to fall back to.")
    if kind not in get_args(PolicyKind):
        known = ", ".join(get_args(PolicyKind))
        raise ConfigurationError(
            f"{where}: there is no policy {shortened(kind)}. There are {known}."
        )
    if "then" in fields:
        fields["then"] = read_policy(fields["then"], f"{where}.then")
    if isinstance(fields.get("then"), ErrorPolicy) and fields["then"].kind == "retry":
        raise ConfigurationError(f"{where}.then cannot be to retry once more: raise the attempts.")
    unknown = set(fields) - (set(ErrorPolicy.__slots__) - {"kind"})
    if unknown:
        raise ConfigurationError(f"{where} has the unknown field {shortened(min(unknown))}.")
    _check_numbers(fields, where)
    return ErrorPolicy(kind, **fields)


def _check_numbers(fields: Mapping[str, Any], where: str) -> None:
    attempts = fields.get("attempts", 1)
    if not isinstance(attempts, int) or not 1 <= attempts <= MOST_ATTEMPTS:
        raise ConfigurationError(f"{where}.attempts must be 1 to {MOST_ATTEMPTS}.")
    for name in ("pause", "factor", "longest_pause"):
        value = fields.get(name, 1)
        if not isinstance(value, int | float) or not 0 <= value <= LONGEST_PAUSE_SECONDS:
            raise ConfigurationError(f"{where}.{name} must be 0 to {LONGEST_PAUSE_SECONDS:g}.")
    if not isinstance(fields.get("node_type"), str | None):
        raise ConfigurationError(f"{where}.node_type must be a node type's name.")
