"""Tables of batches, and what can be said about one of them."""

import math

from rich.text import Text

from comfyrail.cli.batch_file import shown_parameters
from comfyrail.cli.exits import WRONG_USE, call_server, explain_and_exit
from comfyrail.cli.options import DEFAULT_SERVER
from comfyrail.cli.tables import add_row, ago, coloured, new_table, print_table
from comfyrail.cli.terminal import line, out, plain, say
from comfyrail.client import ComfyrailClient
from comfyrail.client.batches import Batch, BatchExecution

JOBS_SHOWN = 1000
LONGEST_NUMBER = 6


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
    print_batch(batch, server)
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
            _shown_score(batch, each),
            line(shown_parameters(each.parameters)),
        )
    print_table(table)


def score_job(server: str, batch_id: str, job: str, score: float) -> None:
    """`job` is an id, or a number in the batch."""
    if not math.isfinite(score):
        explain_and_exit(f"A score is a finite number, not {score:g}.", WRONG_USE)

    async def ask() -> Batch:
        async with ComfyrailClient(server) as client:
            job_id = await _job_of_number(client, batch_id, int(job)) if _is_number(job) else job
            return await client.batches.score(batch_id, job_id, score)

    print_batch(call_server(ask()), server)


def _is_number(job: str) -> bool:
    return job.isascii() and job.isdigit() and len(job) <= LONGEST_NUMBER


async def _job_of_number(client: ComfyrailClient, batch_id: str, number: int) -> str:
    async for each in client.batches.executions(batch_id, 1, after=number - 1):
        if each.index == number and each.execution_id is not None:
            return each.execution_id
        break
    return explain_and_exit(f"The batch {batch_id} has no job {number}.", WRONG_USE)


def cancel_batch(server: str, batch_id: str) -> None:
    async def ask() -> Batch:
        async with ComfyrailClient(server) as client:
            return await client.batches.cancel(batch_id)

    batch = call_server(ask())
    if batch.is_final:
        say(batch.batch_id, "is", coloured(batch.status).append("."))
    else:
        say(f"{batch.batch_id} is being stopped: {batch.counts.processing} jobs still run.")


def print_batch(batch: Batch, server: str) -> None:
    wanted = wanted_scores(batch, server)
    done = f"{batch.progress:.0%}"
    # Nobody believes what is all done and goes on.
    shows_progress = batch.is_final or done != "100%"
    rows: list[tuple[str, str | Text]] = [
        ("Batch", batch.batch_id + (f" ({batch.name})" if batch.name else "")),
        (
            "Status",
            coloured(batch.status).append(f" ({done})" if shows_progress else ""),
        ),
        ("Jobs", describe_counts(batch)),
    ]
    if wanted is not None:
        rows.append(("", Text(plain(wanted), "yellow")))
    elif batch.estimated_remaining is not None and shows_progress:
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


def wanted_scores(batch: Batch, server: str) -> str | None:
    """What to do where a search cannot go on without scores; None where it can."""
    number = batch.counts.awaiting_score
    if not number or batch.counts.processing or batch.counts.queued:
        return None
    scores, them = ("1 score", "it") if number == 1 else (f"{number} scores", "them")
    where = "" if server == DEFAULT_SERVER else f" --server {server}"
    return (
        f"Waits for {scores}: give {them} with "
        f"comfyrail batches score {batch.batch_id} JOB NUMBER{where}"
    )


def _shown_score(batch: Batch, job: BatchExecution) -> str:
    if job.score is not None:
        return f"{job.score:.6g}"
    is_awaited = batch.counts.awaiting_score and job.status == "completed" and not job.warning
    return "waits" if is_awaited else ""


def describe_counts(batch: Batch) -> str:
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
