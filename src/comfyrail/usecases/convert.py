"""From one of ComfyUI's formats to the other, with the fleet's node catalog [1.1]."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from comfyrail.fleet.fleet import Fleet
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.editor.convert import Format, convert_json
from comfyrail.workflow.editor.notes import ConversionNote
from comfyrail.workflow.editor.source import read_workflow_source


@dataclass(frozen=True, slots=True)
class ConvertedWorkflow:
    workflow: dict[str, Any]
    notes: Sequence[ConversionNote]


class ConvertWorkflow:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def __call__(self, content: bytes, to: Format) -> ConvertedWorkflow:
        """`content` is JSON, or a picture with a workflow in it. Raises MalformedWorkflow."""
        return await asyncio.to_thread(_convert, content, to, self._fleet.catalog)


def _convert(content: bytes, to: Format, catalog: NodeCatalog) -> ConvertedWorkflow:
    return ConvertedWorkflow(*convert_json(read_workflow_source(content), to, catalog))
