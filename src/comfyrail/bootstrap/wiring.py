"""Builds the use cases of a server on its machinery."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from comfyrail.access.addresses import TrustedProxies
from comfyrail.access.principal import LOCAL_USER
from comfyrail.api.services import Services
from comfyrail.bootstrap.access import admission, open_access
from comfyrail.bootstrap.assets import INPUT_FOLDER, open_assets
from comfyrail.bootstrap.first_admin import drop_dead_key
from comfyrail.bootstrap.machinery import Machinery, run_loop, start_machinery
from comfyrail.bootstrap.notifications import link_to_outputs, open_notifications
from comfyrail.bootstrap.outputs import open_outputs
from comfyrail.bootstrap.policy import read_policies
from comfyrail.bootstrap.runs import make_runs
from comfyrail.bootstrap.settings import Settings
from comfyrail.library.library import WorkflowLibrary
from comfyrail.network.outgoing import OutgoingHttp
from comfyrail.network.probe import HttpUrlProbe
from comfyrail.usecases.accounts import Accounts
from comfyrail.usecases.address_blocks import AddressBlocks
from comfyrail.usecases.asset_binding import FileBinder
from comfyrail.usecases.audit import Audit
from comfyrail.usecases.batch_jobs import BatchJobs
from comfyrail.usecases.batch_searches import BatchSearches
from comfyrail.usecases.batches import Batches
from comfyrail.usecases.checks import WorkflowChecks
from comfyrail.usecases.comfyui import Comfyui
from comfyrail.usecases.comfyui_feed import ComfyuiFeeds
from comfyrail.usecases.comfyui_fleet import ComfyuiFleet
from comfyrail.usecases.comfyui_records import ComfyuiRecords
from comfyrail.usecases.comfyui_userdata import ComfyuiUserdata
from comfyrail.usecases.convert import ConvertWorkflow
from comfyrail.usecases.delivery_figures import DeliveryFigures
from comfyrail.usecases.drawings import JobDrawings
from comfyrail.usecases.feed import Feed
from comfyrail.usecases.figures import Figures
from comfyrail.usecases.forms import WorkflowForms
from comfyrail.usecases.given_files import GivenFiles
from comfyrail.usecases.health import CheckReadiness
from comfyrail.usecases.jobs import Jobs
from comfyrail.usecases.library import Library
from comfyrail.usecases.logs import JobLogs
from comfyrail.usecases.nodes import NodeTypes
from comfyrail.usecases.plan import PlanWorkflow
from comfyrail.usecases.queue import Queue
from comfyrail.usecases.read_positions import ReadPositions
from comfyrail.usecases.resubmit import ResubmitJob
from comfyrail.usecases.standing import Standings
from comfyrail.usecases.submit import SubmitWorkflow
from comfyrail.usecases.usage import TenantUsage
from comfyrail.usecases.validate import ValidateWorkflow


@asynccontextmanager
async def running_server(settings: Settings) -> AsyncIterator[Services]:
    """Everything that runs behind the API, from open to orderly stop."""
    async with AsyncExitStack() as stack:
        yield await _make_services(settings, stack, await start_machinery(settings, stack))


async def _make_services(settings: Settings, stack: AsyncExitStack, parts: Machinery) -> Services:
    clock, store, fleet = parts.clock, parts.store, parts.fleet
    workflows = WorkflowLibrary(settings.data, LOCAL_USER.tenant)
    stack.callback(workflows.close)
    standings = Standings(fleet, clock, parts.targets)
    queue = Queue(store, parts.scheduler.waits.by_class, parts.waits, parts.targets)
    library = Library(workflows, lambda: fleet.catalog)
    outgoing = await stack.enter_async_context(OutgoingHttp())
    probe = HttpUrlProbe(outgoing) if settings.check_urls else None
    policies = read_policies(settings)
    files = FileBinder(store, settings.data / INPUT_FOLDER)
    checks = WorkflowChecks(fleet, library, parts.estimates, policies, probe, files)
    parts.mender.checks = checks
    accounts = Accounts(store, clock)
    accounts.after_revocation = lambda: drop_dead_key(accounts, settings.data)
    usage = TenantUsage(store, accounts, clock)
    kept = open_assets(
        settings, store, parts.blobs, parts.storage, policies, outgoing, clock, usage.room_of
    )
    run_loop(stack, kept.sweeper, "asset-sweeper")
    access = await stack.enter_async_context(
        open_access(settings, store, accounts, parts.http, clock)
    )
    submit = SubmitWorkflow(
        store,
        clock,
        checks,
        parts.estimates,
        standings,
        parts.waits,
        settings.queue_timeout,
        settings.max_retries,
        refuse_new_work=parts.storage.refuse_new_work,
        admit=admission(parts.limits, usage),
        secrets=parts.secrets,
        input_files=kept.input_files,
    )
    batch_jobs = BatchJobs(submit)
    run_loop(stack, BatchSearches(store, batch_jobs, parts.blobs), "batch-searches")
    jobs = Jobs(store, parts.blobs, clock, fleet.load_of, parts.waits, standings, parts.previews)
    given_files = GivenFiles(kept.assets)
    output_parts = await open_outputs(settings, store, parts.blobs, parts.media.media, clock)
    for name, loop in output_parts.loops.items():
        run_loop(stack, loop, name)
    told = await open_notifications(
        settings,
        stack,
        store,
        parts.blobs,
        parts.http,
        clock,
        link_to_outputs(output_parts.signer, output_parts.file_base),
    )
    submit.check_told = told.rules.check_submission
    for name, loop in told.loops.items():
        run_loop(stack, loop, name)
    run_parts = make_runs(
        settings,
        store,
        parts.blobs,
        clock,
        fleet,
        parts.workforce.workers,
        submit,
        jobs,
        library,
        given_files,
    )
    for name, loop in run_parts.loops.items():
        run_loop(stack, loop, name)
    comfyui = Comfyui(
        ComfyuiRecords(store, parts.blobs),
        ComfyuiFeeds(store, parts.previews, clock),
        ComfyuiFleet(fleet, store, kept.assets),
        ComfyuiUserdata(store, usage.room_of),
    )
    drawings = JobDrawings(store, lambda: fleet.catalog)
    return Services(
        comfyui=comfyui,
        submit=submit,
        validate=ValidateWorkflow(checks),
        plan=PlanWorkflow(checks, parts.estimates),
        convert=ConvertWorkflow(fleet),
        forms=WorkflowForms(store, drawings, lambda: fleet.catalog),
        nodes=NodeTypes(fleet),
        figures=Figures(
            queue, fleet, parts.estimates, [DeliveryFigures(store, told.courier.counts)]
        ),
        jobs=jobs,
        media=parts.media.media,
        batches=Batches(store, clock, batch_jobs, library),
        queue=queue,
        workers=parts.workforce.workers,
        library=library,
        check_readiness=CheckReadiness(
            store,
            fleet,
            parts.workforce.pools,
            (parts.shutdown.refuse, parts.storage.refuse_new_work),
        ),
        shutdown=parts.shutdown,
        replies=store,
        assets=kept.assets,
        uploads=kept.uploads,
        gate=access.gate,
        gatekeeper=access.gatekeeper,
        resubmit=ResubmitJob(store, submit, drawings),
        logs=JobLogs(store),
        accounts=accounts,
        usage=usage,
        audit=Audit(store, clock),
        address_blocks=AddressBlocks(store, clock, TrustedProxies(settings.trusted_proxies)),
        runs=run_parts.runs,
        given_files=given_files,
        read_positions=ReadPositions(),
        feed=Feed(store, clock),
        webhooks=told.webhooks,
        outputs=output_parts.outputs,
        file_base=output_parts.file_base,
    )
