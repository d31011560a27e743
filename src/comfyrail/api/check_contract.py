"""The bodies of the routes that look at a workflow without running it.

Light on imports: the command line writes the same bodies without a server.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from comfyrail.usecases.examination import Examination
from comfyrail.validation.findings import Finding, most_important
from comfyrail.validation.fixes import Fix
from comfyrail.validation.fleet_fit import WorkerFit
from comfyrail.validation.limits import EXAMINED_NODES
from comfyrail.validation.optimize import Optimization
from comfyrail.workflow.editor.notes import ConversionNote

WORKERS_SHOWN = 200

WorkflowText = Annotated[
    msgspec.Raw,
    msgspec.Meta(
        description="ComfyUI's API format, bare or as {'nodes': …}, or the editor's own format.",
        extra_json_schema={"type": ["object", "null"]},
    ),
]

JudgedText = Annotated[
    msgspec.Raw,
    msgspec.Meta(description="A workflow, or what is to be one: the findings say what is wrong."),
]


ParameterText = Annotated[
    msgspec.Raw,
    msgspec.Meta(
        description="An object: values by declared name or by 'node.input'.",
        extra_json_schema={"type": ["object", "null"]},
    ),
]


def given_text(part: msgspec.Raw) -> bytes | None:
    """The text of a part of a request; None where there is none."""
    text = bytes(part)
    return None if text in {b"", b"null"} else text


class CheckRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A workflow, or the `workflow_id` of one in the library, and what to do before it is checked.

    `auto_fix` mends common faults, `optimize` removes dead and merges equal nodes; the reply has
    the workflow that comes of it.
    """

    workflow: JudgedText = msgspec.field(default_factory=msgspec.Raw)
    workflow_id: str | None = None
    input_params: ParameterText = msgspec.field(default_factory=msgspec.Raw)
    auto_fix: bool = False
    optimize: bool = False


class FixBody(msgspec.Struct, kw_only=True):
    """A change of one input; `code` is that of the finding that it mends."""

    node_id: str
    path: str
    code: str
    before: Any
    after: Any
    message: str


class WorkerFitBody(msgspec.Struct, kw_only=True):
    """Whether a worker could run the workflow, and what it lacks."""

    worker_id: str
    online: bool
    can_run: bool
    missing_node_types: list[str]
    missing_models: list[str]
    missing_choices: list[dict[str, Any]]
    memory: dict[str, int]


class ValidationReport(msgspec.Struct, kw_only=True):
    """`workflow` is what would run, in API format; null where it cannot be read or is endless."""

    valid: bool
    errors: int
    warnings: int
    hints: int
    findings: list[Finding]
    unchecked: list[str]
    """Stages that were not run because an earlier one found errors."""
    fixes: list[FixBody]
    optimizations: list[Optimization]
    workers: list[WorkerFitBody]
    workflow: dict[str, Any] | None
    nodes: int


class ConversionNoteBody(msgspec.Struct, kw_only=True):
    """What a conversion could not do, or did with a guess."""

    code: str
    message: str
    node_id: str | None
    details: dict[str, Any]


class ConvertedBody(msgspec.Struct, kw_only=True):
    workflow: dict[str, Any]
    notes: list[ConversionNoteBody]


def note_bodies(notes: Sequence[ConversionNote]) -> list[ConversionNoteBody]:
    return [
        ConversionNoteBody(
            code=note.code, message=note.message, node_id=note.node_id, details=dict(note.details)
        )
        for note in notes
    ]


def validation_report(examination: Examination, fits: Sequence[WorkerFit]) -> ValidationReport:
    counts = dict.fromkeys(("error", "warning", "hint"), 0)
    for finding in examination.findings:
        counts[finding.severity] += 1
    workflow = examination.workflow
    is_endless = workflow is not None and len(workflow.nodes) > EXAMINED_NODES
    return ValidationReport(
        valid=examination.is_valid,
        errors=counts["error"],
        warnings=counts["warning"],
        hints=counts["hint"],
        findings=most_important(examination.findings),
        unchecked=list(examination.unchecked),
        fixes=fix_bodies(examination.fixes),
        optimizations=list(examination.optimizations),
        workers=[fit_body(fit) for fit in fits[:WORKERS_SHOWN]],
        workflow=None if is_endless or workflow is None else workflow.to_prompt(),
        nodes=0 if workflow is None else len(workflow.nodes),
    )


def fix_bodies(fixes: Sequence[Fix]) -> list[FixBody]:
    return [FixBody(**fix.as_dict()) for fix in fixes]


def fit_body(fit: WorkerFit) -> WorkerFitBody:
    lacks: Mapping[str, Any] = fit.as_dict()
    return WorkerFitBody(
        worker_id=fit.worker_id, online=fit.is_online, can_run=fit.can_run, **lacks
    )
