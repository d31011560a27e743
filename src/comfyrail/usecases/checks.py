"""Checking workflows against the fleet as it is now: for submission, validation and planning."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from comfyrail.access.principal import Principal
from comfyrail.errors import InvalidWorkflow, MalformedRequest
from comfyrail.fleet.fleet import Fleet
from comfyrail.planning.analysis import Analysis
from comfyrail.planning.analyst import Analyst
from comfyrail.usecases.estimates import Estimates
from comfyrail.usecases.examination import (
    Examination,
    Source,
    examine,
    unreadable,
)
from comfyrail.usecases.library import Library
from comfyrail.validation.context import ALL_STAGES, ERROR_STAGES, ValidationContext
from comfyrail.validation.fleet_fit import WorkerFit, fleet_report
from comfyrail.validation.policy import SecurityPolicy
from comfyrail.validation.url_check import UrlProbe, check_urls
from comfyrail.workflow.capabilities import ResourceNeeds, WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.editor.strict_json import read_json
from comfyrail.workflow.graph import Workflow

SMALL_REQUEST = 1 << 16
"""Up to so many bytes of JSON the checks may run on the event loop: a few milliseconds."""

MAY_HAVE_COME_MEANWHILE = frozenset(("UNKNOWN_NODE_TYPE", "MODEL_NOT_FOUND"))
"""What may be right by now: somebody added a model or a pack of nodes to a worker."""


@dataclass(frozen=True, slots=True)
class WorkflowRequest:
    """A workflow as JSON text in any format, or one of the library, and what to do with it."""

    workflow: bytes | None = None
    workflow_id: str | None = None
    """`name` or `name@version`."""
    input_params: Mapping[str, Any] = field(default_factory=dict)
    auto_fix: bool = False
    optimize: bool = False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The fleet at one moment, prepared for checks: made anew only when something has changed."""

    catalog: NodeCatalog
    workers: Sequence[WorkerCapabilities]
    model_sizes: Mapping[str, int]
    analyst: Analyst
    context: ValidationContext
    submission: ValidationContext
    """Without the stage that only gives hints."""
    likely_device: str | None


class WorkflowChecks:
    def __init__(
        self,
        fleet: Fleet,
        library: Library,
        estimates: Estimates,
        policy: SecurityPolicy,
        probe: UrlProbe | None,
    ) -> None:
        """`probe` None: URLs are judged by their text alone."""
        self._fleet = fleet
        self._estimates = estimates
        self._analyst = estimates.analyst
        self._library = library
        self._policy = policy
        self._probe = probe
        self._surroundings: Surroundings | None = None

    async def examine(
        self, principal: Principal, request: WorkflowRequest, *, hints: bool = False
    ) -> Examination:
        """All that speaks against the workflow. Raises only for a request that makes no sense."""
        source, size = await self._source(principal, request)
        examination = await self._examine(source, size, hints=hints)
        if _may_be_out_of_date(examination) and await self._fleet.refresh():
            examination = await self._examine(source, size, hints=hints)
        if self._probe is None or examination.workflow is None or not examination.is_valid:
            return examination
        if not _may_hold_urls(request):
            return examination
        context = self.surroundings().context
        found = await check_urls(examination.workflow, context, self._probe)
        return replace(examination, findings=[*examination.findings, *found])

    def analyse(self, workflow: Workflow) -> Analysis:
        return self.surroundings().analyst.analyse(workflow)

    def fits(self, workflow: Workflow) -> Sequence[WorkerFit]:
        """For every worker whether it can run the workflow, and what it lacks."""
        return fleet_report(workflow, self.surroundings().context)

    @property
    def likely_device(self) -> str | None:
        """What most workers compute on, those that are up before those that are not."""
        return self.surroundings().likely_device

    def surroundings(self) -> Surroundings:
        made = self._surroundings
        analyst = self._analyst.get()
        if (
            made is None
            or made.analyst is not analyst
            or made.workers is not self._fleet.capabilities
        ):
            made = self._surroundings = self._make_surroundings(analyst)
        return made

    def _make_surroundings(self, analyst: Analyst) -> Surroundings:
        fleet = self._fleet
        context = ValidationContext(
            catalog=fleet.catalog,
            workers=fleet.capabilities,
            policy=self._policy,
            needs=self._needs,
            stages=ALL_STAGES,
        )
        return Surroundings(
            catalog=fleet.catalog,
            workers=fleet.capabilities,
            model_sizes=fleet.model_sizes,
            analyst=analyst,
            context=context,
            submission=replace(context, stages=ERROR_STAGES),
            likely_device=_most_common_device(fleet.capabilities),
        )

    def _needs(self, workflow: Workflow) -> ResourceNeeds:
        analysis = self._analyst.get().analyse(workflow)
        return replace(analysis.needs, seconds=self._estimates.predict(analysis).seconds)

    async def _examine(self, source: "_Given", size: int, *, hints: bool) -> Examination:
        surroundings = self.surroundings()
        context = surroundings.context if hints else surroundings.submission
        if size <= SMALL_REQUEST:
            return _read_and_examine(source, context)
        return await asyncio.to_thread(_read_and_examine, source, context)

    async def _source(self, principal: Principal, request: WorkflowRequest) -> tuple["_Given", int]:
        if (request.workflow is None) == (request.workflow_id is None):
            raise MalformedRequest(
                "Give either a workflow, or the workflow_id of one in the library."
            )
        options = Source(None, request.input_params, None, request.auto_fix, request.optimize)
        if request.workflow is not None:
            return _Given(options, request.workflow), len(request.workflow)
        found = await self._library.find(principal, request.workflow_id or "")
        return _Given(
            replace(options, workflow=found.workflow, declared=found.declared), None
        ), found.size


@dataclass(frozen=True, slots=True)
class _Given:
    """`text` is still to be read as JSON; None where the source has the workflow already."""

    source: Source
    text: bytes | None


def _read_and_examine(given: _Given, context: ValidationContext) -> Examination:
    source = given.source
    if given.text is not None:
        try:
            source = replace(source, workflow=read_json(given.text))
        except InvalidWorkflow as error:
            return unreadable(error)
    return examine(source, context)


def _most_common_device(workers: Sequence[WorkerCapabilities]) -> str | None:
    online = [worker.device for worker in workers if worker.is_online]
    counted = Counter(online or [worker.device for worker in workers]).most_common(1)
    return counted[0][0] if counted else None


def _may_hold_urls(request: WorkflowRequest) -> bool:
    """False for most: then nobody need look for what to ask of the network."""
    text = request.workflow
    return text is None or bool(request.input_params) or b"/" in text or b"\\u" in text


def _may_be_out_of_date(examination: Examination) -> bool:
    return any(
        finding.error_code in MAY_HAVE_COME_MEANWHILE
        or finding.details.get("reason") == "value_not_in_list"
        for finding in examination.findings
    )
