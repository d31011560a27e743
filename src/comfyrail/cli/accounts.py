"""What `comfyrail users`, `keys`, `audit` and `blocks` do."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import typer

from comfyrail.cli.access_desk import Desk
from comfyrail.cli.exits import WRONG_USE, explain_and_exit
from comfyrail.cli.tables import add_row, ago, new_table, print_table
from comfyrail.cli.terminal import errors, plain, say
from comfyrail.client.access import ApiKey, QuotaLimits, User

QUOTAS = ("jobs", "gpu_seconds", "storage_bytes")


@dataclass(frozen=True, slots=True)
class UserWish:
    tenant: str | None
    tier: str | None
    permissions: tuple[str, ...]
    quotas: tuple[str, ...]
    disabled: bool | None = None

    def fields(self) -> dict[str, Any]:
        """What was given, as the API names it."""
        given = {
            "tenant": self.tenant,
            "tier": self.tier,
            "permissions": list(self.permissions) or None,
            "quotas": read_quotas(self.quotas) or None,
            "disabled": self.disabled,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class KeyWish:
    name: str
    user: str | None
    permissions: tuple[str, ...]
    expires_at: datetime | None

    def fields(self) -> dict[str, Any]:
        given = {
            "user_id": self.user,
            "permissions": list(self.permissions) or None,
            "expires_at": None if self.expires_at is None else self.expires_at.isoformat(),
        }
        return {name: value for name, value in given.items() if value is not None}


def read_quotas(texts: Sequence[str]) -> dict[str, float | None]:
    """NAME=LIMIT each, or the end of the command."""
    quotas: dict[str, float | None] = {}
    for text in texts:
        name, _, limit = text.partition("=")
        name, limit = name.strip().replace("-", "_"), limit.strip()
        try:
            number = None if limit == "none" else float(limit)
        except ValueError:
            number = -1.0
        if name not in QUOTAS or (number is not None and not 0 <= number <= 1 << 53):
            explain_and_exit(
                f"Write it like --quota jobs=1000, with one of {', '.join(QUOTAS)} and a number or "
                f"none, not {text!r}.",
                WRONG_USE,
            )
        is_whole = number is not None and name != "gpu_seconds"
        quotas[name] = int(number) if is_whole and number is not None else number
    return quotas


def create_key(desk: Desk, wish: KeyWish) -> None:
    if desk.data is not None and wish.user is None:
        explain_and_exit("Say whose key it is: --user USER_ID.", WRONG_USE)
    made = desk.do(lambda access: access.make_key(wish.name, **wish.fields()))
    until = f" until {made.expires_at.astimezone():%Y-%m-%d %H:%M}" if made.expires_at else ""
    _tell(
        f"The key {made.key_id} of {made.user_id} for {', '.join(made.permissions)}{until}. It is "
        "shown only here; whoever has it may use it."
    )
    typer.echo(made.key)


def list_keys(desk: Desk, user: str | None) -> None:
    if desk.data is not None and user is None:
        user = "*"
    keys = desk.do(lambda access: access.keys(user))
    table = new_table("Key", "User", "Name", "State", "Made", "Last used", "Permissions")
    for key in keys:
        add_row(
            table,
            key.key_id,
            key.user_id,
            key.name,
            _state(key),
            ago(key.created_at),
            ago(key.last_used_at) if key.last_used_at else "never",
            ", ".join(key.permissions),
        )
    print_table(table)


def revoke_key(desk: Desk, key_id: str) -> None:
    desk.do(lambda access: access.revoke_key(key_id))
    say(f"{key_id} counts no more.")


def add_user(desk: Desk, user_id: str, wish: UserWish) -> None:
    user = desk.do(lambda access: access.add_user(user_id, **wish.fields()))
    _describe(user)
    where = f" --data {desk.data}" if desk.data is not None else ""
    _tell(f"Make a key with: comfyrail keys create --user {user.user_id}{where}")


def list_users(desk: Desk) -> None:
    users = desk.do(lambda access: access.users())
    table = new_table("User", "Tenant", "Tier", "State", "Quotas", "Permissions")
    for user in users:
        add_row(
            table,
            user.user_id,
            user.tenant,
            user.tier,
            "disabled" if user.disabled else "",
            _quotas(user.quotas),
            ", ".join(user.permissions),
        )
    print_table(table)


def show_user(desk: Desk, user_id: str) -> None:
    _describe(desk.do(lambda access: access.user(user_id)))


def change_user(desk: Desk, user_id: str, wish: UserWish) -> None:
    fields = wish.fields()
    if not fields:
        explain_and_exit("Say what is to change, such as --tier pro.", WRONG_USE)
    _describe(desk.do(lambda access: access.change_user(user_id, **fields)))


def remove_user(desk: Desk, user_id: str) -> None:
    desk.do(lambda access: access.remove_user(user_id))
    say(f"{user_id} is gone, and the user's keys are revoked.")


def show_audit(desk: Desk, actor: str | None, act: str | None, limit: int) -> None:
    entries = desk.do(lambda access: access.audit(actor, act, limit))
    table = new_table("When", "Who", "Act", "What", "From", "Details")
    for entry in entries:
        add_row(
            table,
            ago(entry.at),
            entry.actor,
            entry.act,
            entry.target,
            entry.address or "",
            json.dumps(entry.details, ensure_ascii=False) if entry.details else "",
        )
    print_table(table)


def add_block(desk: Desk, network: str, reason: str, expires_at: datetime | None) -> None:
    fields: dict[str, Any] = {"reason": reason}
    if expires_at is not None:
        fields["expires_at"] = expires_at.isoformat()
    block = desk.do(lambda access: access.add_block(network, **fields))
    say(f"{block.network} is blocked {_until(block.expires_at)} (block {block.block_id}).")


def list_blocks(desk: Desk) -> None:
    blocks = desk.do(lambda access: access.blocks())
    table = new_table("Block", "Network", "By", "Until", "Reason")
    for block in blocks:
        until = _until(block.expires_at)
        add_row(table, block.block_id, block.network, block.created_by, until, block.reason)
    print_table(table)


def remove_block(desk: Desk, block_id: str) -> None:
    desk.do(lambda access: access.remove_block(block_id))
    say(f"{block_id} is gone.")


def _describe(user: User) -> None:
    state = ", disabled" if user.disabled else ""
    say(f"{user.user_id}: tenant {user.tenant}, tier {user.tier}{state}.")
    say(f"Permissions: {', '.join(user.permissions) or 'none'}")
    say(f"Quotas: {_quotas(user.quotas) or 'none'}")


def _quotas(quotas: QuotaLimits) -> str:
    given = {name: getattr(quotas, name) for name in QUOTAS}
    return ", ".join(f"{name}={limit:g}" for name, limit in given.items() if limit is not None)


def _state(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "valid"
    is_over = key.expires_at <= datetime.now(key.expires_at.tzinfo)
    return "expired" if is_over else f"valid {_until(key.expires_at)}"


def _until(moment: datetime | None) -> str:
    return "for good" if moment is None else f"until {moment.astimezone():%Y-%m-%d %H:%M}"


def _tell(text: str) -> None:
    """Beside the results."""
    errors.print(plain(text), soft_wrap=True)
