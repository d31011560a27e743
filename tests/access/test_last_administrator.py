"""Somebody can always let others in, and no file holds a key that is dead."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from comfyrail.access.permissions import Permission
from comfyrail.errors import Conflict
from comfyrail.usecases.account_rules import NewUser, UserChange
from tests.access.account_parts import ADMIN, AccountsKit, accounts_kit
from tests.processes import Comfyrail, comfyrail, server


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[AccountsKit]:
    async with accounts_kit(tmp_path) as made:
        await made.accounts.add_user(ADMIN, NewUser("root", permissions=["*"]))
        yield made


async def _refused(kit: AccountsKit, user_id: str, change: UserChange | None) -> None:
    act = (
        kit.accounts.remove_user(user_id)
        if change is None
        else kit.accounts.change_user(ADMIN, user_id, change)
    )
    with pytest.raises(Conflict) as caught:
        await act
    assert caught.value.code == "LAST_ADMINISTRATOR"
    assert "access:admin" in caught.value.message
    assert "another user" in caught.value.message


async def test_the_last_administrator_is_not_removed_disabled_or_demoted(kit: AccountsKit) -> None:
    await kit.accounts.add_user(ADMIN, NewUser("ada"))
    for change in (
        None,
        UserChange(is_disabled=True),
        UserChange(permissions=[Permission.JOBS_READ.value]),
    ):
        await _refused(kit, "root", change)
    changed = await kit.accounts.change_user(
        ADMIN, "root", UserChange(tier="free", permissions=[Permission.ACCESS_ADMIN.value])
    )
    assert changed.tier == "free"


async def test_one_of_two_administrators_may_go(kit: AccountsKit) -> None:
    await kit.accounts.add_user(ADMIN, NewUser("second", permissions=["*"]))
    await kit.accounts.change_user(ADMIN, "second", UserChange(is_disabled=True))
    await _refused(kit, "root", None)
    await kit.accounts.change_user(ADMIN, "second", UserChange(is_disabled=False))
    await kit.accounts.remove_user("root")
    await _refused(kit, "second", UserChange(is_disabled=True))
    await kit.accounts.add_user(ADMIN, NewUser("ada"))
    await kit.accounts.remove_user("ada")


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Comfyrail]:
    """With a second administrator, whose key the commands send."""
    data = tmp_path / "data"
    with server(data, workers=0, COMFYRAIL_ACCESS="on") as process:
        monkeypatch.setenv("COMFYRAIL_SERVER", process.url)
        monkeypatch.setenv("COMFYRAIL_API_KEY", (data / "admin.key").read_text())
        assert comfyrail("users", "add", "boss", "--permission", "*").returncode == 0
        key = comfyrail("keys", "create", "--user", "boss").stdout.strip()
        monkeypatch.setenv("COMFYRAIL_API_KEY", key)
        yield process


def _advice(data: Path) -> str:
    return comfyrail("users", "list", "--data", str(data)).stderr


def test_the_key_file_goes_with_its_key(guarded: Comfyrail) -> None:
    data = guarded.data
    key_file = data / "admin.key"
    other = comfyrail("keys", "create", "admin.key", "--user", "admin").stdout.split("_")[1]
    assert comfyrail("keys", "revoke", other).returncode == 0
    assert key_file.exists()
    assert "admin.key" in _advice(data)
    assert comfyrail("keys", "revoke", key_file.read_text().split("_")[1]).returncode == 0
    assert not key_file.exists()
    assert "A server uses" in _advice(data)
    assert "admin.key" not in _advice(data)


def test_the_key_file_goes_with_its_user(guarded: Comfyrail) -> None:
    assert comfyrail("users", "remove", "admin").returncode == 0
    assert not (guarded.data / "admin.key").exists()
    last = comfyrail("users", "remove", "boss")
    assert last.returncode == 2
    assert "last" in last.stderr


def test_the_key_file_goes_without_a_server_too(guarded: Comfyrail) -> None:
    guarded.stop()
    key_id = (guarded.data / "admin.key").read_text().split("_")[1]
    revoked = comfyrail("keys", "revoke", key_id, "--data", str(guarded.data))
    assert revoked.returncode == 0, revoked.stderr
    assert not (guarded.data / "admin.key").exists()
