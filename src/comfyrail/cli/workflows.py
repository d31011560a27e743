"""`comfyrail workflows`: the library of a server."""

from pathlib import Path
from typing import Annotated

import typer

from comfyrail.cli.options import DEFAULT_SERVER, LimitOption, SameServerOption, ServerOption

workflows_app = typer.Typer(help="Keep workflows on a server: list, save, run by name, share.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The workflow's name.")]
ReferenceArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The workflow's name, or NAME@VERSION.")
]


@workflows_app.callback(invoke_without_command=True)
def workflows(
    context: typer.Context, server: ServerOption = DEFAULT_SERVER, limit: LimitOption = 100
) -> None:
    """List the workflows of the library."""
    context.obj = server
    if context.invoked_subcommand is None:
        list_workflows(context, server, limit)


@workflows_app.command("list")
def list_workflows(
    context: typer.Context, server: SameServerOption = None, limit: LimitOption = 100
) -> None:
    """List the workflows of the library."""
    from comfyrail.cli import library

    library.show_workflows(server or context.obj, limit)


@workflows_app.command("show")
def show_workflow(
    context: typer.Context,
    name: ReferenceArgument,
    json: Annotated[bool, typer.Option("--json", help="Print the workflow itself.")] = False,
    server: SameServerOption = None,
) -> None:
    """Show a workflow with its declared inputs."""
    from comfyrail.cli import library

    library.show_workflow(server or context.obj, name, as_json=json)


@workflows_app.command("save")
def save_workflow(
    context: typer.Context,
    name: NameArgument,
    file: Annotated[Path, typer.Argument(help="The workflow's file, or a folder with all files.")],
    description: Annotated[Path | None, typer.Option(help="A text about it.")] = None,
    inputs: Annotated[Path | None, typer.Option(help="Declared inputs, YAML or JSON.")] = None,
    preview: Annotated[Path | None, typer.Option(help="A picture of it, a PNG.")] = None,
    server: SameServerOption = None,
) -> None:
    """Save a workflow as the next version; what is not given stays as it was."""
    from comfyrail.cli import library

    request = library.SaveRequest(name, file, description, inputs, preview)
    library.save_workflow(server or context.obj, request)


@workflows_app.command("versions")
def show_versions(
    context: typer.Context, name: NameArgument, server: SameServerOption = None
) -> None:
    """List the versions of a workflow, the newest first."""
    from comfyrail.cli import library

    library.show_versions(server or context.obj, name)


@workflows_app.command("delete")
def delete_workflow(
    context: typer.Context,
    name: NameArgument,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
    server: SameServerOption = None,
) -> None:
    """Delete a workflow with all its versions."""
    from comfyrail.cli import library

    library.delete_workflow(server or context.obj, name, is_sure=yes)


@workflows_app.command("export")
def export_workflow(
    context: typer.Context,
    name: ReferenceArgument,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file to write (default NAME.zip).")
    ] = None,
    server: SameServerOption = None,
) -> None:
    """Write a workflow with all its versions, or with one, into one file to share."""
    from comfyrail.cli import library

    library.export_workflow(server or context.obj, name, output)


@workflows_app.command("import")
def import_workflow(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A bundle that was exported.")],
    name: Annotated[str | None, typer.Option(help="Keep it under this name.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Add its versions to a workflow that is there.")
    ] = False,
    server: SameServerOption = None,
) -> None:
    """Keep a workflow that was exported."""
    from comfyrail.cli import library

    library.import_workflow(server or context.obj, file, name, replace=replace)
