"""`comfyrail queue`: that of a server."""

from typing import Annotated

import typer

from comfyrail.cli.options import DEFAULT_SERVER, SameServerOption, ServerOption

queue_app = typer.Typer(help="Look at the queue, pause and resume it.")


@queue_app.callback(invoke_without_command=True)
def queue(context: typer.Context, server: ServerOption = DEFAULT_SERVER) -> None:
    """Show what waits, by class, and how long."""
    context.obj = server
    if context.invoked_subcommand is None:
        show_queue(context, server)


@queue_app.command("show")
def show_queue(context: typer.Context, server: SameServerOption = None) -> None:
    """Show what waits, by class, and how long."""
    from comfyrail.cli import fleet

    fleet.show_queue(server or context.obj)


@queue_app.command("pause")
def pause_queue(
    context: typer.Context,
    reason: Annotated[str | None, typer.Option(help="Shown to whoever asks.")] = None,
    server: SameServerOption = None,
) -> None:
    """Start no more jobs; running ones go on, new ones wait."""
    from comfyrail.cli import fleet

    fleet.pause_queue(server or context.obj, reason)


@queue_app.command("resume")
def resume_queue(context: typer.Context, server: SameServerOption = None) -> None:
    """Start jobs again."""
    from comfyrail.cli import fleet

    fleet.resume_queue(server or context.obj)
