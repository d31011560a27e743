"""API v1: looking at a workflow without running it."""

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.check_contract import (
    CheckRequest,
    ConvertedBody,
    given_text,
    note_bodies,
    validation_report,
)
from comfyrail.api.messages import json_response, read_body, read_json
from comfyrail.api.plan_contract import plan_body
from comfyrail.api.services import principal_of, services_of
from comfyrail.usecases.checks import WorkflowRequest
from comfyrail.validation.schemas import workflow_schema
from comfyrail.workflow.editor.convert import Format

VALIDATE = "/v1/workflows/validate"
PLAN = "/v1/workflows/plan"
CONVERT = "/v1/workflows/convert"
WORKFLOW_SCHEMA = "/v1/schemas/workflow"
CONVERT_LIMIT = 64 << 20
"""Pictures are larger than workflows."""

router = APIRouter(tags=["workflows"])

_check_request = msgspec.json.Decoder(CheckRequest)


@router.post(VALIDATE)
async def validate(request: Request) -> Response:
    """Check a workflow in all stages and against every worker. The reply has all findings."""
    body = await read_json(request, _check_request)
    validated = await services_of(request).validate(principal_of(request), _request(body))
    return json_response(validation_report(validated.examination, validated.workers))


@router.post(PLAN)
async def plan(request: Request) -> Response:
    """What a workflow would need, take and cost. 422 with the findings where it makes no sense."""
    body = await read_json(request, _check_request)
    planned = await services_of(request).plan(principal_of(request), _request(body))
    return json_response(
        plan_body(planned.plan, planned.fits, planned.examination.findings, planned.cost)
    )


@router.post(CONVERT)
async def convert(request: Request, to: Format = "api") -> Response:
    """Convert a workflow: JSON in either format, or a PNG or WebP that holds one."""
    content = await read_body(
        request, CONVERT_LIMIT, "application/json", "image/png", "image/webp", "text/plain"
    )
    converted = await services_of(request).convert(content, to)
    notes = note_bodies(converted.notes)
    return json_response(ConvertedBody(workflow=converted.workflow, notes=notes))


@router.get(WORKFLOW_SCHEMA)
async def show_schema() -> Response:
    """The JSON Schema of a workflow in API format; that of a node type is with the node type."""
    return json_response(workflow_schema())


def _request(body: CheckRequest) -> WorkflowRequest:
    return WorkflowRequest(
        workflow=given_text(body.workflow),
        workflow_id=body.workflow_id,
        input_params=given_text(body.input_params),
        auto_fix=body.auto_fix,
        optimize=body.optimize,
    )
