"""ComfyUI's own templates, converted as its editor converts them [1.1]."""

from collections import Counter
from typing import Any

import pytest

from comfyrail.errors import MalformedWorkflow
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.editor.notes import UNKNOWN_NODE_TYPE
from comfyrail.workflow.editor.to_editor import workflow_to_editor
from comfyrail.workflow.editor.workflow_from import workflow_from
from comfyrail.workflow.graph import parse_workflow

pytestmark = pytest.mark.timeout(900)  # the first run downloads 120 MB


def test_samples_convert_to_exactly_what_the_editor_exported(
    sample_templates: dict[str, Any], exported: dict[str, Any], catalog: NodeCatalog
) -> None:
    assert len(exported) == 40
    for name, wanted in exported.items():
        workflow, notes = workflow_from(sample_templates[name], catalog)
        assert workflow.to_prompt() == wanted, name
        assert notes == (), name


def test_every_template_converts_or_is_refused_with_a_reason(
    newest_templates: dict[str, Any], sample_templates: dict[str, Any], catalog: NodeCatalog
) -> None:
    counts: Counter[str] = Counter()
    for raw in (*newest_templates.values(), *sample_templates.values()):
        try:
            workflow, notes = workflow_from(raw, catalog)
        except MalformedWorkflow:
            counts["refused"] += 1
            continue
        counts["converted"] += 1
        counts["nodes"] += len(workflow.nodes)
        counts.update(f"notes {note.code}" for note in notes)
        counts["without notes"] += not notes
        counts["values without a name"] += sum(
            int(note.details["values_left_out"] > 0) for note in notes
        )
    print(dict(counts))
    assert counts["converted"] == len(newest_templates) + len(sample_templates)
    # Node types that came after the catalog of the tests: all else is resolved.
    assert set(counts) == {
        "converted",
        "nodes",
        "without notes",
        f"notes {UNKNOWN_NODE_TYPE}",
        "values without a name",
    }


@pytest.mark.parametrize("is_known", [True, False], ids=["known types", "unknown types"])
def test_samples_come_back_from_the_editor_unchanged(
    exported: dict[str, Any], catalog: NodeCatalog, is_known: bool
) -> None:
    known = catalog if is_known else NodeCatalog()
    for name, wanted in exported.items():
        drawn = workflow_to_editor(parse_workflow(wanted), known)
        assert workflow_from(drawn, known)[0].to_prompt() == wanted, name


def test_templates_come_back_from_the_editor_unchanged(
    newest_templates: dict[str, Any], catalog: NodeCatalog
) -> None:
    for name, raw in newest_templates.items():
        workflow, _ = workflow_from(raw, catalog)
        drawn = workflow_to_editor(workflow, catalog)
        assert workflow_from(drawn, catalog)[0].to_prompt() == workflow.to_prompt(), name
