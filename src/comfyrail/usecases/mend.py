"""A second look at the graph of a failed attempt: against the fleet as it is now, with fixes."""

from collections.abc import Mapping
from typing import Any

import msgspec

from comfyrail.access.principal import Principal
from comfyrail.fleet.remedies import Mended
from comfyrail.ids import TenantId
from comfyrail.usecases.checks import WorkflowChecks, WorkflowRequest
from comfyrail.usecases.standing import needs_of

FINDINGS_KEPT = 20


class MendWorkflow:
    """The fleet has it before there are checks: they are set once the server is put together."""

    def __init__(self) -> None:
        self.checks: WorkflowChecks | None = None

    async def mend(self, tenant: TenantId, prompt: Mapping[str, Any]) -> Mended:
        if self.checks is None:
            return Mended()
        request = WorkflowRequest(workflow=msgspec.json.encode(prompt), auto_fix=True)
        # What could not be reached a moment ago may be there when the job runs again.
        checked = await self.checks.check(
            Principal(tenant), request, asks_network=False, finds_files=False
        )
        examination = checked.examination
        if examination.workflow is None or not examination.is_valid:
            return Mended(
                findings=[
                    each.as_dict() for each in examination.findings if each.severity == "error"
                ][:FINDINGS_KEPT]
            )
        if not examination.fixes:
            return Mended()
        mended = await self.checks.run(
            lambda workflow: msgspec.json.encode(workflow.to_prompt()),
            examination.workflow,
            large=checked.is_large,
        )
        return Mended(
            mended,
            len(examination.workflow.nodes),
            None if checked.analysis is None else needs_of(checked.analysis, {}),
            tuple(fix.message for fix in examination.fixes),
        )
