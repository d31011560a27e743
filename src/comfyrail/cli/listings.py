"""Tables of jobs and workers."""

from rich.text import Text

from comfyrail.cli.exits import call_server
from comfyrail.cli.tables import add_row, ago, new_table, print_table
from comfyrail.cli.terminal import line, out, plain, say
from comfyrail.client import ComfyrailClient, Execution, Worker

COLOURS = {
    "completed": "green",
    "idle": "green",
    "processing": "cyan",
    "busy": "cyan",
    "queued": "yellow",
    "starting": "yellow",
    "cancelled": "magenta",
    "failed": "red",
    "unhealthy": "red",
}


def show_jobs(server: str, status: str | None, limit: int) -> None:
    async def ask() -> list[Execution]:
        async with ComfyrailClient(server) as client:
            return await client.executions(status, limit)

    jobs = call_server(ask())
    if not jobs:
        say(f"No jobs. Submit one with: comfyrail run FILE --server {server}")
        return
    table = new_table("Job", "Status", "Progress", "Priority", "Submitted", "Took", "Worker")
    for job in jobs:
        add_row(
            table,
            job.execution_id,
            _coloured(job.status),
            f"{job.progress:.0%}",
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
        say(job.execution_id, "is", _coloured(job.status).append("."))
    else:
        say(f"{job.execution_id} is being stopped on {job.worker_id}.")


def show_workers(server: str) -> None:
    async def ask() -> list[Worker]:
        async with ComfyrailClient(server) as client:
            return await client.workers()

    table = new_table("Worker", "Status", "Driver", "Address", "Device", "Node types", "Running")
    troubles = []
    for worker in call_server(ask()):
        add_row(
            table,
            worker.worker_id,
            _coloured(worker.status),
            worker.driver,
            worker.endpoint or "",
            worker.device or "",
            str(worker.node_types),
            "\n".join(worker.current_jobs),
        )
        if worker.error:
            troubles.append(f"{worker.worker_id}: {worker.error}")
    print_table(table)
    for trouble in troubles:
        out.print(Text(plain(trouble), "yellow"), soft_wrap=True)


def add_worker(server: str, url: str) -> None:
    async def ask() -> Worker:
        async with ComfyrailClient(server) as client:
            return await client.add_worker(url)

    worker = call_server(ask())
    say(f"Added {worker.endpoint or url} as {worker.worker_id}.")


def remove_worker(server: str, worker_id: str) -> None:
    async def ask() -> None:
        async with ComfyrailClient(server) as client:
            await client.remove_worker(worker_id)

    call_server(ask())
    say(f"Removed {worker_id}.")


def _describe(job: Execution, server: str) -> None:
    rows: list[tuple[str, str | Text]] = [
        ("Job", job.execution_id),
        ("Status", _coloured(job.status).append(f" ({job.progress:.0%})")),
        ("Nodes", f"{job.completed_nodes} of {job.total_nodes}"),
        ("Attempts", f"{job.attempts}, last on {job.worker_id or 'none'}"),
    ]
    if took := _took(job):
        rows.append(("Took", f"{took} ({job.estimated_duration or 0:.3g} s expected)"))
    if job.cost is not None:
        rows.append(("Cost", f"${job.cost:.4f} (${job.estimated_cost or 0:.4f} expected)"))
    if job.queue_position is not None:
        rows.append(("Position", str(job.queue_position)))
    if job.error is not None:
        rows.append(("Error", Text(plain(job.error.message))))
    rows += [
        ("Output", Text(f"{line(output.filename)}  {line(server + output.url)}"))
        for output in (job.result.outputs if job.result else ())
    ]
    for name, value in rows:
        say(Text(f"{name:<9}"), value)


def _coloured(status: str) -> Text:
    return Text(line(status), COLOURS.get(status, "white"))


def _took(job: Execution) -> str:
    if job.started_at is None or job.completed_at is None:
        return ""
    return f"{(job.completed_at - job.started_at).total_seconds():.1f} s"
