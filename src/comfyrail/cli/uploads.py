"""`comfyrail uploads`: files on a server."""

from pathlib import Path
from typing import Annotated

import typer

from comfyrail.cli.options import DEFAULT_SERVER, LimitOption, SameServerOption, ServerOption

uploads_app = typer.Typer(help="Give files to a server, list them, remove them.")


@uploads_app.callback(invoke_without_command=True)
def uploads(context: typer.Context, server: ServerOption = DEFAULT_SERVER) -> None:
    """List the files."""
    context.obj = server
    if context.invoked_subcommand is None:
        list_uploads(context, server=server)


@uploads_app.command("list")
def list_uploads(
    context: typer.Context, limit: LimitOption = 50, server: SameServerOption = None
) -> None:
    """List the files, newest first."""
    from comfyrail.cli import given_files

    given_files.show_files(server or context.obj, limit)


@uploads_app.command("add")
def add_upload(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of this machine.")],
    name: Annotated[
        str | None, typer.Option(help="What it is called there (default: as it is here).")
    ] = None,
    expires_in: Annotated[
        float | None,
        typer.Option(help="Seconds that it is kept, 60 to 604800 (default: always)."),
    ] = None,
    server: SameServerOption = None,
) -> None:
    """Give files to the server; a large one goes on where the line broke."""
    from comfyrail.cli import given_files

    given_files.add_files(server or context.obj, files, name, expires_in)


@uploads_app.command("remove")
def remove_upload(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(help="The file's id, as the list shows it, or its name: the newest.")
    ],
    server: SameServerOption = None,
) -> None:
    """Remove a file, unless a job that has not ended uses it."""
    from comfyrail.cli import given_files

    given_files.remove_file(server or context.obj, file)
