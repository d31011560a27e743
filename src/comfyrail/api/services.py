"""What the surfaces are given, and who is asking."""

from dataclasses import dataclass

from starlette.requests import HTTPConnection

from comfyrail.access.principal import LOCAL_USER, Principal
from comfyrail.usecases.health import CheckReadiness
from comfyrail.usecases.jobs import Jobs
from comfyrail.usecases.submit import SubmitWorkflow
from comfyrail.usecases.workers import Workers


@dataclass(frozen=True, slots=True)
class Services:
    submit: SubmitWorkflow
    jobs: Jobs
    workers: Workers
    check_readiness: CheckReadiness


def services_of(connection: HTTPConnection) -> Services:
    services: Services = connection.app.state.services
    return services


def principal_of(_connection: HTTPConnection) -> Principal:
    """The caller. Access is off: the server listens on loopback only, for one local user."""
    return LOCAL_USER
