"""Tables of jobs."""

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from comfyrail.cli.exits import call_server
from comfyrail.cli.failures import HOW, advice_of
from comfyrail.cli.tables import add_row, ago, coloured, new_table, print_table
from comfyrail.cli.terminal import line, plain, say
from comfyrail.cli.waiting import reason_to_wait, seconds_until
from comfyrail.client import (
    AttemptOfJob,
    ComfyrailClient,
    Execution,
    LogLine,
    NodeResult,
    Output,
    Submitted,
)

COLOURS = {"warning": "yellow", "error": "red"}


def show_jobs(
    server: str,
    status: str | None,
    limit: int,
    *,
    text: str | None = None,
    workflow: str | None = None,
) -> None:
    async def ask() -> list[Execution]:
        async with ComfyrailClient(server) as client:
            return await client.executions(status, limit, text=text, workflow_id=workflow)

    jobs = call_server(ask())
    if not jobs and (text or workflow):
        say("No jobs like that.")
        return
    if not jobs:
        say(f"No jobs. Submit one with: comfyrail run FILE --server {server}")
        return
    table = new_table(
        "Job", "Status", "Progress", "Class", "Priority", "Submitted", "Took", "Worker"
    )
    for job in jobs:
        add_row(
            table,
            job.execution_id,
            coloured(job.status),
            f"{job.progress:.0%}",
            job.queue_class,
            str(job.priority),
            ago(job.submitted_at),
            _took(job),
            job.worker_id or "",
        )
    print_table(table)


def show_job(server: str, job_id: str) -> None:
    async def ask() -> Execution:
        async with ComfyrailClient(server) as client:
            return await client.execution(job_id)

    _describe(call_server(ask()), server)


def cancel_job(server: str, job_id: str) -> None:
    async def ask() -> Execution:
        async with ComfyrailClient(server) as client:
            return await client.cancel(job_id)

    job = call_server(ask())
    if job.is_final:
        say(job.execution_id, "is", coloured(job.status).append("."))
    else:
        say(f"{job.execution_id} is being stopped on {job.worker_id}.")


def retry_job(server: str, job_id: str, changes: Mapping[str, float | None]) -> None:
    async def ask() -> Submitted:
        wanted: dict[str, Any] = {
            name: value for name, value in changes.items() if value is not None
        }
        async with ComfyrailClient(server) as client:
            return await client.retry(job_id, **wanted)

    say(f"{job_id} runs once more as {call_server(ask()).execution_id}.")


def show_log(server: str, job_id: str) -> None:
    async def ask() -> list[LogLine]:
        async with ComfyrailClient(server) as client:
            return [each async for each in client.logs(job_id)]

    for each in call_server(ask()):
        when = each.timestamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        say(when, Text(f"{each.level:<7}", COLOURS.get(each.level, "")), line(each.message))


def change_priority(server: str, job_id: str, priority: int) -> None:
    async def ask() -> Execution:
        async with ComfyrailClient(server) as client:
            return await client.change_priority(job_id, priority)

    job = call_server(ask())
    place = f"position {job.queue_position}" if job.queue_position else "no position yet"
    say(f"{job.execution_id} has priority {job.priority} now and {place}.")


def show_nodes_of_job(server: str, job_id: str) -> None:
    async def ask() -> list[NodeResult]:
        async with ComfyrailClient(server) as client:
            return await client.node_results(job_id)

    table = new_table("Node", "Type", "Status", "Took", "Error")
    for node in call_server(ask()):
        took = "" if node.duration is None else f"{node.duration:.3g} s"
        error = f"{node.error_type}: {node.error_message}" if node.error_type else ""
        add_row(
            table, node.node_id, node.class_type or "", coloured(node.status), took, line(error)
        )
    print_table(table)


def _describe(job: Execution, server: str) -> None:
    rows: list[tuple[str, str | Text]] = [
        ("Job", job.execution_id),
        ("Status", coloured(job.status).append(f" ({job.progress:.0%})")),
        ("Nodes", f"{job.completed_nodes} of {job.total_nodes}"),
        ("Attempts", _attempts(job)),
    ]
    if took := _took(job):
        rows.append(("Took", f"{took} ({job.estimated_duration or 0:.3g} s expected)"))
    if job.cost is not None:
        rows.append(("Cost", f"${job.cost:.4f} (${job.estimated_cost or 0:.4f} expected)"))
    rows.append(
        ("Priority", f"{job.priority} ({job.queue_class}, effective {job.effective_priority:g})")
    )
    if job.queue_position is not None:
        wait = "" if job.predicted_wait is None else f", about {job.predicted_wait:.0f} s to wait"
        rows.append(("Position", f"{job.queue_position}{wait}"))
    if (reason := reason_to_wait(job)) is not None:
        rows.append(("Waiting", Text(line(reason), "yellow")))
    if job.reason:
        rows.append(("Reason", job.reason))
    rows += _failures(job)
    rows += [
        ("Output", Text(f"{line(output.filename)}{_mark(output)}  {line(server + output.url)}"))
        for output in (job.result.outputs if job.result else ())
    ]
    for name, value in rows:
        say(Text(f"{name:<9}"), value)


def _failures(job: Execution) -> list[tuple[str, Text]]:
    """How it failed, what can be done, and every attempt where there was more than one."""
    rows = []
    if job.error is not None:
        rows.append(("Error", Text(plain(job.error.message))))
        if (advice := advice_of(job.error)) is not None:
            rows.append(("To do", Text(plain(advice))))
    if job.retry_at is not None:
        rows.append(("Again", Text(f"in {max(0.0, seconds_until(job.retry_at)):.0f} s", "yellow")))
    history = job.attempt_history or []
    if len(history) > 1 or job.retry_at is not None:
        rows += [("Attempt", _describe_attempt(each)) for each in history]
    return rows


def _attempts(job: Execution) -> str:
    worker = job.worker_id or (job.attempt_history[-1].worker_id if job.attempt_history else None)
    return f"{job.attempts}, last on {worker}" if worker else str(job.attempts)


def _describe_attempt(attempt: AttemptOfJob) -> Text:
    parts: list[str | Text] = [
        f"{attempt.attempt} on {attempt.worker_id}: ",
        coloured(attempt.status),
    ]
    failure = attempt.error.message if attempt.error else attempt.cause
    if failure:
        parts.append(f" ({line(failure)})")
    if attempt.recovery:
        delay = f" after {attempt.retry_delay:g} s" if attempt.retry_delay else " at once"
        parts.append(f", then tried again{delay} {HOW.get(attempt.recovery, attempt.recovery)}")
    return Text.assemble(*parts)


def _mark(output: Output) -> str:
    return " (partial)" if output.partial else ""


def _took(job: Execution) -> str:
    if job.started_at is None or job.completed_at is None:
        return ""
    return f"{(job.completed_at - job.started_at).total_seconds():.1f} s"
