"""The stages in order."""

from comfyrail.validation.context import ValidationContext
from comfyrail.validation.findings import Finding
from comfyrail.validation.hints import find_hints
from comfyrail.validation.limits import EXAMINED_NODES, check_node_count
from comfyrail.validation.node_checks import examine
from comfyrail.validation.resources import check_resources
from comfyrail.validation.security import check_security
from comfyrail.validation.semantic import check_semantics
from comfyrail.validation.syntax import check_syntax
from comfyrail.workflow.graph import Workflow


def validate(workflow: Workflow, context: ValidationContext) -> list[Finding]:
    """All findings of each stage; a later stage runs when the earlier ones have no errors.

    Only one thing is an exception: a node type that is not known does not hide what is wrong with
    the nodes together. With an empty catalog (no worker has ever been seen) only what needs none
    is checked. A workflow that is far too long is refused without a closer look.
    """
    workflow = workflow.expanded()
    stages = context.stages
    if "security" in stages and len(workflow.nodes) > EXAMINED_NODES:
        too_long = check_node_count(len(workflow.nodes), context.policy.limits)
        if too_long:
            return too_long
    examined = examine(workflow, context.catalog)
    findings = check_syntax(examined, context.catalog) if "syntax" in stages else []
    if not _has_errors(findings, besides="UNKNOWN_NODE_TYPE") and "semantic" in stages:
        findings.extend(check_semantics(workflow, examined, context))
    if not _has_errors(findings) and "security" in stages:
        findings.extend(check_security(workflow, examined, context))
    if not _has_errors(findings) and "resources" in stages:
        findings.extend(check_resources(workflow, examined, context))
    if not _has_errors(findings) and "optimization" in stages:
        findings.extend(find_hints(workflow, examined, context))
    return findings


def _has_errors(findings: list[Finding], besides: str | None = None) -> bool:
    return any(each.severity == "error" and each.error_code != besides for each in findings)
