"""Users, keys and a clock for the tests of accounts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from comfyrail.access.permissions import ALL, Permission
from comfyrail.access.principal import Principal
from comfyrail.ids import TenantId
from comfyrail.store.sqlite.store import SqliteStore, open_sqlite_store
from comfyrail.usecases.accounts import Accounts
from tests.store.test_store import ManualClock

ADMIN = Principal(TenantId("admin"), user_id="admin", is_limited=True)
"""Has all permissions."""


class AccountsKit:
    """Accounts on a real store, with a clock that stands still."""

    def __init__(self, store: SqliteStore, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self.accounts = Accounts(store, clock)


@asynccontextmanager
async def accounts_kit(folder: Path) -> AsyncIterator[AccountsKit]:
    clock = ManualClock()
    store = await open_sqlite_store(folder, clock)
    try:
        yield AccountsKit(store, clock)
    finally:
        await store.close()


def somebody(user_id: str, *permissions: Permission) -> Principal:
    granted = frozenset(permissions) or ALL
    return Principal(TenantId(user_id), permissions=granted, user_id=user_id, is_limited=True)
