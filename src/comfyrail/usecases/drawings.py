"""A job's graph with the places that its nodes had in the editor."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from comfyrail.access.principal import Principal
from comfyrail.ids import JobId
from comfyrail.store.interface import JobDrawing, Store
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.layouts import layout_beside


class JobDrawings:
    def __init__(self, store: Store, catalog: Callable[[], NodeCatalog]) -> None:
        self._store = store
        self._catalog = catalog

    async def of(self, principal: Principal, job_id: JobId) -> JobDrawing:
        """Of one of the principal's own jobs. Raises JobNotFound.

        A client of ComfyUI sends its graph in both formats: then the places are in the other one.
        """
        drawing = await self._store.drawing_of(principal.tenant, job_id)
        if drawing.layout is not None or drawing.extra_data is None:
            return drawing
        layout = await asyncio.to_thread(layout_beside, drawing.extra_data, self._catalog())
        return replace(drawing, layout=layout)
