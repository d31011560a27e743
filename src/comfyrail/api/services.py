"""What the surfaces are given, and who is asking."""

from dataclasses import dataclass

from starlette.requests import HTTPConnection

from comfyrail.access.gatekeeper import Gatekeeper
from comfyrail.access.principal import Principal
from comfyrail.api.gate import Gate
from comfyrail.store.interface import Store
from comfyrail.usecases.accounts import Accounts
from comfyrail.usecases.address_blocks import AddressBlocks
from comfyrail.usecases.assets import Assets
from comfyrail.usecases.audit import Audit
from comfyrail.usecases.batches import Batches
from comfyrail.usecases.comfyui import Comfyui
from comfyrail.usecases.convert import ConvertWorkflow
from comfyrail.usecases.feed import Feed
from comfyrail.usecases.figures import Figures
from comfyrail.usecases.forms import WorkflowForms
from comfyrail.usecases.given_files import GivenFiles
from comfyrail.usecases.health import CheckReadiness
from comfyrail.usecases.jobs import Jobs
from comfyrail.usecases.library import Library
from comfyrail.usecases.logs import JobLogs
from comfyrail.usecases.media import OutputMedia
from comfyrail.usecases.nodes import NodeTypes
from comfyrail.usecases.outputs import Outputs
from comfyrail.usecases.plan import PlanWorkflow
from comfyrail.usecases.queue import Queue
from comfyrail.usecases.read_positions import ReadPositions
from comfyrail.usecases.resubmit import ResubmitJob
from comfyrail.usecases.runs import Runs
from comfyrail.usecases.shutdown import Shutdown
from comfyrail.usecases.submit import SubmitWorkflow
from comfyrail.usecases.upload_sessions import UploadSessions
from comfyrail.usecases.usage import TenantUsage
from comfyrail.usecases.validate import ValidateWorkflow
from comfyrail.usecases.webhooks import Webhooks
from comfyrail.usecases.workers import Workers


@dataclass(frozen=True, slots=True)
class Services:
    submit: SubmitWorkflow
    validate: ValidateWorkflow
    plan: PlanWorkflow
    convert: ConvertWorkflow
    forms: WorkflowForms
    nodes: NodeTypes
    figures: Figures
    jobs: Jobs
    media: OutputMedia
    batches: Batches
    queue: Queue
    workers: Workers
    library: Library
    check_readiness: CheckReadiness
    shutdown: Shutdown
    replies: Store
    assets: Assets
    uploads: UploadSessions
    gate: Gate
    gatekeeper: Gatekeeper | None
    """None: access is off."""
    resubmit: ResubmitJob
    logs: JobLogs
    accounts: Accounts
    usage: TenantUsage
    audit: Audit
    address_blocks: AddressBlocks
    runs: Runs
    given_files: GivenFiles
    read_positions: ReadPositions
    comfyui: Comfyui
    feed: Feed
    webhooks: Webhooks
    outputs: Outputs
    file_base: str | None
    """Where links to files begin; None: where the client has reached the server."""


def services_of(connection: HTTPConnection) -> Services:
    services: Services = connection.app.state.services
    return services


def principal_of(connection: HTTPConnection) -> Principal:
    """The caller, as the gate has found out. Only for routes that ask for a permission."""
    principal: Principal = connection.scope["principal"]
    return principal
