"""`comfyrail outputs`: what jobs have made."""

from pathlib import Path
from typing import Annotated

import typer

from comfyrail.cli.options import DEFAULT_SERVER, LimitOption, SameServerOption, ServerOption

outputs_app = typer.Typer(help="Find what jobs have made, download it, share it, remove it.")

OutputArgument = Annotated[str, typer.Argument(help="The output's id, as the list shows it.")]
TextOption = Annotated[
    str | None, typer.Option(help="Words of its prompt or other texts of its graph, or its name.")
]
KindOption = Annotated[
    list[str] | None, typer.Option(help="image, video, audio, text … or image/png; repeatable.")
]
WorkflowOption = Annotated[
    str | None, typer.Option(help="Made by this workflow of the library: NAME or NAME@VERSION.")
]
SinceOption = Annotated[
    str | None, typer.Option(help="Made at or after this time: 2026-01-31 or with a time.")
]
BeforeOption = Annotated[str | None, typer.Option(help="Made before this time.")]


@outputs_app.callback(invoke_without_command=True)
def outputs(context: typer.Context, server: ServerOption = DEFAULT_SERVER) -> None:
    """List the newest outputs."""
    context.obj = server
    if context.invoked_subcommand is None:
        list_outputs(context, server=server)


@outputs_app.command("list")
def list_outputs(
    context: typer.Context,
    text: TextOption = None,
    kind: KindOption = None,
    workflow: WorkflowOption = None,
    node: Annotated[str | None, typer.Option(help="Made by the node of this id.")] = None,
    job: Annotated[str | None, typer.Option(help="Made by this job.")] = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    gone: Annotated[bool, typer.Option("--gone", help="Also those that are gone.")] = False,
    limit: LimitOption = 50,
    server: SameServerOption = None,
) -> None:
    """List outputs of all jobs, newest first."""
    from comfyrail.cli import output_listings

    filters = output_listings.search_filters(text, kind, workflow, since, before)
    filters |= {"node_id": node, "execution_id": job, "gone": "true" if gone else None}
    output_listings.show_outputs(server or context.obj, filters, limit)


@outputs_app.command("show")
def show_output(
    context: typer.Context, output_id: OutputArgument, server: SameServerOption = None
) -> None:
    """Show one output with all that is known of it."""
    from comfyrail.cli import output_listings

    output_listings.show_output(server or context.obj, output_id)


@outputs_app.command("get")
def get_outputs(
    context: typer.Context,
    output_ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Ids of outputs, as the list shows them.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder that they are put in.")
    ] = Path(),
    server: SameServerOption = None,
) -> None:
    """Download outputs; prints the path of each file."""
    from comfyrail.cli import output_listings

    output_listings.download(server or context.obj, output_ids, output)


@outputs_app.command("zip")
def zip_outputs(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The ZIP file to make; it must not be there yet.")],
    job: Annotated[str | None, typer.Option(help="All outputs of this job.")] = None,
    text: TextOption = None,
    kind: KindOption = None,
    workflow: WorkflowOption = None,
    since: SinceOption = None,
    before: BeforeOption = None,
    server: SameServerOption = None,
) -> None:
    """Download all outputs of a job, or what a search finds, as one ZIP file."""
    from comfyrail.cli import output_listings

    filters = output_listings.search_filters(text, kind, workflow, since, before)
    output_listings.download_zip(server or context.obj, file, job, filters)


@outputs_app.command("link")
def link_output(
    context: typer.Context,
    output_id: OutputArgument,
    expires_in: Annotated[
        float, typer.Option(min=1, max=604800, help="Seconds that it can be followed.")
    ] = 3600.0,
    variant: Annotated[
        str | None, typer.Option(help="Of a smaller version, such as thumb_512 or poster.")
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="Browsers save it instead of showing it.")
    ] = False,
    direct: Annotated[
        bool, typer.Option("--direct", help="Of the object storage itself, where there is one.")
    ] = False,
    server: SameServerOption = None,
) -> None:
    """Make a link that anybody may follow until it expires."""
    from comfyrail.cli import output_listings

    output_listings.make_link(
        server or context.obj,
        output_id,
        expires_in,
        variant=variant,
        is_download=download,
        is_direct=direct,
    )


@outputs_app.command("remove")
def remove_outputs(
    context: typer.Context,
    output_ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Ids of outputs, as the list shows them.")
    ],
    server: SameServerOption = None,
) -> None:
    """Remove the files of outputs. What they were stays known."""
    from comfyrail.cli import output_listings

    output_listings.remove(server or context.obj, output_ids)
