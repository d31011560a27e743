"""Checking workflows against the fleet as it is now: for submission, validation and planning."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from comfyrail.access.principal import Principal
from comfyrail.errors import InvalidWorkflow, MalformedRequest, MalformedWorkflow
from comfyrail.fleet.fleet import Fleet
from comfyrail.planning.analysis import Analysis
from comfyrail.planning.analyst import Analyst
from comfyrail.usecases.asset_binding import FileBinder, References, find_references
from comfyrail.usecases.estimates import Estimates
from comfyrail.usecases.examination import (
    Draft,
    Examination,
    Source,
    draft_of,
    judge,
    unreadable,
)
from comfyrail.usecases.library import Library
from comfyrail.usecases.policies import Policies
from comfyrail.validation.context import ALL_STAGES, ERROR_STAGES, ValidationContext
from comfyrail.validation.findings import Stage
from comfyrail.validation.fleet_fit import WorkerFit, fleet_report
from comfyrail.validation.limits import EXAMINED_NODES, check_node_count
from comfyrail.validation.policy import SecurityPolicy
from comfyrail.validation.url_check import UrlProbe, check_urls
from comfyrail.validation.validate import unchecked_stages
from comfyrail.workflow.capabilities import ResourceNeeds, WorkerCapabilities
from comfyrail.workflow.catalog import NodeCatalog
from comfyrail.workflow.editor.reading import is_editor_format
from comfyrail.workflow.editor.strict_json import read_json
from comfyrail.workflow.graph import Workflow
from comfyrail.workflow.node_count import count_many_nodes

Argument = TypeVar("Argument")
Result = TypeVar("Result")

LARGE_AT_ONCE = 2
MOST_PARAMETERS = 10_000
SMALL_WORKFLOW = 500
SMALL_REQUEST = 1 << 16
"""Up to so many bytes of JSON the checks may run on the event loop: a few milliseconds."""

STAGES_BEFORE_THE_NETWORK: frozenset[Stage] = frozenset(("syntax", "semantic", "security"))

MAY_HAVE_COME_MEANWHILE = frozenset(("UNKNOWN_NODE_TYPE", "MODEL_NOT_FOUND"))
"""What may be right by now: somebody added a model or a pack of nodes to a worker."""


@dataclass(frozen=True, slots=True)
class WorkflowRequest:
    """A workflow as JSON text in any format, or one of the library, and what to do with it."""

    workflow: bytes | None = None
    workflow_id: str | None = None
    """`name` or `name@version`."""
    input_params: bytes | None = None
    """As JSON text too: there may be megabytes of it."""
    auto_fix: bool = False
    optimize: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    """What is known of a request's workflow. `analysis` is None where it cannot run."""

    examination: Examination
    analysis: Analysis | None
    is_large: bool
    """What is done with it further belongs into a thread too."""
    workflow_id: str | None = None
    """Which one of the library it is, with its version."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The fleet at one moment, prepared for checks: made anew only when something has changed."""

    catalog: NodeCatalog
    workers: Sequence[WorkerCapabilities]
    model_sizes: Mapping[str, int]
    analyst: Analyst
    likely_device: str | None
    contexts: dict[tuple[int, frozenset[Stage]], ValidationContext] = field(default_factory=dict)
    """By policy and stages, each made when it is first asked for."""


class WorkflowChecks:
    def __init__(
        self,
        fleet: Fleet,
        library: Library,
        estimates: Estimates,
        policies: Policies,
        probe: UrlProbe | None,
        files: FileBinder | None = None,
    ) -> None:
        """`probe` None: URLs are judged by their text alone. `files` None: names of files stay as
        they are.
        """
        self._files = files
        self._fleet = fleet
        self._estimates = estimates
        self._analyst = estimates.analyst
        self._library = library
        self._policies = policies
        self._probe = probe
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._surroundings: Surroundings | None = None

    async def check(
        self,
        principal: Principal,
        request: WorkflowRequest,
        *,
        hints: bool = False,
        asks_network: bool = True,
        finds_files: bool = True,
    ) -> Checked:
        """All that speaks against the workflow. Raises only for a request that makes no sense.

        `finds_files` False: the names in it are those that the server has given to its files.
        """
        given = await self._source(principal, request)
        if finds_files and self._files is not None:
            given = replace(given, owner=principal)
        probe = self._probe if asks_network and _may_hold_urls(request) else None
        examination = await self._check(principal, given, probe, hints=hints)
        workflow = examination.workflow
        # A small file of the editor may have unfolded to a lot.
        large = given.is_large or (workflow is not None and len(workflow.nodes) > SMALL_WORKFLOW)
        if workflow is None or not examination.is_valid:
            return Checked(examination, None, large, given.workflow_id)
        analysis = await self.run(self._analyst.get().analyse, workflow, large=large)
        return Checked(examination, analysis, large, given.workflow_id)

    async def run(
        self, work: Callable[[Argument], Result], argument: Argument, *, large: bool
    ) -> Result:
        """Do something with a workflow: here, or in a thread where that takes longer.

        Only a few large ones at once: others need threads too.
        """
        if not large:
            return work(argument)
        async with self._large:
            return await asyncio.to_thread(work, argument)

    async def _check(
        self, principal: Principal, given: "_Given", probe: UrlProbe | None, *, hints: bool
    ) -> Examination:
        policy = self._policies.of(principal.tenant)
        stages = ALL_STAGES if hints else ERROR_STAGES
        if probe is None or not policy.allowed_domains:
            return await self._examine(given, policy, stages)
        # The network is asked in its stage: after what is before, and before what is after it.
        before = await self._examine(given, policy, stages & STAGES_BEFORE_THE_NETWORK)
        if before.workflow is None or not before.is_valid:
            return replace(before, unchecked=unchecked_stages(before.findings, stages))
        context = self.context(policy, stages)
        found = await check_urls(before.workflow, context, probe)
        if any(each.severity == "error" for each in found):
            findings = [*before.findings, *found]
            later = unchecked_stages(findings, stages)
            return replace(before, findings=findings, unchecked=later)
        whole = await self._examine(given, policy, stages)
        return replace(whole, findings=[*whole.findings, *found])

    async def fits(self, principal: Principal, checked: Checked) -> Sequence[WorkerFit]:
        """For every worker whether it can run the workflow, and what it lacks.

        Nothing for one that is far too long for anybody.
        """
        workflow = checked.examination.workflow
        if workflow is None or len(workflow.nodes) > EXAMINED_NODES:
            return ()
        context = self.context(self._policies.of(principal.tenant), ALL_STAGES)
        return await self.run(
            lambda each: fleet_report(each, context), workflow, large=checked.is_large
        )

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

    def context(self, policy: SecurityPolicy, stages: frozenset[Stage]) -> ValidationContext:
        surroundings = self.surroundings()
        # By identity: the policies live as long as the checks do.
        key = (id(policy), stages)
        known = surroundings.contexts.get(key)
        if known is None:
            known = surroundings.contexts[key] = ValidationContext(
                catalog=surroundings.catalog,
                workers=surroundings.workers,
                policy=policy,
                needs=self._needs,
                stages=stages,
            )
        return known

    def _make_surroundings(self, analyst: Analyst) -> Surroundings:
        fleet = self._fleet
        return Surroundings(
            catalog=fleet.catalog,
            workers=fleet.capabilities,
            model_sizes=fleet.model_sizes,
            analyst=analyst,
            likely_device=_most_common_device(fleet.capabilities),
        )

    def _needs(self, workflow: Workflow) -> ResourceNeeds:
        analysis = self._analyst.get().analyse(workflow)
        return replace(analysis.needs, seconds=self._estimates.predict(analysis).seconds)

    async def _examine(
        self, given: "_Given", policy: SecurityPolicy, stages: frozenset[Stage]
    ) -> Examination:
        """Once more with what the workers say now, where they may have got what was missing."""
        examination = await self._examine_once(given, self.context(policy, stages))
        if _may_be_out_of_date(examination) and await self._fleet.refresh():
            examination = await self._examine_once(given, self.context(policy, stages))
        return examination

    async def _examine_once(self, given: "_Given", context: ValidationContext) -> Examination:
        large = given.is_large
        if large:
            drafted = await self.run(lambda each: _draft(each, context), given, large=True)
        else:
            source = _read(given)
            if isinstance(source, Examination):
                return source
            # The editor's format may be small and unfold to a lot.
            large = is_editor_format(source.workflow)
            drafted = await self.run(
                lambda each: _draft_of(each, context, given), source, large=large
            )
        if isinstance(drafted, Examination):
            return drafted
        draft, references = drafted
        if references and self._files is not None and given.owner is not None:
            bound = await self._files.bind(given.owner, draft.workflow, references)
            draft = replace(
                draft, workflow=bound.workflow, inputs=bound.inputs, missing=bound.findings
            )
        return await self.run(lambda each: judge(each, context), draft, large=large)

    async def _source(self, principal: Principal, request: WorkflowRequest) -> "_Given":
        if (request.workflow is None) == (request.workflow_id is None):
            raise MalformedRequest(
                "Give either a workflow, or the workflow_id of one in the library."
            )
        source = Source(None, {}, None, request.auto_fix, request.optimize)
        parameters = request.input_params
        if request.workflow is not None:
            return _Given(source, request.workflow, parameters)
        found = await self._library.find(principal, request.workflow_id or "")
        source = replace(source, workflow=found.workflow, declared=found.declared)
        return _Given(source, None, parameters, found.size, workflow_id=found.reference)


@dataclass(frozen=True, slots=True)
class _Given:
    """The texts are still to be read; `text` is None where the source has the workflow already."""

    source: Source
    text: bytes | None
    parameters: bytes | None
    other_size: int = 0
    owner: Principal | None = None
    """Whose files it may name; None: nobody looks for them."""
    workflow_id: str | None = None

    @property
    def is_large(self) -> bool:
        texts = len(self.text or b"") + len(self.parameters or b"")
        return texts + self.other_size > SMALL_REQUEST


_Drafted = tuple[Draft, References] | Examination
"""What there is to judge and what in it stands for files, or why there is nothing."""


def _draft(given: _Given, context: ValidationContext) -> _Drafted:
    too_long = _far_too_long(given, context)
    if too_long is not None:
        return too_long
    source = _read(given)
    return source if isinstance(source, Examination) else _draft_of(source, context, given)


def _far_too_long(given: _Given, context: ValidationContext) -> Examination | None:
    """What `validate` says of so many nodes too, before they are read."""
    nodes = count_many_nodes(given.text or b"", EXAMINED_NODES)
    if nodes is None or "security" not in context.stages:
        return None
    found = check_node_count(nodes, context.policy.limits)
    if not found:
        return None
    return Examination(None, found, unchecked=unchecked_stages(found, context.stages))


def _draft_of(source: Source, context: ValidationContext, given: _Given) -> _Drafted:
    draft = draft_of(source, context)
    if isinstance(draft, Examination):
        return draft
    if given.owner is None:
        return draft, References()
    return draft, find_references(draft.workflow, context.catalog)


def _read(given: _Given) -> Source | Examination:
    source = given.source
    if given.parameters is not None:
        source = replace(source, input_params=_read_parameters(given.parameters))
    if given.text is None:
        return source
    try:
        return replace(source, workflow=read_json(given.text))
    except InvalidWorkflow as error:
        return unreadable(error)


def _read_parameters(text: bytes) -> dict[str, Any]:
    """As strictly as a workflow: a name that is given twice would quietly lose a value."""
    try:
        value = read_json(text)
    except MalformedWorkflow as error:
        raise MalformedRequest(f"input_params: {error.message}") from error
    if not isinstance(value, dict):
        raise MalformedRequest("input_params is an object: names and their values.")
    count = sum(len(each) if isinstance(each, dict) else 1 for each in value.values())
    if count > MOST_PARAMETERS:
        raise MalformedRequest(f"input_params has {count:,} values; {MOST_PARAMETERS:,} at most.")
    return value


def _most_common_device(workers: Sequence[WorkerCapabilities]) -> str | None:
    online = [worker.device for worker in workers if worker.is_online]
    counted = Counter(online or [worker.device for worker in workers]).most_common(1)
    return counted[0][0] if counted else None


def _may_hold_urls(request: WorkflowRequest) -> bool:
    """False for most: then nobody need look for what to ask of the network."""
    text = request.workflow
    return text is None or request.input_params is not None or b"/" in text or b"\\u" in text


def _may_be_out_of_date(examination: Examination) -> bool:
    return any(
        finding.error_code in MAY_HAVE_COME_MEANWHILE
        or finding.details.get("reason") == "value_not_in_list"
        for finding in examination.findings
    )
