"""What a run comes to: one row of the table."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from comfyrail.faultlab.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault that was done: what it was, from when to when."""

    kind: str
    what: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of fault. Where it could not be done here, `obstacle` says why and all else is 0."""

    kind: str
    seed: int = 0
    obstacle: str | None = None
    faults: int = 0
    jobs: int = 0
    completed: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    cancelled: int = 0
    lost: int = 0
    doubled: int = 0
    gaps: int = 0
    missing: int = 0
    orphans: int = 0
    swept: int = 0
    """Files without an owner that the server has removed by itself."""
    unexplained: int = 0
    recovery_p50: float | None = None
    recovery_p99: float | None = None
    seconds: float = 0.0
    per_second: float = 0.0
    wrongs: Sequence[str] = ()
    notes: Sequence[str] = ()
    troubles: Mapping[str, int] = field(default_factory=dict)
    strikes: Sequence[Strike] = ()

    @property
    def is_right(self) -> bool:
        return not self.wrongs


def recovery_seconds(strikes: Sequence[Strike], ledger: Ledger) -> list[float]:
    """For each fault, how long after its end the next job ended that was there before.

    Faults at whose end no job was open say nothing, nor do those after which the next fault was at
    work before a job could end.
    """
    found = []
    for strike in strikes:
        end = _next_end(strike, ledger)
        others = (other for other in strikes if other is not strike)
        if end is not None and not any(
            other.began < end and other.ended > strike.ended for other in others
        ):
            found.append(end - strike.ended)
    return found


def _next_end(strike: Strike, ledger: Ledger) -> float | None:
    ends = (
        entry.ended_at
        for entry in ledger.entries.values()
        if entry.acknowledged_at <= strike.ended
        and entry.ended_at is not None
        and entry.ended_at > strike.ended
    )
    return min(ends, default=None)


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that so many are not above; None of nothing."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def write_json(path: Path, rows: Sequence[object]) -> None:
    """Everything that was found, for programs; `rows` are dataclasses."""
    content = [asdict(row) for row in rows]  # type: ignore[call-overload]
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
