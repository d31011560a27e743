"""`comfyrail users`: who may use a server."""

from typing import Annotated

import typer

from comfyrail.cli.options import DEFAULT_SERVER, OfflineDataOption, ServerOption

users_app = typer.Typer(help="Add, list, change and remove users.", no_args_is_help=True)

UserArgument = Annotated[str, typer.Argument(help="The user's id.")]
TenantOption = Annotated[
    str | None,
    typer.Option(help="Whose jobs and files the user sees (default: a tenant of the same name)."),
]
TierOption = Annotated[
    str | None, typer.Option(help="free, basic, pro, premium or enterprise (default: basic).")
]
PermissionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--permission", help="What the user may do, such as jobs:read; '*' is all (many times)."
    ),
]
QuotaOption = Annotated[
    list[str] | None,
    typer.Option(
        "--quota",
        help="NAME=LIMIT of jobs, gpu_seconds or storage_bytes; none is no limit (many times).",
    ),
]


@users_app.command("add")
def add_user(
    user_id: UserArgument,
    tenant: TenantOption = None,
    tier: TierOption = None,
    permission: PermissionOption = None,
    quota: QuotaOption = None,
    server: ServerOption = DEFAULT_SERVER,
    data: OfflineDataOption = None,
) -> None:
    """Add a user. A key for the user is made with: comfyrail keys create --user."""
    from comfyrail.cli import accounts
    from comfyrail.cli.access_desk import Desk

    wish = accounts.UserWish(tenant, tier, tuple(permission or ()), tuple(quota or ()))
    accounts.add_user(Desk(server, data), user_id, wish)


@users_app.command("list")
def list_users(server: ServerOption = DEFAULT_SERVER, data: OfflineDataOption = None) -> None:
    """List all users."""
    from comfyrail.cli import accounts
    from comfyrail.cli.access_desk import Desk

    accounts.list_users(Desk(server, data))


@users_app.command("show")
def show_user(
    user_id: UserArgument, server: ServerOption = DEFAULT_SERVER, data: OfflineDataOption = None
) -> None:
    """Show one user: permissions and quotas."""
    from comfyrail.cli import accounts
    from comfyrail.cli.access_desk import Desk

    accounts.show_user(Desk(server, data), user_id)


@users_app.command("change")
def change_user(
    user_id: UserArgument,
    tenant: TenantOption = None,
    tier: TierOption = None,
    permission: PermissionOption = None,
    quota: QuotaOption = None,
    disable: Annotated[
        bool | None,
        typer.Option("--disable/--enable", help="Let the user in no more, or again."),
    ] = None,
    server: ServerOption = DEFAULT_SERVER,
    data: OfflineDataOption = None,
) -> None:
    """Change a user: what is given, at once."""
    from comfyrail.cli import accounts
    from comfyrail.cli.access_desk import Desk

    wish = accounts.UserWish(tenant, tier, tuple(permission or ()), tuple(quota or ()), disable)
    accounts.change_user(Desk(server, data), user_id, wish)


@users_app.command("remove")
def remove_user(
    user_id: UserArgument, server: ServerOption = DEFAULT_SERVER, data: OfflineDataOption = None
) -> None:
    """Remove a user and revoke the user's keys. Jobs and files stay."""
    from comfyrail.cli import accounts
    from comfyrail.cli.access_desk import Desk

    accounts.remove_user(Desk(server, data), user_id)
