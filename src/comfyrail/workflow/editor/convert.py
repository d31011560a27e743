"""From one of ComfyUI's formats to the other, as JSON."""

from typing import Any, Literal

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.editor.notes import ConversionNote
from comfyrail.workflow.editor.reading import is_editor_format
from comfyrail.workflow.editor.to_editor import workflow_to_editor
from comfyrail.workflow.editor.workflow_from import workflow_from

Format = Literal["api", "editor"]


def convert_json(
    raw: object, to: Format, catalog: NodeCatalog
) -> tuple[dict[str, Any], tuple[ConversionNote, ...]]:
    """What is in the wanted format already stays as it is, with all that stands beside the nodes.

    Raises MalformedWorkflow for what is no workflow.
    """
    workflow, notes = workflow_from(raw, catalog)
    if not isinstance(raw, dict):
        raise MalformedWorkflow("A workflow is a JSON object.", details={"path": ""})
    if is_editor_format(raw) == (to == "editor"):
        return raw, ()
    if to == "editor":
        return workflow_to_editor(workflow, catalog), notes
    return workflow.to_prompt(), notes
