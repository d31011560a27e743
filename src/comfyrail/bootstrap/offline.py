"""The routes about access without a server: for the first key, and for when nobody can get in."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi import Depends, FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from comfyrail.access.principal import LOCAL_USER, Principal
from comfyrail.api.access.operations import ROUTERS
from comfyrail.api.authorization import authorize_route
from comfyrail.api.errors import install_error_handlers
from comfyrail.bootstrap.first_admin import drop_dead_key
from comfyrail.clock import SystemClock
from comfyrail.errors import ConfigurationError
from comfyrail.ids import new_request_id
from comfyrail.store.sqlite.database import DATABASE_NAME
from comfyrail.store.sqlite.store import open_sqlite_store
from comfyrail.usecases.accounts import Accounts
from comfyrail.usecases.address_blocks import AddressBlocks
from comfyrail.usecases.audit import Audit
from comfyrail.usecases.usage import TenantUsage

COMMAND_LINE = Principal(LOCAL_USER.tenant, user_id="command-line")
"""Whoever may write the data folder may do everything."""


@dataclass(frozen=True, slots=True)
class OfflineServices:
    accounts: Accounts
    usage: TenantUsage
    audit: Audit
    address_blocks: AddressBlocks


@asynccontextmanager
async def offline_access(folder: Path) -> AsyncIterator[ASGIApp]:
    """The API's routes about access, on a data folder that no server uses at the time. Raises
    ConfigurationError where one does, or where there is nothing.
    """
    if not (folder / DATABASE_NAME).exists():
        raise ConfigurationError(
            f"There is no data folder {folder} (no {DATABASE_NAME} in it). Check --data; a server "
            "makes its folder when it starts.",
            code="NO_DATA_FOLDER",
        )
    clock = SystemClock()
    store = await open_sqlite_store(folder, clock)
    try:
        accounts = Accounts(store, clock)
        accounts.after_revocation = lambda: drop_dead_key(accounts, folder)
        services = OfflineServices(
            accounts,
            TenantUsage(store, accounts, clock),
            Audit(store, clock),
            AddressBlocks(store, clock),
        )
        yield _as_command_line(_app(services))
    finally:
        await store.close()


def _app(services: OfflineServices) -> FastAPI:
    app = FastAPI(
        openapi_url=None, docs_url=None, redoc_url=None, dependencies=[Depends(authorize_route)]
    )
    install_error_handlers(app)
    for router in ROUTERS:
        app.include_router(router)
    app.state.services = services
    return app


def _as_command_line(app: ASGIApp) -> ASGIApp:
    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        known = {"principal": COMMAND_LINE, "request_id": new_request_id()}
        await app({**scope, **known}, receive, send)

    return call
