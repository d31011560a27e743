"""`comfyrail workers`: those of a server."""

from pathlib import Path
from typing import Annotated

import typer

from comfyrail.cli.options import DEFAULT_SERVER, SameServerOption, ServerOption

workers_app = typer.Typer(help="Look at workers, add, drain and remove them.")

UrlArgument = Annotated[
    str | None,
    typer.Argument(help="The address of a running one, such as http://127.0.0.1:8188."),
]
WorkerArgument = Annotated[str, typer.Argument(help="The worker's id, as the list shows it.")]


@workers_app.callback(invoke_without_command=True)
def workers(context: typer.Context, server: ServerOption = DEFAULT_SERVER) -> None:
    """List the workers."""
    context.obj = server
    if context.invoked_subcommand is None:
        list_workers(context, server)


@workers_app.command("list")
def list_workers(context: typer.Context, server: SameServerOption = None) -> None:
    """List the workers and how busy they are."""
    from comfyrail.cli import fleet

    fleet.show_workers(server or context.obj)


@workers_app.command("show")
def show_worker(
    context: typer.Context, worker_id: WorkerArgument, server: SameServerOption = None
) -> None:
    """Show one worker: what is wrong with it, and which models fail to load there."""
    from comfyrail.cli import fleet

    fleet.show_worker(server or context.obj, worker_id)


@workers_app.command("add")
def add_worker(
    context: typer.Context,
    url: UrlArgument = None,
    driver: Annotated[
        str | None,
        typer.Option(help="local, process, docker, ssh, novita or kubernetes, instead of a URL."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the driver: NAME=VALUE; JSON where it is one."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A file with the driver's settings, YAML or JSON.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Its id (default: the driver's and a number).")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE: jobs can ask for workers with a label."),
    ] = None,
    server: SameServerOption = None,
) -> None:
    """Add a running ComfyUI or `comfyrail worker` by its URL, or let a driver make one."""
    from comfyrail.cli import fleet

    fleet.add_worker(
        server or context.obj,
        fleet.AddRequest(url, driver, tuple(set_ or ()), config, name, tuple(label or ())),
    )


@workers_app.command("drain")
def drain_worker(
    context: typer.Context, worker_id: WorkerArgument, server: SameServerOption = None
) -> None:
    """Let a worker finish what it has begun and give it nothing more."""
    from comfyrail.cli import fleet

    fleet.change_worker(server or context.obj, worker_id, "drain")


@workers_app.command("cordon")
def cordon_worker(
    context: typer.Context, worker_id: WorkerArgument, server: SameServerOption = None
) -> None:
    """Give a worker no new jobs until it is resumed."""
    from comfyrail.cli import fleet

    fleet.change_worker(server or context.obj, worker_id, "cordon")


@workers_app.command("resume")
def resume_worker(
    context: typer.Context, worker_id: WorkerArgument, server: SameServerOption = None
) -> None:
    """Take a cordoned, drained or blocked worker back."""
    from comfyrail.cli import fleet

    fleet.change_worker(server or context.obj, worker_id, "resume")


@workers_app.command("remove")
def remove_worker(
    context: typer.Context, worker_id: WorkerArgument, server: SameServerOption = None
) -> None:
    """Let go of a worker, and end it if Comfyrail started it."""
    from comfyrail.cli import fleet

    fleet.remove_worker(server or context.obj, worker_id)


@workers_app.command("logs")
def worker_logs(
    context: typer.Context,
    worker_id: WorkerArgument,
    lines: Annotated[int, typer.Option(min=1, max=10_000, help="How many lines.")] = 200,
    server: SameServerOption = None,
) -> None:
    """Show the last lines of what a worker has written."""
    from comfyrail.cli import fleet

    fleet.show_logs(server or context.obj, worker_id, lines)
