"""`comfyrail keys`: API keys."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from comfyrail.cli.options import DEFAULT_SERVER, OfflineDataOption, ServerOption

keys_app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)

UserOption = Annotated[str | None, typer.Option("--user", help="Whose key it is.")]


@keys_app.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What it is for.")] = "command line",
    user: UserOption = None,
    permission: Annotated[
        list[str] | None,
        typer.Option(help="What it may do, such as jobs:read (default: all that its user may)."),
    ] = None,
    days: Annotated[
        float | None, typer.Option(min=0.01, max=36500, help="It expires after so many days.")
    ] = None,
    server: ServerOption = DEFAULT_SERVER,
    data: OfflineDataOption = None,
) -> None:
    """Make a key and write it, and nothing else, to standard output."""
    from comfyrail.cli import accounts
    from comfyrail.cli.access_desk import Desk

    expires_at = None if days is None else datetime.now(UTC) + timedelta(days=days)
    wish = accounts.KeyWish(name, user, tuple(permission or ()), expires_at)
    accounts.create_key(Desk(server, data), wish)


@keys_app.command("list")
def list_keys(
    user: Annotated[
        str | None, typer.Option("--user", help="Those of another user; '*' for all.")
    ] = None,
    server: ServerOption = DEFAULT_SERVER,
    data: OfflineDataOption = None,
) -> None:
    """List keys, without their secrets."""
    from comfyrail.cli import accounts
    from comfyrail.cli.access_desk import Desk

    accounts.list_keys(Desk(server, data), user)


@keys_app.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="The key's id, as the list shows it.")],
    server: ServerOption = DEFAULT_SERVER,
    data: OfflineDataOption = None,
) -> None:
    """Make a key count no more, at once."""
    from comfyrail.cli import accounts
    from comfyrail.cli.access_desk import Desk

    accounts.revoke_key(Desk(server, data), key_id)
