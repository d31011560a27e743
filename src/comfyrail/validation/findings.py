"""What validation says."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from comfyrail.errors import InvalidWorkflow

FINDING_LIMIT = 500
"""A reply carries so many findings at most; `details.errors` has the count of all errors."""

Stage = Literal["syntax", "semantic", "security", "resources", "optimization"]
Severity = Literal["error", "warning", "hint"]


@dataclass(frozen=True, slots=True)
class Finding:
    stage: Stage
    severity: Severity
    error_code: str
    message: str
    node_id: str | None = None
    path: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def refuse_errors(findings: Sequence[Finding]) -> None:
    """Raise InvalidWorkflow with all findings when one of them is an error."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    more = f" And {len(errors) - 1} more: see the findings." if len(errors) > 1 else ""
    raise InvalidWorkflow(
        f"{errors[0].message}{more}",
        code=errors[0].error_code,
        findings=[finding.as_dict() for finding in findings[:FINDING_LIMIT]],
        details={"errors": len(errors)},
    )
