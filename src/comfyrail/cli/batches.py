"""`comfyrail batches`: many jobs under one id."""

from pathlib import Path
from typing import Annotated

import typer

from comfyrail.cli.options import (
    DEFAULT_SERVER,
    AutoFixOption,
    LimitOption,
    OptimizeOption,
    SameServerOption,
    ServerOption,
)
from comfyrail.cli.queue_options import (
    LabelOption,
    MaxRetriesOption,
    NotBeforeOption,
    QueueTimeoutOption,
    check_priority,
    queue_wishes,
)

batches_app = typer.Typer(help="Run many jobs as one: lists, grids, comparisons, searches.")

BatchArgument = Annotated[str, typer.Argument(help="The batch's id, as the list shows it.")]


@batches_app.callback(invoke_without_command=True)
def batches(
    context: typer.Context, server: ServerOption = DEFAULT_SERVER, limit: LimitOption = 20
) -> None:
    """List the newest batches."""
    context.obj = server
    if context.invoked_subcommand is None:
        list_batches(context, server, limit)


@batches_app.command("list")
def list_batches(
    context: typer.Context, server: SameServerOption = None, limit: LimitOption = 20
) -> None:
    """List the newest batches."""
    from comfyrail.cli import batch_listings

    batch_listings.show_batches(server or context.obj, limit)


@batches_app.command("submit")
def submit_batch(
    context: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            help="A workflow: JSON in either of ComfyUI's formats, a PNG or a WebP; or the name of "
            "one in the server's library."
        ),
    ],
    batch: Annotated[
        Path | None,
        typer.Argument(help="A batch file, YAML or JSON: items, grid, variants or search."),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            help="Try several values: NODE.INPUT=A,B,C or NODE.INPUT=[JSON list]. More than one "
            "option: all combinations.",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Run it so often, each time with another seed.")
    ] = None,
    seed_input: Annotated[
        str | None, typer.Option(help="NODE.INPUT of the seed that --count sets.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Set an input of all jobs: NODE.INPUT=VALUE.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What to call the batch.")] = None,
    priority: Annotated[
        int | None,
        typer.Option(
            callback=check_priority,
            help="1 (lowest) to 10 (highest); default: the jobs wait for quiet times.",
        ),
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds that each job may run.")] = None,
    queue_timeout: QueueTimeoutOption = None,
    max_retries: MaxRetriesOption = None,
    not_before: NotBeforeOption = None,
    label: LabelOption = None,
    stop_on_error: Annotated[
        bool, typer.Option("--stop-on-error", help="Cancel the rest after the first failure.")
    ] = False,
    auto_fix: AutoFixOption = False,
    optimize: OptimizeOption = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Print the batch's id and do not wait for its end.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder for the results (default: not fetched)."),
    ] = None,
    server: SameServerOption = None,
) -> None:
    """Submit a batch, show its progress, wait for its end, and fetch its results."""
    from comfyrail.cli import batch_runs

    options = {
        "name": name,
        "priority": priority,
        "timeout": timeout,
        "stop_on_error": stop_on_error or None,
        "auto_fix": auto_fix or None,
        "optimize": optimize or None,
        **queue_wishes(label or (), not_before, queue_timeout, max_retries),
    }
    request = batch_runs.BatchRun(
        file=file,
        batch_file=batch,
        vary=tuple(vary or ()),
        count=count,
        seed_input=seed_input,
        settings=tuple(set_ or ()),
        options={key: value for key, value in options.items() if value is not None},
        detach=detach,
        output=output,
    )
    batch_runs.submit_batch(server or context.obj, request)


@batches_app.command("show")
def show_batch(
    context: typer.Context,
    batch_id: BatchArgument,
    jobs: Annotated[bool, typer.Option("--jobs", help="List its jobs too.")] = False,
    server: SameServerOption = None,
) -> None:
    """Show how far a batch is, and the best trial of a search."""
    from comfyrail.cli import batch_listings

    batch_listings.show_batch(server or context.obj, batch_id, with_jobs=jobs)


@batches_app.command("fetch")
def fetch_batch(
    context: typer.Context,
    batch_id: BatchArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")] = Path(
        "out"
    ),
    server: SameServerOption = None,
) -> None:
    """Fetch the results of a batch's jobs; of those that have ended, while it runs."""
    from comfyrail.cli import batch_runs

    batch_runs.fetch_batch(server or context.obj, batch_id, output)


# A score below 0 is no option.
@batches_app.command("score", context_settings={"ignore_unknown_options": True})
def score_job(
    context: typer.Context,
    batch_id: BatchArgument,
    job: Annotated[
        str, typer.Argument(help="The job's id, or its number in the batch: show --jobs has both.")
    ],
    score: Annotated[float, typer.Argument(help="What it is worth, a number.")],
    server: SameServerOption = None,
) -> None:
    """Say what a trial of a search is worth, where no node of the workflow says it."""
    from comfyrail.cli import batch_listings

    batch_listings.score_job(server or context.obj, batch_id, job, score)


@batches_app.command("cancel")
def cancel_batch(
    context: typer.Context, batch_id: BatchArgument, server: SameServerOption = None
) -> None:
    """Cancel all jobs of a batch, queued or running."""
    from comfyrail.cli import batch_listings

    batch_listings.cancel_batch(server or context.obj, batch_id)
