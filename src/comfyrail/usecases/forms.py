"""How workflows, and those of jobs, can be filled in, with the fleet's node catalog."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from comfyrail.access.principal import Principal
from comfyrail.ids import JobId
from comfyrail.jobs.job import Job
from comfyrail.store.interface import JobDrawing, Store
from comfyrail.usecases.drawings import JobDrawings
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.form_sources import WorkflowForm, form_of_prompt, form_of_source
from comfyrail.workflow.layouts import decode_layout

AT_ONCE = 2
"""Others need threads too, and the largest take a lot of memory."""


@dataclass(frozen=True, slots=True)
class JobForm:
    job: Job
    form: WorkflowForm


class WorkflowForms:
    def __init__(
        self, store: Store, drawings: JobDrawings, catalog: Callable[[], NodeCatalog]
    ) -> None:
        self._store = store
        self._drawings = drawings
        self._catalog = catalog
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def of_source(self, content: bytes) -> WorkflowForm:
        """`content` is JSON, text around it, or a picture with a workflow in it. Raises
        InvalidWorkflow.
        """
        async with self._turns:
            return await asyncio.to_thread(form_of_source, content, self._catalog())

    async def of_job(self, principal: Principal, job_id: JobId) -> JobForm:
        """Of one of the principal's own jobs: the graph that runs or ran, with its values. Raises
        JobNotFound.
        """
        job = await self._store.get_job(principal.tenant, job_id)
        async with self._turns:
            drawing = await self._drawings.of(principal, job_id)
            form = await asyncio.to_thread(_form_of, drawing, self._catalog())
        return JobForm(job, form)


def _form_of(drawing: JobDrawing, catalog: NodeCatalog) -> WorkflowForm:
    return form_of_prompt(drawing.prompt, decode_layout(drawing.layout), catalog)
