"""What a workflow would need, take and cost, without running it [3.5]."""

from collections.abc import Sequence
from dataclasses import dataclass

from comfyrail.access.principal import Principal
from comfyrail.planning.plan import Plan, make_plan
from comfyrail.usecases.checks import WorkflowChecks, WorkflowRequest
from comfyrail.usecases.estimates import Estimates
from comfyrail.usecases.examination import Examination, refuse_unplannable
from comfyrail.validation.fleet_fit import WorkerFit
from comfyrail.workflow.graph import Workflow


@dataclass(frozen=True, slots=True)
class Planned:
    plan: Plan
    examination: Examination
    """Valid but for the resources: a plan says what would be needed."""
    fits: Sequence[WorkerFit]
    cost: float
    """US dollars on the likely device."""


class PlanWorkflow:
    def __init__(self, checks: WorkflowChecks, estimates: Estimates) -> None:
        self._checks = checks
        self._estimates = estimates

    async def __call__(self, principal: Principal, request: WorkflowRequest) -> Planned:
        """Raises InvalidWorkflow with all findings when the workflow makes no sense."""
        checked = await self._checks.check(principal, request, hints=True)
        examination = checked.examination
        workflow = refuse_unplannable(examination)
        surroundings = self._checks.surroundings()

        def plan_it(each: Workflow) -> Plan:
            return make_plan(
                each,
                surroundings.catalog,
                surroundings.workers,
                self._estimates.model,
                self._estimates.rates,
                model_sizes=surroundings.model_sizes,
            )

        plan = await self._checks.run(plan_it, workflow, large=checked.is_large)
        device = surroundings.likely_device
        cost = self._estimates.cost(plan.prediction.seconds, device, plan.analysis)
        return Planned(plan, examination, await self._checks.fits(principal, checked), cost)
