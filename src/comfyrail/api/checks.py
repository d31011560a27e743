"""API v1: looking at a workflow without running it."""

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from comfyrail.api.check_contract import CheckRequest, given_text, validation_report
from comfyrail.api.messages import json_response, read_json
from comfyrail.api.plan_contract import plan_body
from comfyrail.api.services import principal_of, services_of
from comfyrail.usecases.checks import WorkflowRequest

VALIDATE = "/v1/workflows/validate"
PLAN = "/v1/workflows/plan"

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


def _request(body: CheckRequest) -> WorkflowRequest:
    return WorkflowRequest(
        workflow=given_text(body.workflow),
        workflow_id=body.workflow_id,
        input_params=body.input_params,
        auto_fix=body.auto_fix,
        optimize=body.optimize,
    )
