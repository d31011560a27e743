"""`comfyrail run`: one workflow, from the file to the results."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from comfyrail.cli.exits import FAILED, INTERRUPTED, WRONG_USE, call_server, explain_and_exit
from comfyrail.cli.private_server import private_server
from comfyrail.client import ComfyrailClient, Event, Execution, Output

console = Console(stderr=True, highlight=False)


@dataclass(frozen=True, slots=True)
class RunRequest:
    file: Path
    settings: tuple[str, ...]
    server: str | None
    output: Path
    priority: int
    timeout: float


def run_workflow(request: RunRequest) -> None:
    """Do it and exit with the code that says how it ended."""
    workflow = _read_workflow(request.file)
    parameters = dict(_read_setting(text) for text in request.settings)
    _check_folder(request.output)
    job, interrupted = call_server(_run(request, workflow, parameters))
    if job.status == "completed":
        return
    message = job.error.message if job.error else f"The job was {job.status}."
    explain_and_exit(message, INTERRUPTED if interrupted else FAILED)


async def _run(
    request: RunRequest, workflow: dict[str, Any], parameters: dict[str, Any]
) -> tuple[Execution, bool]:
    """The job at its end, and whether the user interrupted it."""
    async with _server(request.server) as server, ComfyrailClient(server) as client:
        job_id = await client.execute(
            workflow, parameters, priority=request.priority, timeout=request.timeout
        )
        with _stop_on_interrupt() as interrupted:
            await _watch(client, job_id, workflow, interrupted)
        job = await client.execution(job_id)
        for path in await _fetch(client, job, request.output):
            Console().print(str(path), markup=False, soft_wrap=True)
        return job, interrupted.is_set()


@contextlib.asynccontextmanager
async def _server(address: str | None) -> AsyncIterator[str]:
    if address is not None:
        yield address
        return
    async with private_server() as url:
        yield url


@contextlib.contextmanager
def _stop_on_interrupt() -> Iterator[asyncio.Event]:
    """Ctrl-C asks the job to stop instead of leaving it behind."""
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    try:
        yield interrupted
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _watch(
    client: ComfyrailClient, job_id: str, workflow: dict[str, Any], interrupted: asyncio.Event
) -> None:
    stopper = asyncio.create_task(_cancel_when(client, job_id, interrupted), name="interrupt")
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    try:
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("Queued", total=1.0)
            async for event in client.events(job_id):
                described = _describe(event, workflow)
                done = event.data.get("progress")
                bar.update(
                    task,
                    description=described,
                    completed=1.0 if event.type == "execution.completed" else done,
                )
    finally:
        stopper.cancel()
        await asyncio.gather(stopper, return_exceptions=True)


async def _cancel_when(client: ComfyrailClient, job_id: str, interrupted: asyncio.Event) -> None:
    await interrupted.wait()
    await client.cancel(job_id)


def _describe(event: Event, workflow: dict[str, Any]) -> str | None:
    match event.type:
        case "execution.queued":
            place = event.data.get("queue_position")
            again = " again" if event.data.get("reason") == "retrying" else ""
            return f"Queued{again}" + (f", place {place}" if place else "")
        case "execution.started":
            return f"Running on {event.data.get('worker_id')}"
        case "execution.node_started":
            node = workflow.get(str(event.data.get("node_id")))
            meta = node.get("_meta") if isinstance(node, dict) else None
            title = meta.get("title") if isinstance(meta, dict) else None
            return str(title or event.data.get("node_type"))
        case "execution.completed" | "execution.failed" | "execution.cancelled":
            return event.type.removeprefix("execution.").capitalize()
        case _:
            return None


async def _fetch(client: ComfyrailClient, job: Execution, folder: Path) -> list[Path]:
    """Save the results; previews only when there is nothing else."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    outputs = job.result.outputs if job.result else []
    kept = [output for output in outputs if not output.temporary] or outputs
    return [await _save(client, output, folder) for output in kept]


async def _save(client: ComfyrailClient, output: Output, folder: Path) -> Path:
    path = _free_path(folder, output.filename)
    with await asyncio.to_thread(path.open, "xb") as file:
        async for chunk in client.download(output):
            await asyncio.to_thread(file.write, chunk)
    return path


def _free_path(folder: Path, filename: str) -> Path:
    """A name in the folder that is not taken: `a.png`, `a (1).png` …"""
    name = Path(filename).name or "output"
    path = folder / name
    number = 1
    while path.exists():
        path = folder / f"{Path(name).stem} ({number}){Path(name).suffix}"
        number += 1
    return path


def _read_workflow(path: Path) -> dict[str, Any]:
    try:
        workflow = json.loads(path.read_bytes())
    except OSError as error:
        explain_and_exit(f"{path} cannot be read: {error.strerror}.", WRONG_USE)
    except (ValueError, RecursionError) as error:
        explain_and_exit(f"{path} is not JSON: {error}.", WRONG_USE)
    if not isinstance(workflow, dict):
        explain_and_exit(f"{path} is not a workflow: it must be a JSON object.", WRONG_USE)
    return workflow


def _read_setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or "." not in name:
        explain_and_exit(f"--set takes NODE.INPUT=VALUE, not {text!r}.", WRONG_USE)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _check_folder(folder: Path) -> None:
    """Fail before the work, not after it; the folder is made when there is something to put in."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        message = f"Results cannot be put in {folder}: {existing} is no writable folder."
        explain_and_exit(message, WRONG_USE)
