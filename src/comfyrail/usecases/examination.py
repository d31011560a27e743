"""From what a caller gives to a workflow that may run, or to all that speaks against it.

Pure: what it needs to know of the fleet comes with the context. The server and the command line
take the same steps: read, set parameters, mend on request, check, simplify on request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from comfyrail.errors import InvalidWorkflow, MalformedWorkflow
from comfyrail.jobs.job import JobInput
from comfyrail.validation.context import ValidationContext
from comfyrail.validation.findings import Finding, Stage, refuse_errors
from comfyrail.validation.fixes import Fix, auto_fix
from comfyrail.validation.optimize import Optimization, apply_optimizations
from comfyrail.validation.validate import ORDER, unchecked_stages, validate
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.declared_inputs import DeclaredInput
from comfyrail.workflow.editor.notes import ConversionNote
from comfyrail.workflow.editor.workflow_from import workflow_from
from comfyrail.workflow.graph import Workflow
from comfyrail.workflow.parameters import apply_parameters

TOO_DEEP = "The workflow is nested too deeply."


@dataclass(frozen=True, slots=True)
class Source:
    """A workflow as parsed JSON in any format, and what the caller wants done with it."""

    workflow: object
    input_params: Mapping[str, Any] = field(default_factory=dict)
    declared: Sequence[DeclaredInput] | None = None
    auto_fix: bool = False
    optimize: bool = False


@dataclass(frozen=True, slots=True)
class Examination:
    """`workflow` is what would run: converted, with its parameters, mended and simplified as asked.

    It is None where it could not even be read; the findings say why.
    """

    workflow: Workflow | None
    findings: Sequence[Finding]
    fixes: Sequence[Fix] = ()
    optimizations: Sequence[Optimization] = ()
    unchecked: Sequence[Stage] = ()
    """Stages that were not run because an earlier one found errors."""
    inputs: tuple[JobInput, ...] = ()
    """Files that it needs, under the names that it has for them."""

    @property
    def is_valid(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Draft:
    """A workflow that could be read, mended and simplified as asked, and is still to be judged."""

    workflow: Workflow
    notes: Sequence[Finding] = ()
    fixes: Sequence[Fix] = ()
    optimizations: Sequence[Optimization] = ()
    inputs: tuple[JobInput, ...] = ()
    """Files that were found for it."""
    missing: Sequence[Finding] = ()
    """Files that were not."""


def examine(source: Source, context: ValidationContext) -> Examination:
    """All findings; never raises for what the caller gave."""
    draft = draft_of(source, context)
    return draft if isinstance(draft, Examination) else judge(draft, context)


def draft_of(source: Source, context: ValidationContext) -> Draft | Examination:
    """The first half: what there is to judge, or why there is nothing."""
    try:
        workflow, notes = _read(source, context.catalog)
    except InvalidWorkflow as error:
        return unreadable(error)
    except RecursionError:
        return unreadable(MalformedWorkflow(TOO_DEEP))
    fixes: Sequence[Fix] = ()
    optimizations: Sequence[Optimization] = ()
    if source.auto_fix:
        workflow, fixes = auto_fix(workflow, context)
    if source.optimize:
        workflow, optimizations = apply_optimizations(workflow, context.catalog)
    return Draft(workflow, notes, fixes, optimizations)


def judge(draft: Draft, context: ValidationContext) -> Examination:
    """The second half. What is missing in a place goes before all that is wrong there."""
    found = validate(draft.workflow, context)
    if draft.missing:
        places = {each.path for each in draft.missing if each.severity == "error"}
        found = [*draft.missing, *(each for each in found if each.path not in places)]
    return Examination(
        draft.workflow,
        _without_repeats(draft.notes, found),
        draft.fixes,
        draft.optimizations,
        _unchecked(draft, found, context),
        draft.inputs,
    )


def _unchecked(
    draft: Draft, found: Sequence[Finding], context: ValidationContext
) -> tuple[Stage, ...]:
    """Files that are missing keep no stage from being run."""
    seen = [each for each in found if each not in draft.missing] if draft.missing else found
    return unchecked_stages([*draft.notes, *seen], context.stages)


def _read(source: Source, catalog: NodeCatalog) -> tuple[Workflow, Sequence[Finding]]:
    workflow, notes = workflow_from(source.workflow, catalog)
    workflow = apply_parameters(workflow, source.input_params, catalog, source.declared)
    return workflow.expanded(), [_finding(note) for note in notes]


def _without_repeats(notes: Sequence[Finding], found: Sequence[Finding]) -> list[Finding]:
    """What a stage says of a node as an error need not be said of its conversion too."""
    errors = {(each.error_code, each.node_id) for each in found if each.severity == "error"}
    return [*(note for note in notes if (note.error_code, note.node_id) not in errors), *found]


def _finding(note: ConversionNote) -> Finding:
    path = note.node_id or ""
    return Finding("syntax", "warning", note.code, note.message, note.node_id, path, note.details)


def unreadable(error: InvalidWorkflow) -> Examination:
    """Of what could not even be read: no stage could look at it."""
    return Examination(None, findings_of(error), unchecked=ORDER[1:])


def refuse_unrunnable(examination: Examination) -> Workflow:
    """The workflow; raises InvalidWorkflow with all findings when one of them is an error."""
    refuse_errors(examination.findings)
    if examination.workflow is None:
        raise AssertionError("a workflow without errors could be read")
    return examination.workflow


def refuse_unplannable(examination: Examination) -> Workflow:
    """The same, but that no worker has the resources or the models is no reason not to plan."""
    workflow = examination.workflow
    if workflow is None or any(
        each.severity == "error"
        and each.stage != "resources"
        and each.error_code != "MODEL_NOT_FOUND"
        for each in examination.findings
    ):
        return refuse_unrunnable(examination)
    return workflow


def findings_of(error: InvalidWorkflow) -> list[Finding]:
    """The findings that an error carries; one of its own message where it carries none."""
    carried = error.details.get("findings")
    if carried:
        return [Finding(**finding) for finding in carried]
    details = {key: value for key, value in error.details.items() if key != "path"}
    path = error.details.get("path")
    return [Finding("syntax", "error", error.code, error.message, None, path, details)]
