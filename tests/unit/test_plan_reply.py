"""What a plan's reply holds in odd cases."""

import pytest

from comfyrail.api.plan_contract import plan_body
from comfyrail.errors import InvalidWorkflow
from comfyrail.planning.cost import CostRates
from comfyrail.planning.duration import DurationModel
from comfyrail.planning.plan import make_plan
from comfyrail.usecases.examination import Examination, refuse_unplannable
from comfyrail.validation.findings import Finding
from comfyrail.validation.fleet_fit import WorkerFit
from comfyrail.workflow.capabilities import WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.graph import parse_workflow
from tests.graphs import picture

WORKFLOW = parse_workflow(picture())
MISSING_MODEL = Finding("semantic", "error", "MODEL_NOT_FOUND", "no model")
BAD_LINK = Finding("semantic", "error", "BAD_LINK", "no link")


def test_worker_that_came_or_went_meanwhile_is_left_out() -> None:
    workers = [WorkerCapabilities(name, NodeCatalog()) for name in ("stays", "new")]
    plan = make_plan(WORKFLOW, NodeCatalog(), workers, DurationModel.fit(()), CostRates())
    fits = [WorkerFit("stays", True, True), WorkerFit("gone", True, True)]
    shown = plan_body(plan, fits, [], 0.0).workers
    assert [worker.worker_id for worker in shown] == ["stays"]
    assert plan_body(plan, [], [], 0.0).workers == []


def test_missing_model_is_no_reason_not_to_plan_but_is_told_with_other_faults() -> None:
    assert refuse_unplannable(Examination(WORKFLOW, [MISSING_MODEL])) is WORKFLOW
    with pytest.raises(InvalidWorkflow) as refused:
        refuse_unplannable(Examination(WORKFLOW, [MISSING_MODEL, BAD_LINK]))
    codes = [finding["error_code"] for finding in refused.value.details["findings"]]
    assert codes == ["MODEL_NOT_FOUND", "BAD_LINK"]
