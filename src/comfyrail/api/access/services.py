"""What these routes are given: by a server, or by a command that works without one."""

from typing import Protocol

from starlette.requests import Request

from comfyrail.usecases.accounts import Accounts
from comfyrail.usecases.address_blocks import AddressBlocks
from comfyrail.usecases.audit import Audit
from comfyrail.usecases.usage import TenantUsage

SMALL_BODY = 1 << 20
"""Bytes that a request may have here."""


class AccessServices(Protocol):
    @property
    def accounts(self) -> Accounts: ...

    @property
    def usage(self) -> TenantUsage: ...

    @property
    def audit(self) -> Audit: ...

    @property
    def address_blocks(self) -> AddressBlocks: ...


def access_of(request: Request) -> AccessServices:
    services: AccessServices = request.app.state.services
    return services
