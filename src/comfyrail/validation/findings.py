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


def most_important(findings: Sequence[Finding]) -> list[Finding]:
    """As many as a reply carries: all errors go before all warnings, and those before hints."""
    if len(findings) <= FINDING_LIMIT:
        return list(findings)
    ranks = {"error": 0, "warning": 1, "hint": 2}
    return sorted(findings, key=lambda finding: ranks[finding.severity])[:FINDING_LIMIT]


def refuse_errors(findings: Sequence[Finding]) -> None:
    """Raise InvalidWorkflow with all findings when one of them is an error."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    findings = most_important(findings)
    more = f" And {len(errors) - 1} more: see the findings." if len(errors) > 1 else ""
    raise InvalidWorkflow(
        f"{errors[0].message}{more}",
        code=errors[0].error_code,
        findings=[finding.as_dict() for finding in findings],
        details={"errors": len(errors)},
    )
