"""Users and API keys: who gets in, and with what [11.1]."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from comfyrail.access.keys import new_key, read_key
from comfyrail.access.permissions import ALL, OF_USERS, Permission
from comfyrail.clock import after
from comfyrail.errors import (
    Conflict,
    Forbidden,
    KeyNotFound,
    MalformedRequest,
    Unauthorized,
    UserNotFound,
)
from comfyrail.jobs.quotas import Quotas
from comfyrail.usecases.account_rules import NewKey, NewUser, UserChange
from comfyrail.usecases.accounts import CACHE_SECONDS, USE_NOTED_SECONDS, Accounts
from tests.access.account_parts import ADMIN, AccountsKit, accounts_kit, somebody


@pytest.fixture
async def kit(tmp_path: Path) -> AsyncIterator[AccountsKit]:
    async with accounts_kit(tmp_path) as made:
        yield made


async def ada_with_key(kit: AccountsKit, **wishes: object) -> str:
    await kit.accounts.add_user(ADMIN, NewUser("ada"))
    made = await kit.accounts.make_key(ADMIN, NewKey("farm", "ada", **wishes))  # type: ignore[arg-type]
    return made.text


def contents_of(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.iterdir()]


async def refusal_of(kit: AccountsKit, text: str) -> str:
    with pytest.raises(Unauthorized) as caught:
        await kit.accounts.principal_of_key(text)
    assert not text or text not in caught.value.message
    return caught.value.code


async def test_a_key_makes_its_user_known(kit: AccountsKit) -> None:
    key = await ada_with_key(kit)
    principal = await kit.accounts.principal_of_key(key)
    assert (principal.user_id, principal.tenant, principal.tier) == ("ada", "ada", "basic")
    assert principal.permissions == OF_USERS
    assert principal.key_id == key.split("_")[1]
    assert principal.is_limited


async def test_a_wrong_secret_is_answered_like_an_unknown_key(kit: AccountsKit) -> None:
    key = await ada_with_key(kit)
    known = read_key(key)
    assert known is not None
    wrong = replace(new_key(), id=known.id).text
    for text in (wrong, new_key().text, key[:-1], key + "a", f" {key}", "", "crk_", "x" * 10_000):
        assert await refusal_of(kit, text) == "KEY_UNKNOWN"
    await kit.accounts.principal_of_key(key)
    assert await refusal_of(kit, wrong) == "KEY_UNKNOWN"


async def test_a_revoked_key_counts_no_more_from_the_next_request_on(kit: AccountsKit) -> None:
    key = await ada_with_key(kit)
    principal = await kit.accounts.principal_of_key(key)
    await kit.accounts.revoke_key(ADMIN, principal.key_id or "")
    assert await refusal_of(kit, key) == "KEY_REVOKED"


async def test_a_key_expires(kit: AccountsKit) -> None:
    key = await ada_with_key(kit, expires_at=after(kit.clock.now(), 3))
    await kit.accounts.principal_of_key(key)
    kit.clock.move(3)
    assert await refusal_of(kit, key) == "KEY_EXPIRED"


async def test_a_disabled_user_is_out_at_once_and_back_at_once(kit: AccountsKit) -> None:
    key = await ada_with_key(kit)
    await kit.accounts.principal_of_key(key)
    await kit.accounts.change_user(ADMIN, "ada", UserChange(is_disabled=True))
    assert await refusal_of(kit, key) == "USER_DISABLED"
    with pytest.raises(Unauthorized) as caught:
        await kit.accounts.principal_of_user("ada", "pro", OF_USERS)
    assert caught.value.code == "USER_DISABLED"
    await kit.accounts.change_user(ADMIN, "ada", UserChange(is_disabled=False))
    await kit.accounts.principal_of_key(key)


async def test_keys_of_a_removed_user_stay_revoked_when_the_name_is_taken_again(
    kit: AccountsKit,
) -> None:
    key = await ada_with_key(kit)
    await kit.accounts.remove_user("ada")
    assert await refusal_of(kit, key) == "KEY_REVOKED"
    await kit.accounts.add_user(ADMIN, NewUser("ada"))
    assert await refusal_of(kit, key) == "KEY_REVOKED"


async def test_another_server_hears_of_a_change_within_seconds(kit: AccountsKit) -> None:
    key = await ada_with_key(kit)
    other = Accounts(kit.store, kit.clock)
    principal = await other.principal_of_key(key)
    await kit.accounts.revoke_key(ADMIN, principal.key_id or "")
    await other.principal_of_key(key)
    kit.clock.move(CACHE_SECONDS + 0.1)
    with pytest.raises(Unauthorized):
        await other.principal_of_key(key)


async def test_what_is_being_read_while_it_changes_is_not_kept(kit: AccountsKit) -> None:
    key = await ada_with_key(kit)
    key_id = key.split("_")[1]
    for _ in range(20):
        kit.accounts._forget()
        await asyncio.gather(
            kit.accounts.principal_of_key(key),
            kit.accounts.change_user(ADMIN, "ada", UserChange(tier="free")),
        )
        assert (await kit.accounts.principal_of_key_id(key_id)).tier == "free"
        await kit.accounts.change_user(ADMIN, "ada", UserChange(tier="pro"))


async def test_a_key_gives_what_it_and_its_user_both_have(kit: AccountsKit) -> None:
    key = await ada_with_key(kit, permissions=["jobs:read", "jobs:write"])
    principal = await kit.accounts.principal_of_key(key)
    assert principal.permissions == {Permission.JOBS_READ, Permission.JOBS_WRITE}
    await kit.accounts.change_user(ADMIN, "ada", UserChange(permissions=["jobs:read"]))
    assert (await kit.accounts.principal_of_key(key)).permissions == {Permission.JOBS_READ}


async def test_a_key_gives_no_more_than_its_maker_has(kit: AccountsKit) -> None:
    await kit.accounts.add_user(ADMIN, NewUser("ada"))
    narrow = replace(
        somebody("ada", Permission.KEYS_WRITE, Permission.JOBS_READ), tenant=ADMIN.tenant
    )
    with pytest.raises(Forbidden):
        await kit.accounts.make_key(narrow, NewKey("more", permissions=["jobs:write"]))
    made = await kit.accounts.make_key(narrow, NewKey("as much"))
    principal = await kit.accounts.principal_of_key(made.text)
    assert principal.permissions == narrow.permissions


async def test_a_key_that_a_key_has_made_lasts_no_longer(kit: AccountsKit) -> None:
    end = after(kit.clock.now(), 60)
    maker = await kit.accounts.principal_of_key(await ada_with_key(kit, expires_at=end))
    forever = await kit.accounts.make_key(maker, NewKey("for ever"))
    longer = await kit.accounts.make_key(maker, NewKey("longer", expires_at=after(end, 60)))
    assert forever.key.expires_at == longer.key.expires_at == end


async def test_nobody_gives_a_user_what_she_has_not(kit: AccountsKit) -> None:
    clerk = somebody("clerk", Permission.ACCESS_ADMIN, Permission.JOBS_READ)
    with pytest.raises(Forbidden):
        await kit.accounts.add_user(clerk, NewUser("eve", permissions=["*"]))
    await kit.accounts.add_user(clerk, NewUser("eve", permissions=["jobs:read"]))
    with pytest.raises(Forbidden):
        await kit.accounts.change_user(clerk, "eve", UserChange(permissions=["fleet:write"]))
    await kit.accounts.change_user(clerk, "eve", UserChange(permissions=[]))


async def test_users_see_and_revoke_their_own_keys_only(kit: AccountsKit) -> None:
    key = await ada_with_key(kit)
    key_id = key.split("_")[1]
    await kit.accounts.add_user(ADMIN, NewUser("eve", tenant="ada"))
    eve = somebody("eve", Permission.KEYS_WRITE)
    assert await kit.accounts.list_keys(eve, None, "", 10) == ([], None)
    for whose in ("ada", "*"):
        with pytest.raises(Forbidden):
            await kit.accounts.list_keys(eve, whose, "", 10)
    with pytest.raises(Forbidden):
        await kit.accounts.make_key(eve, NewKey("hers", "ada"))
    for unseen in (key_id, "a" * 12):
        with pytest.raises(KeyNotFound):
            await kit.accounts.revoke_key(eve, unseen)
    await kit.accounts.principal_of_key(key)


async def test_secrets_are_nowhere_in_the_database_and_in_no_repr(tmp_path: Path) -> None:
    async with accounts_kit(tmp_path) as kit:
        await kit.accounts.add_user(ADMIN, NewUser("ada"))
        made = await kit.accounts.make_key(ADMIN, NewKey("farm", "ada"))
        listed, _ = await kit.accounts.list_keys(ADMIN, "*", "", 10)
    secret = made.text.split("_", 2)[2]
    shown = repr((made, made.key, listed, read_key(made.text)))
    assert made.key.id in shown
    assert secret not in shown
    contents = await asyncio.to_thread(contents_of, tmp_path)
    assert any(made.key.id.encode() in content for content in contents)
    assert not any(secret.encode() in content for content in contents)


async def test_the_use_of_a_key_is_noted_once_a_minute(kit: AccountsKit) -> None:
    key = await ada_with_key(kit)
    key_id = key.split("_")[1]

    async def last_used() -> int | None:
        await kit.store._writer.chores.do_all()
        found = await kit.store.get_key(key_id)
        assert found is not None
        return found[0].last_used_at

    assert await last_used() is None
    await kit.accounts.principal_of_key(key)
    first = kit.clock.now()
    assert await last_used() == first
    kit.clock.move(USE_NOTED_SECONDS - 1)
    await kit.accounts.principal_of_key(key)
    assert await last_used() == first
    kit.clock.move(1)
    await kit.accounts.principal_of_key(key)
    assert await last_used() == kit.clock.now()


async def test_a_token_names_a_user_of_the_table_or_her_own_tenant(kit: AccountsKit) -> None:
    alone = await kit.accounts.principal_of_user("mary", "premium", ALL)
    assert (alone.tenant, alone.tier, alone.permissions) == ("mary", "premium", ALL)
    assert alone.is_limited
    await kit.accounts.add_user(ADMIN, NewUser("mary", tenant="acme", permissions=["jobs:read"]))
    hers = await kit.accounts.principal_of_user("mary", "premium", ALL)
    assert hers.tenant == "acme"
    assert hers.permissions == {Permission.JOBS_READ}


@pytest.mark.parametrize(
    "user_id", ["", "local", "gate", "a b", "x" * 65, "../etc", ".", "-x", "a\n", "é"]
)
async def test_a_token_cannot_name_what_is_no_user(kit: AccountsKit, user_id: str) -> None:
    with pytest.raises(Unauthorized) as caught:
        await kit.accounts.principal_of_user(user_id, "pro", ALL)
    assert caught.value.code == "USER_ID_REFUSED"
    with pytest.raises(MalformedRequest):
        await kit.accounts.add_user(ADMIN, NewUser(user_id))


async def test_a_token_cannot_walk_into_a_tenant_of_others(kit: AccountsKit) -> None:
    await kit.accounts.add_user(ADMIN, NewUser("mary", tenant="acme"))
    with pytest.raises(Unauthorized) as caught:
        await kit.accounts.principal_of_user("acme", "pro", ALL)
    assert caught.value.code == "USER_ID_REFUSED"


async def test_users_are_listed_in_pages_and_there_is_one_of_each_name(kit: AccountsKit) -> None:
    for name in ("c", "a", "b"):
        await kit.accounts.add_user(ADMIN, NewUser(name))
    with pytest.raises(Conflict):
        await kit.accounts.add_user(ADMIN, NewUser("a"))
    first, cursor = await kit.accounts.list_users("", 2)
    rest, end = await kit.accounts.list_users(cursor or "", 2)
    assert [user.id for user in (*first, *rest)] == ["a", "b", "c"]
    assert end is None
    with pytest.raises(UserNotFound):
        await kit.accounts.get_user("d")


@pytest.mark.parametrize(
    "wanted",
    [
        NewUser("a", tier="gold"),
        NewUser("a", tenant=".."),
        NewUser("a", permissions=["jobs"]),
        NewUser("a", quotas=Quotas(jobs=-1)),
        NewUser("a", quotas=Quotas(gpu_seconds=float("nan"))),
    ],
)
async def test_what_is_no_user_is_not_added(kit: AccountsKit, wanted: NewUser) -> None:
    with pytest.raises(MalformedRequest):
        await kit.accounts.add_user(ADMIN, wanted)


async def test_changes_at_the_same_time_are_all_made(kit: AccountsKit) -> None:
    await kit.accounts.add_user(ADMIN, NewUser("ada"))
    await asyncio.gather(
        kit.accounts.change_user(ADMIN, "ada", UserChange(tier="pro")),
        kit.accounts.change_user(ADMIN, "ada", UserChange(quotas={"jobs": 5})),
        kit.accounts.change_user(ADMIN, "ada", UserChange(quotas={"gpu_seconds": 7})),
    )
    user = await kit.accounts.get_user("ada")
    assert (user.tier, user.quotas) == ("pro", Quotas(jobs=5, gpu_seconds=7))
