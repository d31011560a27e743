"""Somebody must be able to let others in: the first administrator, and where her key lies."""

import asyncio
import os
from pathlib import Path

import structlog

from comfyrail.access.permissions import EVERYTHING
from comfyrail.access.principal import LOCAL_USER, Principal
from comfyrail.errors import ConfigurationError, UserNotFound
from comfyrail.usecases.account_rules import NewKey, NewUser
from comfyrail.usecases.accounts import Accounts

KEY_FILE = "admin.key"
ADMIN = "admin"
TIER = "enterprise"
THE_SERVER = Principal(LOCAL_USER.tenant, user_id="server")

log = structlog.get_logger(__name__)


async def ensure_first_admin(accounts: Accounts, folder: Path) -> None:
    """Make a user with all permissions where nobody could let others in, and leave her key in the
    data folder for its owner alone to read. What was made while access was off is hers.
    """
    if await accounts.has_admin():
        return
    user_id = await _free_name(accounts)
    wanted = NewUser(user_id, LOCAL_USER.tenant, TIER, (EVERYTHING,))
    await accounts.add_user(THE_SERVER, wanted)
    path = folder / KEY_FILE
    try:
        made = await accounts.make_key(THE_SERVER, NewKey(KEY_FILE, user_id))
        await asyncio.to_thread(_write_private, path, made.text)
    except OSError as error:
        # The next start tries again.
        await accounts.remove_user(user_id, is_last_allowed=True)
        raise ConfigurationError(
            f"The key of the first administrator cannot be written to {path}: {error.strerror}. "
            "Make the folder writable."
        ) from error
    log.warning("first_admin_made", user_id=user_id, key_file=str(path.absolute()))


async def drop_dead_key(accounts: Accounts, folder: Path) -> None:
    """Delete the file of the first administrator's key where that was revoked: nobody is to look
    for a way in there.
    """
    path = folder / KEY_FILE
    try:
        text = (await asyncio.to_thread(path.read_text, encoding="ascii")).strip()
        if await accounts.is_revoked(text):
            await asyncio.to_thread(path.unlink, missing_ok=True)
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        log.warning("key_file_left", key_file=str(path), error=str(error))


async def _free_name(accounts: Accounts) -> str:
    """Another one where a user of that name is there and is no administrator any more."""
    name, number = ADMIN, 1
    while True:
        try:
            await accounts.get_user(name)
        except UserNotFound:
            return name
        number += 1
        name = f"{ADMIN}-{number}"


def _write_private(path: Path, text: str) -> None:
    """At no time can others read it, and it is there whole or not at all."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{text}\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
