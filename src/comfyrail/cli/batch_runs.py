"""What `comfyrail batches` does."""

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from comfyrail.cli.batch_file import grid_of, read_batch_file, shown_parameters
from comfyrail.cli.exits import FAILED, WRONG_USE, call_server, explain_and_exit
from comfyrail.cli.signals import Stopper, stop_on_signals
from comfyrail.cli.tables import add_row, ago, coloured, new_table, print_table
from comfyrail.cli.terminal import errors, line, out, plain, say
from comfyrail.cli.workflow_file import is_library_reference, read_setting, read_workflow
from comfyrail.client import ComfyrailClient, RequestFailed, ServerUnreachable, UnexpectedReply
from comfyrail.client.batches import Batch, BatchExecution, SubmittedBatch

CANCEL_SECONDS = 10.0
JOBS_SHOWN = 1000


@dataclass(frozen=True, slots=True)
class BatchRun:
    file: Path
    batch_file: Path | None
    vary: tuple[str, ...]
    count: int | None
    seed_input: str | None
    settings: tuple[str, ...]
    options: Mapping[str, Any]
    detach: bool = False


def submit_batch(server: str, request: BatchRun) -> None:
    """Submit it, wait for its end unless detached, and exit with the code that says how."""
    source = _source_of(request)
    body = _body_of(request, source)
    sys.exit(call_server(_submit(server, request, source, body)))


def _source_of(request: BatchRun) -> dict[str, Any] | str:
    if is_library_reference(request.file):
        return str(request.file)
    return read_workflow(request.file)


def _body_of(request: BatchRun, source: dict[str, Any] | str) -> dict[str, Any]:
    """All but the workflow; options of the command line count more than the file."""
    if request.batch_file is not None and (request.vary or request.count is not None):
        explain_and_exit("Give either a batch file, or --vary and --count, not both.", WRONG_USE)
    body: dict[str, Any] = {}
    if request.batch_file is not None:
        body = read_batch_file(request.batch_file)
        if body.get("workflow") is not None or body.get("workflow_id") is not None:
            explain_and_exit(
                f"{request.batch_file} has a workflow of its own: leave it out, the command names "
                "one already.",
                WRONG_USE,
            )
    else:
        grid = grid_of(source, request.vary, request.count, request.seed_input)
        if not grid:
            explain_and_exit(
                "Say what is to be run: a batch file, --vary NODE.INPUT=A,B,C, or --count N.",
                WRONG_USE,
            )
        body["grid"] = grid
    settings = dict(read_setting(text) for text in request.settings)
    if settings:
        body["input_params"] = {**(body.get("input_params") or {}), **settings}
    return {**body, **request.options}


async def _submit(
    server: str, request: BatchRun, source: dict[str, Any] | str, body: dict[str, Any]
) -> int:
    with stop_on_signals() as stopper:
        try:
            async with ComfyrailClient(server) as client:
                submitted = await client.batches.submit(source, **body)
                if request.detach:
                    say(submitted.batch_id)
                    return 0
                return await _watch(client, submitted, stopper)
        except asyncio.CancelledError:
            if stopper.exit_code is None:
                raise
            return stopper.exit_code


async def _watch(client: ComfyrailClient, submitted: SubmittedBatch, stopper: Stopper) -> int:
    stopper.hold()
    canceller = asyncio.create_task(_cancel_when_asked(client, submitted, stopper), name="cancel")
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    batch: Batch | None = None
    try:
        with Progress(*columns, console=errors) as bar:
            task = bar.add_task(f"{submitted.jobs} jobs", total=1.0)
            async for batch in client.batches.watch(submitted.batch_id):
                bar.update(task, description=_describe_counts(batch), completed=batch.progress)
    except asyncio.CancelledError:
        errors.print(_advice(client.server, submitted.batch_id), soft_wrap=True)
        raise
    finally:
        canceller.cancel()
        await asyncio.gather(canceller, return_exceptions=True)
    if batch is None:
        raise AssertionError("a batch that is watched is seen at least once")
    _print_batch(batch)
    if batch.status == "completed":
        return 0
    return stopper.exit_code or FAILED


async def _cancel_when_asked(
    client: ComfyrailClient, submitted: SubmittedBatch, stopper: Stopper
) -> None:
    await stopper.asked.wait()
    errors.print("Cancelling the batch. Ctrl-C again leaves at once.")
    with contextlib.suppress(TimeoutError, ServerUnreachable, RequestFailed, UnexpectedReply):
        async with asyncio.timeout(CANCEL_SECONDS):
            await client.batches.cancel(submitted.batch_id)


def show_batches(server: str, limit: int) -> None:
    async def ask() -> list[Batch]:
        found: list[Batch] = []
        async with ComfyrailClient(server) as client:
            async for batch in client.batches.list(min(limit, 100)):
                found.append(batch)
                if len(found) == limit:
                    break
        return found

    batches = call_server(ask())
    if not batches:
        say(f"No batches. Submit one with: comfyrail batches submit FILE --server {server}")
        return
    table = new_table("Batch", "Status", "Progress", "Jobs", "Failed", "Submitted", "Kind", "Name")
    for each in batches:
        add_row(
            table,
            each.batch_id,
            coloured(each.status),
            f"{each.progress:.0%}",
            str(each.jobs),
            str(each.counts.failed + each.counts.unmade),
            ago(each.submitted_at),
            each.kind,
            line(each.name or ""),
        )
    print_table(table)


def show_batch(server: str, batch_id: str, *, with_jobs: bool) -> None:
    async def ask() -> tuple[Batch, list[BatchExecution]]:
        jobs: list[BatchExecution] = []
        async with ComfyrailClient(server) as client:
            batch = await client.batches.show(batch_id)
            if with_jobs:
                async for each in client.batches.executions(batch_id):
                    jobs.append(each)
                    if len(jobs) == JOBS_SHOWN:
                        break
        return batch, jobs

    batch, jobs = call_server(ask())
    _print_batch(batch)
    if not jobs:
        return
    out.print()
    table = new_table("Nr", "Job", "Status", "Score", "Parameters")
    for each in jobs:
        add_row(
            table,
            str(each.index),
            each.execution_id or "",
            coloured(each.status or "failed"),
            "" if each.score is None else f"{each.score:.6g}",
            line(shown_parameters(each.parameters)),
        )
    print_table(table)


def cancel_batch(server: str, batch_id: str) -> None:
    async def ask() -> Batch:
        async with ComfyrailClient(server) as client:
            return await client.batches.cancel(batch_id)

    batch = call_server(ask())
    if batch.is_final:
        say(batch.batch_id, "is", coloured(batch.status).append("."))
    else:
        say(f"{batch.batch_id} is being stopped: {batch.counts.processing} jobs still run.")


def _print_batch(batch: Batch) -> None:
    rows: list[tuple[str, str | Text]] = [
        ("Batch", batch.batch_id + (f" ({batch.name})" if batch.name else "")),
        ("Status", coloured(batch.status).append(f" ({batch.progress:.0%})")),
        ("Jobs", _describe_counts(batch)),
    ]
    if batch.estimated_remaining is not None:
        rows.append(("Left", f"about {batch.estimated_remaining:.0f} s"))
    if batch.cost is not None:
        rows.append(("Cost", f"${batch.cost:.4f}"))
    if batch.best is not None:
        parameters = shown_parameters(batch.best.parameters)
        rows.append(("Best", f"{batch.best.score:.6g} with {parameters}"))
        rows.append(("", f"job {batch.best.execution_id}"))
    rows += [
        ("Warning", Text(plain(f"job {each.index}: {each.message}"), "yellow"))
        for each in batch.warnings
    ]
    for name, value in rows:
        say(Text(f"{name:<9}"), value)


def _describe_counts(batch: Batch) -> str:
    counts = batch.counts
    parts = [f"{counts.completed} of {batch.jobs} completed"]
    for word, number in (
        ("processing", counts.processing),
        ("failed", counts.failed + counts.unmade),
        ("cancelled", counts.cancelled),
        ("waiting for a score", counts.awaiting_score),
    ):
        if number:
            parts.append(f"{number} {word}")
    return ", ".join(parts)


def _advice(server: str, batch_id: str) -> str:
    return (
        f"The batch {batch_id} goes on there. "
        f"Look at it with: comfyrail batches show {batch_id} --server {server}"
    )
