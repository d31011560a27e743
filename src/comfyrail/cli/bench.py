"""`comfyrail bench`: what a server does when things fail, measured on real processes."""

from pathlib import Path
from typing import Annotated

import typer

bench_app = typer.Typer(
    help="Start servers and workers, do harm to them, and look at what is left.",
    no_args_is_help=True,
)

SeedOption = Annotated[int, typer.Option(help="The same seed gives the same jobs and faults.")]
LeaseOption = Annotated[float, typer.Option(min=0.5, max=60, help="The server's lease_seconds.")]
JsonOption = Annotated[
    Path | None, typer.Option("--json", help="Write all figures and findings to this file.")
]
FolderOption = Annotated[
    Path | None, typer.Option(help="An empty folder to work in (default: a temporary one).")
]
KeepOption = Annotated[
    bool, typer.Option("--keep", help="Keep the folder: data, logs and the client's ledger.")
]


@bench_app.command("faults")
def faults(
    jobs: Annotated[int, typer.Option(min=1, max=1_000_000, help="Jobs for each kind.")] = 1000,
    kinds: Annotated[
        str | None,
        typer.Option(help="Kinds of faults with commas; a+b does both in one run (default: all)."),
    ] = None,
    seed: SeedOption = 0,
    interval: Annotated[
        float,
        typer.Option(min=0.05, max=600, help="Seconds between faults, at random up to twice that."),
    ] = 1.0,
    lease: LeaseOption = 4.0,
    json: JsonOption = None,
    folder: FolderOption = None,
    keep: KeepOption = False,
) -> None:
    """Run jobs while processes, lines, disk and clock fail: nothing may be lost or done twice."""
    from comfyrail.cli.bench_runs import Workshop, run_faults

    run_faults(kinds, jobs, seed, interval, lease, Workshop(folder, keep, json))


@bench_app.command("acknowledged")
def acknowledged(
    submissions: Annotated[int, typer.Option(min=1, help="How many in all.")] = 3000,
    rate: Annotated[float, typer.Option(min=1, max=2000, help="Submissions a second.")] = 100.0,
    kills: Annotated[int, typer.Option(min=1, max=100, help="kill -9 of the server.")] = 5,
    seed: SeedOption = 0,
    json: JsonOption = None,
    folder: FolderOption = None,
    keep: KeepOption = False,
) -> None:
    """Kill the server while submissions come: every one that was acknowledged must be there."""
    from comfyrail.cli.bench_runs import Workshop, run_acknowledged

    run_acknowledged(submissions, rate, kills, seed, Workshop(folder, keep, json))


@bench_app.command("restart")
def restart(
    queued: Annotated[int, typer.Option(min=10, help="Jobs in the queue at the kill.")] = 10_000,
    json: JsonOption = None,
    folder: FolderOption = None,
    keep: KeepOption = False,
) -> None:
    """Kill the server with a long queue: how soon do jobs run as fast as before?"""
    from comfyrail.cli.bench_runs import Workshop, run_restart

    run_restart(queued, Workshop(folder, keep, json))


@bench_app.command("worker-death")
def worker_death(
    deaths: Annotated[int, typer.Option(min=1, max=1000, help="Workers to kill.")] = 10,
    lease: LeaseOption = 4.0,
    seed: SeedOption = 0,
    json: JsonOption = None,
    folder: FolderOption = None,
    keep: KeepOption = False,
) -> None:
    """Kill workers for good in the middle of jobs: how late are these, and all the others?"""
    from comfyrail.cli.bench_runs import Workshop, run_worker_deaths

    run_worker_deaths(deaths, lease, seed, Workshop(folder, keep, json))
