"""The form of a workflow as it comes in, and of the graph that a job runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from comfyrail.errors import InvalidWorkflow
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.editor.convert import Format
from comfyrail.workflow.editor.notes import ConversionNote
from comfyrail.workflow.editor.reading import is_editor_format
from comfyrail.workflow.editor.source import read_all_sources
from comfyrail.workflow.editor.texts import Moment
from comfyrail.workflow.editor.workflow_from import workflow_from
from comfyrail.workflow.form import FormNode, form_nodes
from comfyrail.workflow.graph import Area, Workflow, parse_workflow


@dataclass(frozen=True, slots=True)
class WorkflowForm:
    """`workflow` is what to submit, in the format that it came in; `nodes` are the first of
    `nodes_total`.
    """

    workflow: Mapping[str, Any]
    format: Format
    nodes: list[FormNode]
    nodes_total: int
    notes: Sequence[ConversionNote] = ()


def form_of_source(content: bytes, catalog: NodeCatalog) -> WorkflowForm:
    """`content` is JSON, text around it, or a picture. Raises InvalidWorkflow."""
    raw, workflow, notes = _best(read_all_sources(content), catalog)
    return _form(raw, "editor" if is_editor_format(raw) else "api", workflow, catalog, notes)


def form_of_prompt(prompt: bytes, layout: Mapping[str, Area], catalog: NodeCatalog) -> WorkflowForm:
    """Of a graph that was checked when it was submitted."""
    raw = msgspec.json.decode(prompt)
    return _form(raw, "api", replace(parse_workflow(raw), layout=layout), catalog, ())


def _form(
    raw: Mapping[str, Any],
    kind: Format,
    workflow: Workflow,
    catalog: NodeCatalog,
    notes: Sequence[ConversionNote],
) -> WorkflowForm:
    nodes = form_nodes(workflow, catalog)
    return WorkflowForm(raw, kind, nodes, len(workflow.nodes), notes)


def _best(
    sources: Sequence[Any], catalog: NodeCatalog
) -> tuple[Mapping[str, Any], Workflow, Sequence[ConversionNote]]:
    """The first that can be read and loses no value by that; else the first that can be read.

    The same form every time: of a text with choices `{a|b}` it has the first.
    """
    found = None
    fault: InvalidWorkflow | None = None
    for raw in sources:
        try:
            workflow, notes = workflow_from(raw, catalog, Moment(choose=lambda _count: 0))
        except InvalidWorkflow as error:
            fault = fault or error
            continue
        if not any(note.details.get("values_left_out") for note in notes):
            return raw, workflow, notes
        found = found or (raw, workflow, notes)
    if found is None:
        raise fault or AssertionError("there is at least one source")
    return found
