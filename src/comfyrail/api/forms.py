"""How workflows can be filled in: API v1 for those that are given, v2 for those of jobs."""

import asyncio
from typing import Any, Literal

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.access.permissions import Permission
from comfyrail.api import examples
from comfyrail.api.check_contract import ConversionNoteBody, note_bodies
from comfyrail.api.checks import CONVERT_LIMIT
from comfyrail.api.messages import encode, read_body
from comfyrail.api.operations import Operation, Operations
from comfyrail.api.services import principal_of, services_of
from comfyrail.api.v2.contract import EXECUTION
from comfyrail.ids import JobId
from comfyrail.usecases.forms import JobForm
from comfyrail.workflow.form import FormNode
from comfyrail.workflow.form_sources import WorkflowForm

FORM = "/v1/workflows/form"
JOB_WORKFLOW = EXECUTION + "/workflow"

router = APIRouter()


class FormBody(msgspec.Struct, kw_only=True):
    """A workflow as it may be submitted, and what in it can be set.

    `nodes` are in the order of execution; of very many the first, `nodes_total` says how many.
    """

    workflow: dict[str, Any]
    format: Literal["api", "editor"]
    nodes: list[FormNode]
    nodes_total: int
    notes: list[ConversionNoteBody]


class JobFormBody(FormBody, kw_only=True):
    """The same of the graph that a job runs or ran."""

    execution_id: str
    workflow_id: str | None


@router.post(FORM, tags=["workflows"])
async def show_form(request: Request) -> Response:
    """What can be set in a workflow: JSON in either format, or a PNG or WebP that holds one."""
    content = await read_body(
        request, CONVERT_LIMIT, "application/json", "image/png", "image/webp", "text/plain"
    )
    form = await services_of(request).forms.of_source(content)
    return await _reply(FormBody(**_parts(form)))


@router.get(JOB_WORKFLOW, tags=["executions v2"])
async def show_job_workflow(request: Request, execution_id: str) -> Response:
    """The graph that the job runs or ran, with the values it has, to be run again with others."""
    found = await services_of(request).forms.of_job(principal_of(request), JobId(execution_id))
    return await _reply(_job_body(found))


OPERATIONS: Operations = {
    ("post", FORM): Operation(
        Permission.JOBS_READ,
        "What can be set in a workflow",
        FormBody,
        body="application/json",
        errors=(413, 415, 422),
        writes=False,
        example=examples.WORKFLOW,
    ),
    ("get", JOB_WORKFLOW): Operation(
        Permission.JOBS_READ, "The workflow of an execution", JobFormBody
    ),
}


def _job_body(found: JobForm) -> JobFormBody:
    job = found.job
    return JobFormBody(execution_id=job.id, workflow_id=job.workflow_id, **_parts(found.form))


def _parts(form: WorkflowForm) -> dict[str, Any]:
    return {
        "workflow": form.workflow,
        "format": form.format,
        "nodes": form.nodes,
        "nodes_total": form.nodes_total,
        "notes": note_bodies(form.notes),
    }


async def _reply(body: FormBody) -> Response:
    """Written in a thread: a small file may have unfolded to a lot."""
    return Response(await asyncio.to_thread(encode, body), media_type="application/json")
