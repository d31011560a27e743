"""`comfyrail`: one command, a subcommand for each thing to do.

Exit codes: 0 done, 1 the job failed or a check found a fault, 2 wrong use or a workflow that
cannot run, 3 the server cannot be reached or cannot start, 129, 130 and 143 ended by a signal.
"""

from comfyrail.cli.signals import quiet_interrupts

with quiet_interrupts():
    import sys
    from pathlib import Path
    from typing import Annotated

    import typer

    from comfyrail import __version__
    from comfyrail.cli.batches import batches_app
    from comfyrail.cli.bench import bench_app
    from comfyrail.cli.blocks import blocks_app
    from comfyrail.cli.exits import CANNOT_START, INTERRUPTED, WRONG_USE, explain_and_exit
    from comfyrail.cli.keys import keys_app
    from comfyrail.cli.options import (
        DEFAULT_SERVER,
        AutoFixOption,
        CatalogDataOption,
        CatalogOption,
        CheckServerOption,
        FileArgument,
        LimitOption,
        OfflineDataOption,
        OptimizeOption,
        SameServerOption,
        ServerOption,
        SetOption,
    )
    from comfyrail.cli.outputs import outputs_app
    from comfyrail.cli.queue import queue_app
    from comfyrail.cli.queue_options import (
        LabelOption,
        MaxRetriesOption,
        NotBeforeOption,
        QueueTimeoutOption,
        check_priority,
        queue_wishes,
    )
    from comfyrail.cli.terminal import accept_any_text
    from comfyrail.cli.uploads import uploads_app
    from comfyrail.cli.users import users_app
    from comfyrail.cli.webhooks import webhooks_app
    from comfyrail.cli.workers import workers_app
    from comfyrail.cli.workflows import workflows_app
    from comfyrail.errors import ConfigurationError

app = typer.Typer(
    help="Run ComfyUI workflows on a fleet of workers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
jobs_app = typer.Typer(help="Look at jobs and stop them.")
app.add_typer(jobs_app, name="jobs")
app.add_typer(batches_app, name="batches")
app.add_typer(bench_app, name="bench")
app.add_typer(queue_app, name="queue")
app.add_typer(workers_app, name="workers")
app.add_typer(uploads_app, name="uploads")
app.add_typer(outputs_app, name="outputs")
app.add_typer(webhooks_app, name="webhooks")
app.add_typer(workflows_app, name="workflows")
app.add_typer(users_app, name="users")
app.add_typer(keys_app, name="keys")
app.add_typer(blocks_app, name="blocks")

StatusOption = Annotated[
    str | None,
    typer.Option(help="Only jobs that are queued, processing, completed, failed or cancelled."),
]
JobArgument = Annotated[str, typer.Argument(help="The job's id, as the list shows it.")]


def main() -> None:
    """Run a command; errors that are ours become a sentence and an exit code."""
    try:
        accept_any_text()
        app()
    except ConfigurationError as error:
        explain_and_exit(error.message, CANNOT_START)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"comfyrail {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    del version


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address (default 127.0.0.1).")] = None,
    port: Annotated[int | None, typer.Option(help="Port (default 8080; 0 takes any).")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for everything that is kept (default comfyrail-data)."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Engine workers to start (default: one a core, at most 2).")
    ] = None,
    engine_config: Annotated[
        Path | None, typer.Option(help="The configuration of the local workers' engine.")
    ] = None,
    fleet: Annotated[
        Path | None, typer.Option(help="A file that describes further workers and pools.")
    ] = None,
    agent_host: Annotated[
        str | None, typer.Option(help="Address where agents dial in (default 127.0.0.1).")
    ] = None,
    agent_port: Annotated[
        int | None, typer.Option(help="Port where agents dial in (default: they cannot).")
    ] = None,
    access: Annotated[
        str | None,
        typer.Option(
            help="off: this machine only, everybody is one user (default); on: with keys."
        ),
    ] = None,
    announce: Annotated[bool, typer.Option(hidden=True)] = False,
    exit_with_parent: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Start the server and its local workers."""
    from comfyrail.bootstrap.serve import serve as run_server
    from comfyrail.bootstrap.settings import load_settings, unknown_variables
    from comfyrail.telemetry.logs import configure_logs

    settings = load_settings(
        host=host,
        port=port,
        data=data,
        workers=workers,
        engine_config=engine_config,
        fleet=fleet,
        agent_host=agent_host,
        agent_port=agent_port,
        access=access,
    )
    configure_logs(as_json=settings.log_json, level=settings.log_level)
    for said in unknown_variables():
        typer.echo(f"Note: {said}", err=True)
    run_server(settings, announce=announce, exit_with_parent=exit_with_parent)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def worker(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on (default: 127.0.0.1).")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port (0 takes any; default: 8188).")] = None,
    data: Annotated[Path, typer.Option(help="Folder for input, output and temp.")] = Path(
        "comfyrail-worker"
    ),
    input: Annotated[  # noqa: A002 - the name of the flag
        Path | None, typer.Option(help="Input folder (default: inside the data folder).")
    ] = None,
    keep_outputs: Annotated[
        int | None, typer.Option(min=1, help="Keep only so many output files.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="The engine's configuration, such as execution_engine.yaml.")
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder for results that outlast the worker; several may share it."),
    ] = None,
    comfyui: Annotated[
        Path | None,
        typer.Option(
            help="A ComfyUI checkout: its nodes and custom_nodes are loaded, its folders used. "
            "Flags of its main.py may follow."
        ),
    ] = None,
    nodes: Annotated[
        list[Path] | None, typer.Option(help="A pack of nodes to load: a folder or a .py file.")
    ] = None,
    metrics_port: Annotated[int | None, typer.Option(hidden=True)] = None,
    announce: Annotated[bool, typer.Option(hidden=True)] = False,
    exit_with_parent: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Start one engine worker: the engine behind ComfyUI's own protocol."""
    from comfyrail.engine.server.run import WorkerSettings, run_worker
    from comfyrail.telemetry.logs import configure_logs

    if context.args and comfyui is None:
        explain_and_exit(
            f"There is no option {context.args[0]}. See comfyrail worker --help.", WRONG_USE
        )
    configure_logs()
    settings = WorkerSettings(
        data=data,
        host=host,
        port=port,
        input=input,
        keep_outputs=keep_outputs,
        config=config,
        cache=cache,
        comfyui=comfyui,
        comfyui_arguments=context.args,
        nodes=nodes or (),
        metrics=True,
        metrics_port=metrics_port,
        announce=announce,
        exit_with_parent=exit_with_parent,
    )
    run_worker(settings, None if announce else _say_worker_ready)


@app.command("celery-worker")
def celery_worker(
    config: Annotated[
        Path, typer.Option(help="The engine's configuration: shared cache, broker and queue.")
    ],
    broker: Annotated[
        str | None,
        typer.Option(
            envvar="COMFYRAIL_BROKER", help="Redis or Valkey, in place of the configuration's."
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Nodes at once.")] = 1,
    nodes: Annotated[
        list[Path] | None, typer.Option(help="A pack of nodes to load: a folder or a .py file.")
    ] = None,
    announce: Annotated[bool, typer.Option(hidden=True)] = False,
    exit_with_parent: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Run nodes for engines whose strategy is distributed, as a Celery worker."""
    from comfyrail.telemetry.logs import configure_logs

    try:
        from comfyrail.engine.distributed.celery_worker import (
            CeleryWorkerSettings,
            run_celery_worker,
        )
        from comfyrail.engine.distributed.celery_workers import run_celery_workers
    except ImportError:
        explain_and_exit(
            "Celery is not installed. Install it with: pip install 'comfyrail[celery]'",
            CANNOT_START,
        )
    configure_logs()
    settings = CeleryWorkerSettings(config, broker, nodes or (), announce, exit_with_parent)
    if concurrency == 1:
        sys.exit(run_celery_worker(settings))
    sys.exit(run_celery_workers(settings, concurrency))


@app.command()
def agent(
    server: Annotated[
        str, typer.Option(help="Where the server takes agents, such as wss://rail.example.com.")
    ],
    comfyui: Annotated[
        str, typer.Option(help="The ComfyUI of this machine, such as http://127.0.0.1:8188.")
    ],
    name: Annotated[
        str | None, typer.Option(help="The worker's name (default: this machine's).")
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="COMFYRAIL_AGENT_TOKEN", help="The server's agent_token.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: jobs can ask for workers with a label.")
    ] = None,
) -> None:
    """Make a ComfyUI on this machine a worker of a server that cannot reach it."""
    from comfyrail.cli.agent import AgentWishes, run_agent

    run_agent(AgentWishes(server, comfyui, name, token, tuple(label or ())))


@app.command()
def simulate(
    scenario: Annotated[
        str, typer.Argument(help="The name of a scenario, or a file that describes one.")
    ] = "twenty-models",
    seeds: Annotated[
        str | None, typer.Option(help="Such as 0-4 or 1,5 (default: the scenario's).")
    ] = None,
    policies: Annotated[
        str | None, typer.Option(help="Names with commas (default: all of them).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write all figures as JSON.")] = False,
) -> None:
    """Try the scheduler on made-up jobs and workers, beside other ways to schedule."""
    from comfyrail.cli.simulate import simulate as run_simulation

    run_simulation(scenario, seeds, policies, as_json=json)


@app.command("run-task", hidden=True)
def run_task(
    config: Annotated[
        Path, typer.Option(envvar="COMFYRAIL_CONFIG", help="The engine's configuration.")
    ],
    nodes: Annotated[
        list[Path] | None, typer.Option(help="A pack of nodes to load: a folder or a .py file.")
    ] = None,
) -> None:
    """Run the one node that the environment names: what a Kubernetes Job does."""
    from comfyrail.engine.distributed.run_task import run_task_of_environment
    from comfyrail.telemetry.logs import configure_logs

    configure_logs()
    sys.exit(run_task_of_environment(config, nodes or ()))


def _say_worker_ready(url: str) -> None:
    typer.echo(f"Worker is listening on {url}. Add it with: comfyrail workers add {url}")


@app.command()
def run(
    file: Annotated[
        Path,
        typer.Argument(
            help="A workflow: JSON in either of ComfyUI's formats, a PNG or a WebP; or the name of "
            "one in the server's library (NAME or NAME@VERSION)."
        ),
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Set an input: NODE.INPUT=VALUE (node id or title), or NAME=VALUE of one that "
            "the workflow declares.",
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(envvar="COMFYRAIL_SERVER", help="Run there instead of in a private server."),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the results.")] = Path(
        "out"
    ),
    priority: Annotated[
        int, typer.Option(callback=check_priority, help="1 (lowest) to 10 (highest).")
    ] = 5,
    batch: Annotated[
        bool, typer.Option("--batch", help="Let it wait for quiet times, after all other jobs.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds the job may run.")] = 1800.0,
    queue_timeout: QueueTimeoutOption = None,
    max_retries: MaxRetriesOption = None,
    not_before: NotBeforeOption = None,
    label: LabelOption = None,
    auto_fix: AutoFixOption = False,
    optimize: OptimizeOption = False,
) -> None:
    """Run a workflow, show its progress, and fetch its results."""
    from comfyrail.cli.run import RunRequest, run_workflow

    options = {
        "priority": priority,
        "timeout": timeout,
        "auto_fix": auto_fix,
        "optimize": optimize,
        **({"queue_class": "batch"} if batch else {}),
        **queue_wishes(label or (), not_before, queue_timeout, max_retries),
    }
    run_workflow(RunRequest(file, tuple(set_ or ()), server, output, options))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def profile(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A workflow in ComfyUI's API format.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Set an input: NODE.INPUT=VALUE (node id or title)."),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(help="sequential, parallel, lazy or distributed, not the configuration's."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="The engine's configuration, such as execution_engine.yaml.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, max=100, help="How often it is run.")] = 1,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder for input, output and temp (default: one that is then removed)."),
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write all figures to this file.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Draw who was at work when.")] = None,
    folded: Annotated[Path | None, typer.Option(help="Write stacks for a flame graph.")] = None,
    comfyui: Annotated[
        Path | None,
        typer.Option(help="A ComfyUI checkout to load; flags of its main.py may follow."),
    ] = None,
    nodes: Annotated[
        list[Path] | None, typer.Option(help="A pack of nodes to load: a folder or a .py file.")
    ] = None,
) -> None:
    """Run a workflow in this process and show where its time goes."""
    from comfyrail.cli.profile import ProfileRequest, profile_workflow

    request = ProfileRequest(
        file=file,
        settings=tuple(set_ or ()),
        strategy=strategy,
        config=config,
        runs=runs,
        data=data,
        json=json,
        svg=svg,
        folded=folded,
        comfyui=comfyui,
        comfyui_arguments=context.args,
        nodes=nodes or (),
    )
    profile_workflow(request)


def _asked_server(context: typer.Context) -> str | None:
    """The server to ask; one of the environment gives way to a catalog or data folder by name."""
    source = context.get_parameter_source("server")
    is_named = source is not None and source.name == "COMMANDLINE"
    if (context.params["catalog"] or context.params["data"]) and not is_named:
        return None
    server: str | None = context.params["server"]
    return server


@app.command()
def validate(
    context: typer.Context,
    file: FileArgument,
    set_: SetOption = None,
    server: CheckServerOption = None,  # noqa: ARG001 - read from the context
    catalog: CatalogOption = None,
    data: CatalogDataOption = None,
    auto_fix: AutoFixOption = False,
    optimize: OptimizeOption = False,
    json: Annotated[bool, typer.Option("--json", help="Write the whole report as JSON.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the workflow as it would run to this file."),
    ] = None,
) -> None:
    """Check a workflow and say what is wrong with it, stage by stage, without running it."""
    from comfyrail.cli.validate import CheckWishes, validate_workflow

    wishes = CheckWishes(
        file, tuple(set_ or ()), _asked_server(context), catalog, data, auto_fix, optimize
    )
    validate_workflow(wishes, as_json=json, output=output)


@app.command()
def plan(
    context: typer.Context,
    file: FileArgument,
    set_: SetOption = None,
    server: CheckServerOption = None,  # noqa: ARG001 - read from the context
    catalog: CatalogOption = None,
    data: CatalogDataOption = None,
    auto_fix: AutoFixOption = False,
    optimize: OptimizeOption = False,
    json: Annotated[bool, typer.Option("--json", help="Write the whole plan as JSON.")] = False,
) -> None:
    """Say what a workflow would need, take and cost, without running it."""
    from comfyrail.cli.plan import plan_workflow
    from comfyrail.cli.validate import CheckWishes

    wishes = CheckWishes(
        file, tuple(set_ or ()), _asked_server(context), catalog, data, auto_fix, optimize
    )
    plan_workflow(wishes, as_json=json)


@app.command()
def nodes(
    name: Annotated[
        str | None, typer.Argument(help="A node type to describe, or a part of names to list.")
    ] = None,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """List the node types that the server's workers have, or describe one."""
    from comfyrail.cli.nodes import show_nodes

    show_nodes(server, name)


@jobs_app.callback(invoke_without_command=True)
def jobs(
    context: typer.Context,
    server: ServerOption = DEFAULT_SERVER,
    status: StatusOption = None,
    limit: LimitOption = 20,
) -> None:
    """List the newest jobs."""
    context.obj = server
    if context.invoked_subcommand is None:
        list_jobs(context, server, status, limit)


@app.command()
def events(
    event_type: Annotated[
        list[str] | None,
        typer.Option("--type", help="Only these, such as execution.completed or execution.*."),
    ] = None,
    job: Annotated[str | None, typer.Option(help="Only those of this job.")] = None,
    workflow: Annotated[
        str | None, typer.Option(help="Only those of this workflow of the library.")
    ] = None,
    after: Annotated[
        int | None,
        typer.Option(min=0, help="Begin behind this number (0: at the beginning; default: now)."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Follow the events of all jobs, live; a broken line is taken up again."""
    from comfyrail.cli import event_listings

    event_listings.follow_events(
        server, types=event_type, job=job, workflow=workflow, after=after, is_json=json
    )


@jobs_app.command("list")
def list_jobs(
    context: typer.Context,
    server: SameServerOption = None,
    status: StatusOption = None,
    limit: LimitOption = 20,
    text: Annotated[
        str | None,
        typer.Option(help="Words of its graph, a part of a file's name, or the start of its id."),
    ] = None,
    workflow: Annotated[
        str | None, typer.Option(help="Of this workflow of the library, or NAME@VERSION.")
    ] = None,
) -> None:
    """List the newest jobs."""
    from comfyrail.cli import listings

    listings.show_jobs(server or context.obj, status, limit, text=text, workflow=workflow)


@jobs_app.command("show")
def show_job(context: typer.Context, job_id: JobArgument, server: SameServerOption = None) -> None:
    """Show one job with its outputs."""
    from comfyrail.cli import listings

    listings.show_job(server or context.obj, job_id)


@jobs_app.command("cancel")
def cancel_job(
    context: typer.Context, job_id: JobArgument, server: SameServerOption = None
) -> None:
    """Cancel a job, queued or running."""
    from comfyrail.cli import listings

    listings.cancel_job(server or context.obj, job_id)


@jobs_app.command("retry")
def retry_job(
    context: typer.Context,
    job_id: JobArgument,
    priority: Annotated[
        int | None, typer.Option(min=1, max=10, help="Another priority than it had.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds that it may run, other than it had.")
    ] = None,
    max_retries: MaxRetriesOption = None,
    server: SameServerOption = None,
) -> None:
    """Run an ended job once more, as a new job."""
    from comfyrail.cli import listings

    changes = {"priority": priority, "timeout": timeout, "max_retries": max_retries}
    listings.retry_job(server or context.obj, job_id, changes)


@jobs_app.command("logs")
def show_log_of_job(
    context: typer.Context, job_id: JobArgument, server: SameServerOption = None
) -> None:
    """Show what has happened to a job."""
    from comfyrail.cli import listings

    listings.show_log(server or context.obj, job_id)


@jobs_app.command("prioritize")
def prioritize_job(
    context: typer.Context,
    job_id: JobArgument,
    priority: Annotated[
        int, typer.Argument(callback=check_priority, help="1 (lowest) to 10 (highest).")
    ],
    server: SameServerOption = None,
) -> None:
    """Give a queued job another priority."""
    from comfyrail.cli import listings

    listings.change_priority(server or context.obj, job_id, priority)


@jobs_app.command("nodes")
def show_nodes_of_job(
    context: typer.Context, job_id: JobArgument, server: SameServerOption = None
) -> None:
    """Show how each node of a job goes or went."""
    from comfyrail.cli import listings

    listings.show_nodes_of_job(server or context.obj, job_id)


@app.command()
def audit(
    actor: Annotated[str | None, typer.Option(help="Only what this user did.")] = None,
    act: Annotated[str | None, typer.Option(help="Only such acts, such as worker.drain.")] = None,
    limit: LimitOption = 50,
    server: ServerOption = DEFAULT_SERVER,
    data: OfflineDataOption = None,
) -> None:
    """Show what those who run the server have done, the newest first."""
    from comfyrail.cli import accounts
    from comfyrail.cli.access_desk import Desk

    accounts.show_audit(Desk(server, data), actor, act, limit)


@app.command()
def convert(
    file: Annotated[
        Path,
        typer.Argument(help="A workflow: JSON in either format, a PNG or a WebP; - reads stdin."),
    ],
    to: Annotated[str, typer.Option(help="api or editor.")] = "api",
    catalog: Annotated[
        Path | None, typer.Option(help="A worker's /object_info, saved as a file.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Data folder whose workers' nodes count (default comfyrail-data)."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write (default: stdout).")
    ] = None,
) -> None:
    """Convert a workflow between the format of ComfyUI's editor and its API format."""
    from comfyrail.cli.convert import ConvertRequest, convert_workflow

    convert_workflow(ConvertRequest(file, to, catalog, data, output))


@app.command()
def doctor(
    data: Annotated[Path | None, typer.Option(help="Data folder to look at.")] = None,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Check this machine and a running server; say what is wrong and what to do."""
    from comfyrail.cli.doctor import examine

    examine(data, server)
