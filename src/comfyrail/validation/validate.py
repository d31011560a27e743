"""The stages in order."""

from comfyrail.validation.findings import Finding
from comfyrail.validation.semantic import check_semantics
from comfyrail.validation.syntax import check_syntax
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import Workflow


def validate(workflow: Workflow, catalog: NodeCatalog) -> list[Finding]:
    """All findings of each stage; a later stage runs when the earlier ones have no errors.

    With an empty catalog (no worker has ever been seen) only what needs none is checked.
    """
    workflow = workflow.expanded()
    findings = list(check_syntax(workflow, catalog)) if catalog else []
    if not any(finding.severity == "error" for finding in findings):
        findings.extend(check_semantics(workflow, catalog))
    return findings
