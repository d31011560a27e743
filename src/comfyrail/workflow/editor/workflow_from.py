"""A workflow of any format that Comfyrail reads."""

from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.editor.notes import ConversionNote
from comfyrail.workflow.editor.reading import is_editor_format
from comfyrail.workflow.editor.texts import Moment
from comfyrail.workflow.editor.to_api import editor_to_workflow
from comfyrail.workflow.graph import Workflow, parse_workflow


def workflow_from(
    raw: object, catalog: NodeCatalog, moment: Moment | None = None
) -> tuple[Workflow, tuple[ConversionNote, ...]]:
    """Read parsed JSON in the API format, bare or in an envelope, or in the editor's format.

    The notes say what a conversion could not do; the API format needs none. Raises
    MalformedWorkflow where it is neither. The editor's format needs the node catalog to know what
    the values of widgets mean; `moment` is chance and time, see `Moment`.
    """
    if is_editor_format(raw):
        return editor_to_workflow(raw, catalog, moment)
    return parse_workflow(raw), ()
