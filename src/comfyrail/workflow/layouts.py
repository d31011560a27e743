"""Where a job's nodes stood in the editor, as JSON that is kept beside its graph."""

from collections.abc import Mapping
from typing import Any

import msgspec

from comfyrail.errors import InvalidWorkflow
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.editor.reading import is_editor_format
from comfyrail.workflow.editor.workflow_from import workflow_from
from comfyrail.workflow.graph import Area, Workflow

LARGEST_LAYOUT = 256 << 10
"""Bytes. A larger one is not kept: the job runs without it."""

_decode = msgspec.json.Decoder(dict[str, Area]).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


def encode_layout(workflow: Workflow) -> bytes | None:
    """None where there is nothing to keep, as for all that comes in API format."""
    if not workflow.layout:
        return None
    nodes = workflow.nodes
    encoded = msgspec.json.encode(
        {node_id: area for node_id, area in workflow.layout.items() if node_id in nodes}
    )
    return encoded if len(encoded) <= LARGEST_LAYOUT else None


def decode_layout(layout: bytes | None) -> dict[str, Area]:
    """What `encode_layout` has written."""
    return {} if layout is None else _decode(layout)


def layout_beside(extra_data: bytes, catalog: NodeCatalog) -> bytes | None:
    """That of the graph which ComfyUI's editor sends along for the files that a job makes.

    Anyone may have written it: what makes no sense has no layout.
    """
    try:
        info = _decode_object(extra_data).get("extra_pnginfo")
        raw = info.get("workflow") if isinstance(info, Mapping) else None
        return encode_layout(workflow_from(raw, catalog)[0]) if is_editor_format(raw) else None
    except (InvalidWorkflow, msgspec.DecodeError, RecursionError):
        return None
