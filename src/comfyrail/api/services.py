"""What the surfaces are given, and who is asking."""

from dataclasses import dataclass

from starlette.requests import HTTPConnection

from comfyrail.access.principal import Principal
from comfyrail.store.interface import Store
from comfyrail.usecases.batches import Batches
from comfyrail.usecases.convert import ConvertWorkflow
from comfyrail.usecases.figures import Figures
from comfyrail.usecases.health import CheckReadiness
from comfyrail.usecases.jobs import Jobs
from comfyrail.usecases.library import Library
from comfyrail.usecases.nodes import NodeTypes
from comfyrail.usecases.plan import PlanWorkflow
from comfyrail.usecases.queue import Queue
from comfyrail.usecases.shutdown import Shutdown
from comfyrail.usecases.submit import SubmitWorkflow
from comfyrail.usecases.validate import ValidateWorkflow
from comfyrail.usecases.workers import Workers


@dataclass(frozen=True, slots=True)
class Services:
    submit: SubmitWorkflow
    validate: ValidateWorkflow
    plan: PlanWorkflow
    convert: ConvertWorkflow
    nodes: NodeTypes
    figures: Figures
    jobs: Jobs
    batches: Batches
    queue: Queue
    workers: Workers
    library: Library
    check_readiness: CheckReadiness
    shutdown: Shutdown
    replies: Store


def services_of(connection: HTTPConnection) -> Services:
    services: Services = connection.app.state.services
    return services


def principal_of(connection: HTTPConnection) -> Principal:
    """The caller, as the gate has found out. Only for routes that ask for a permission."""
    principal: Principal = connection.scope["principal"]
    return principal
