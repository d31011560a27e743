"""`comfyrail run`: one workflow, from the file to the results."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from comfyrail.cli.exits import CANNOT_START, FAILED, WRONG_USE, call_server, explain_and_exit
from comfyrail.cli.failures import advice_of, retry_notice
from comfyrail.cli.given_files import check_given, check_names, give_all
from comfyrail.cli.library_source import find_workflow
from comfyrail.cli.private_server import private_server
from comfyrail.cli.results import checked_folder, print_path, save_output
from comfyrail.cli.signals import Stopper, stop_on_signals
from comfyrail.cli.terminal import errors, line, plain
from comfyrail.cli.waiting import QueueLookout
from comfyrail.cli.workflow_file import is_library_reference, read_setting, read_workflow
from comfyrail.client import (
    ComfyrailClient,
    Event,
    Execution,
    RequestFailed,
    ServerUnreachable,
    UnexpectedReply,
)

ASKED_CANCEL_SECONDS = 10.0
LAST_CANCEL_SECONDS = 2.0
PRIVATE_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RunRequest:
    file: Path
    settings: tuple[str, ...]
    server: str | None
    output: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the submission, as the API names them."""


def run_workflow(request: RunRequest) -> None:
    """Do it and exit with the code that says how it ended."""
    workflow = _workflow_of(request)
    parameters = dict(read_setting(text) for text in request.settings)
    check_given(parameters)
    sys.exit(call_server(_run_until_signal(request, workflow, parameters)))


def _workflow_of(request: RunRequest) -> dict[str, Any] | str:
    """What a file holds, or the name of a workflow in the server's library."""
    if not is_library_reference(request.file):
        return read_workflow(request.file)
    if request.server is None:
        explain_and_exit(
            f"There is no file {request.file}. If it is a workflow in the library of a server, "
            "say which one with --server.",
            WRONG_USE,
        )
    return str(request.file)


async def _run_until_signal(
    request: RunRequest, workflow: dict[str, Any] | str, parameters: dict[str, Any]
) -> int:
    with stop_on_signals() as stopper:
        try:
            with checked_folder(request.output):
                return await _Run(request, stopper).do(workflow, parameters)
        except asyncio.CancelledError:
            if stopper.exit_code is None:
                raise
            return stopper.exit_code


class _Run:
    """One run, on a server that was given or on a private one."""

    def __init__(self, request: RunRequest, stopper: Stopper) -> None:
        self._request = request
        self._stopper = stopper

    async def do(self, source: dict[str, Any] | str, parameters: dict[str, Any]) -> int:
        """The exit code."""
        request = self._request
        # A private server that is gone does not come back.
        patience = PRIVATE_PATIENCE_SECONDS if request.server is None else None
        async with (
            self._server() as server,
            ComfyrailClient(server, patience=patience) as client,
        ):
            self._stopper.hold()
            source, workflow = await find_workflow(client, source)
            await check_names(
                client, source, parameters, auto_fix=bool(request.options.get("auto_fix"))
            )
            parameters = await give_all(client, parameters)
            submitted = await client.submit(source, parameters, **request.options)
            for fix in submitted.fixes:
                errors.print(Text.assemble(("Fixed:", "green"), " ", plain(fix.message)))
            job_id = submitted.execution_id
            try:
                await self._watch(client, job_id, workflow)
                self._stopper.let_go()
                job = await client.execution(job_id)
                await self._fetch(client, job)
            except asyncio.CancelledError:
                await self._leave(client, job_id)
                raise
            except ServerUnreachable as error:
                explain_and_exit(f"{error}. {self._advice(job_id)}", CANNOT_START)
            return self._end_of(job)

    @contextlib.asynccontextmanager
    async def _server(self) -> AsyncIterator[str]:
        if self._request.server is not None:
            yield self._request.server
            return
        async with private_server() as url:
            yield url

    async def _watch(self, client: ComfyrailClient, job_id: str, workflow: dict[str, Any]) -> None:
        canceller = asyncio.create_task(self._cancel_when_asked(client, job_id), name="interrupt")
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
        )
        try:
            with Progress(*columns, console=errors) as bar:
                task = bar.add_task("Queued", total=1.0)
                async with QueueLookout(
                    client, job_id, lambda said: bar.update(task, description=said)
                ) as lookout:
                    async for event in client.events(job_id):
                        notice = retry_notice(event)
                        if notice is not None:
                            errors.print(
                                Text.assemble(("Retrying:", "yellow"), " ", line(notice)),
                                soft_wrap=True,
                            )
                        bar.update(
                            task,
                            description=_describe(event, workflow),
                            completed=_share_done(event),
                        )
                        lookout.follow(event)
        finally:
            canceller.cancel()
            await asyncio.gather(canceller, return_exceptions=True)

    async def _cancel_when_asked(self, client: ComfyrailClient, job_id: str) -> None:
        await self._stopper.asked.wait()
        errors.print("Cancelling the job. Ctrl-C again leaves at once.")
        try:
            async with asyncio.timeout(ASKED_CANCEL_SECONDS):
                await client.cancel(job_id)
        except (TimeoutError, ServerUnreachable, RequestFailed, UnexpectedReply) as error:
            errors.print(f"It cannot be cancelled: {plain(str(error) or 'no answer')}")
            self._stopper.end(signal.SIGINT)

    async def _leave(self, client: ComfyrailClient, job_id: str) -> None:
        """A private server takes the job with it; another is asked to stop it, if it listens."""
        if self._request.server is None:
            return
        if not self._stopper.asked.is_set():
            with contextlib.suppress(
                TimeoutError, ServerUnreachable, RequestFailed, UnexpectedReply
            ):
                async with asyncio.timeout(LAST_CANCEL_SECONDS):
                    await client.cancel(job_id)
                return
        errors.print(plain(self._advice(job_id)), soft_wrap=True)

    def _advice(self, job_id: str) -> str:
        if self._request.server is None:
            return f"The private server is gone, and its job {job_id} with it."
        return (
            f"The job {job_id} may go on there. "
            f"Look at it with: comfyrail jobs show {job_id} --server {self._request.server}"
        )

    async def _fetch(self, client: ComfyrailClient, job: Execution) -> None:
        """Save the results; previews only when there is nothing else."""
        outputs = job.result.outputs if job.result else []
        for output in [each for each in outputs if not each.temporary] or outputs:
            if output.partial:
                errors.print(f"{line(output.filename)} is from an attempt that did not end.")
            try:
                path = await save_output(client, output, self._request.output, output.filename)
            except OSError as error:
                message = f"{output.filename} cannot be saved: {error.strerror or error}."
                if self._request.server is not None:
                    message += f" The job is done: {self._advice(job.execution_id)}"
                explain_and_exit(message, FAILED)
            print_path(path)

    def _end_of(self, job: Execution) -> int:
        if job.status != "completed":
            explain_and_exit(self._failure(job), self._stopper.exit_code or FAILED)
        return 0

    def _failure(self, job: Execution) -> str:
        if job.error is None:
            return f"The job was {job.status}."
        parts = [job.error.message, advice_of(job.error)]
        if job.attempts > 1:
            parts.append(f"It was tried {job.attempts} times, the last time on {job.worker_id}.")
        if self._request.server is not None:
            server = self._request.server
            parts.append(f"More: comfyrail jobs show {job.execution_id} --server {server}")
        return " ".join(part for part in parts if part)


def _describe(event: Event, workflow: dict[str, Any]) -> str | None:
    match event.type:
        case "execution.queued":
            place = event.data.get("queue_position")
            again = " again" if event.data.get("reason") == "retrying" else ""
            return f"Queued{again}" + (line(f", place {place}") if place else "")
        case "execution.started":
            return line(f"Running on {event.data.get('worker_id')}")
        case "execution.node_started":
            node = workflow.get(str(event.data.get("node_id")))
            meta = node.get("_meta") if isinstance(node, dict) else None
            title = meta.get("title") if isinstance(meta, dict) else None
            return line(str(title or event.data.get("node_type")))
        case "execution.completed" | "execution.failed" | "execution.cancelled":
            return event.type.removeprefix("execution.").capitalize()
        case _:
            return None


def _share_done(event: Event) -> float | None:
    share = event.data.get("progress")
    if event.type == "execution.completed":
        return 1.0
    if event.type in {"execution.queued", "execution.started"}:
        return 0.0
    return float(share) if isinstance(share, int | float) else None
