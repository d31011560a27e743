"""The stages in order."""

from collections.abc import Collection, Sequence

from comfyrail.validation.context import ValidationContext
from comfyrail.validation.findings import Finding, Stage
from comfyrail.validation.hints import find_hints
from comfyrail.validation.limits import EXAMINED_NODES, check_node_count
from comfyrail.validation.node_checks import examine
from comfyrail.validation.resources import check_resources
from comfyrail.validation.security import check_security, find_denied_unknown
from comfyrail.validation.semantic import check_semantics
from comfyrail.validation.syntax import check_syntax
from comfyrail.workflow.graph import Workflow

ORDER: tuple[Stage, ...] = ("syntax", "semantic", "security", "resources", "optimization")


def validate(workflow: Workflow, context: ValidationContext) -> list[Finding]:
    """All findings of each stage; a later stage runs when the earlier ones have no errors.

    Only one thing is an exception: a node type that is not known does not hide what is wrong with
    the nodes together; where such a type is denied by name, that is said too. With an empty catalog
    (no worker has ever been seen) only what needs none is checked. A workflow that is far too long
    is refused without a closer look.
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
    if "security" in stages:
        if not _has_errors(findings):
            findings.extend(check_security(workflow, examined, context))
        else:
            findings.extend(find_denied_unknown(examined, context.policy))
    if not _has_errors(findings) and "resources" in stages:
        findings.extend(check_resources(workflow, examined, context))
    if not _has_errors(findings) and "optimization" in stages:
        findings.extend(find_hints(workflow, examined, context))
    return findings


def unchecked_stages(findings: Sequence[Finding], wanted: Collection[Stage]) -> tuple[Stage, ...]:
    """The stages after the first that found errors: they were not run, and may find more."""
    for number, stage in enumerate(ORDER):
        own = [each for each in findings if each.stage == stage]
        besides = "UNKNOWN_NODE_TYPE" if stage == "syntax" else None
        if _has_errors(own, besides):
            return tuple(each for each in ORDER[number + 1 :] if each in wanted)
    if _has_errors(findings):  # only node types that are not known: the stage after it was run
        return tuple(each for each in ORDER[2:] if each in wanted)
    return ()


def _has_errors(findings: Sequence[Finding], besides: str | None = None) -> bool:
    return any(each.severity == "error" and each.error_code != besides for each in findings)
