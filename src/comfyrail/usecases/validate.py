"""Checking a workflow without running it [2.6]."""

from collections.abc import Sequence
from dataclasses import dataclass

from comfyrail.access.principal import Principal
from comfyrail.usecases.checks import WorkflowChecks, WorkflowRequest
from comfyrail.usecases.examination import Examination
from comfyrail.validation.fleet_fit import WorkerFit


@dataclass(frozen=True, slots=True)
class Validated:
    """All findings, and for every worker whether it could run the workflow."""

    examination: Examination
    workers: Sequence[WorkerFit]


class ValidateWorkflow:
    def __init__(self, checks: WorkflowChecks) -> None:
        self._checks = checks

    async def __call__(self, principal: Principal, request: WorkflowRequest) -> Validated:
        checked = await self._checks.check(principal, request, hints=True)
        return Validated(checked.examination, await self._checks.fits(principal, checked))
