"""`comfyrail blocks`: addresses that get no answer."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from comfyrail.cli.options import DEFAULT_SERVER, OfflineDataOption, ServerOption

blocks_app = typer.Typer(help="Block addresses, list and unblock them.", no_args_is_help=True)


@blocks_app.command("add")
def add_block(
    network: Annotated[str, typer.Argument(help="An address, or such as 203.0.113.0/24.")],
    reason: Annotated[str, typer.Option(help="Shown in the list.")] = "",
    hours: Annotated[
        float | None, typer.Option(min=0.01, max=876_000, help="For so long (default: for good).")
    ] = None,
    server: ServerOption = DEFAULT_SERVER,
    data: OfflineDataOption = None,
) -> None:
    """Answer an address or a network with 403 from now on."""
    from comfyrail.cli import accounts
    from comfyrail.cli.access_desk import Desk

    expires_at = None if hours is None else datetime.now(UTC) + timedelta(hours=hours)
    accounts.add_block(Desk(server, data), network, reason, expires_at)


@blocks_app.command("list")
def list_blocks(server: ServerOption = DEFAULT_SERVER, data: OfflineDataOption = None) -> None:
    """List what is blocked, by hand or after many bad credentials."""
    from comfyrail.cli import accounts
    from comfyrail.cli.access_desk import Desk

    accounts.list_blocks(Desk(server, data))


@blocks_app.command("remove")
def remove_block(
    block_id: Annotated[str, typer.Argument(help="The block's id, as the list shows it.")],
    server: ServerOption = DEFAULT_SERVER,
    data: OfflineDataOption = None,
) -> None:
    """Answer these addresses again."""
    from comfyrail.cli import accounts
    from comfyrail.cli.access_desk import Desk

    accounts.remove_block(Desk(server, data), block_id)
