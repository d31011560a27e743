"""`comfyrail batches submit` and `fetch`: many jobs, from the files to the results."""

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from comfyrail.cli.batch_file import grid_of, read_batch_file
from comfyrail.cli.batch_listings import describe_counts, print_batch, wanted_scores
from comfyrail.cli.batch_refusals import describe_refusal
from comfyrail.cli.batch_results import BatchResults, fetch_command
from comfyrail.cli.exits import FAILED, WRONG_USE, call_server, explain_and_exit
from comfyrail.cli.library_source import find_workflow
from comfyrail.cli.results import checked_folder
from comfyrail.cli.signals import Stopper, stop_on_signals
from comfyrail.cli.terminal import errors, line, say
from comfyrail.cli.waiting import WaitingNotice
from comfyrail.cli.workflow_file import is_library_reference, read_setting, read_workflow
from comfyrail.client import ComfyrailClient, RequestFailed, ServerUnreachable, UnexpectedReply
from comfyrail.client.batches import Batch, SubmittedBatch

CANCEL_SECONDS = 10.0


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
    output: Path | None = None


def submit_batch(server: str, request: BatchRun) -> None:
    """Submit it, wait for its end unless detached, and exit with the code that says how."""
    _check_wishes(request)
    given = read_batch_file(request.batch_file) if request.batch_file is not None else {}
    if given.get("workflow") is not None or given.get("workflow_id") is not None:
        explain_and_exit(
            f"{request.batch_file} has a workflow of its own: leave it out, the command names "
            "one already.",
            WRONG_USE,
        )
    is_reference = is_library_reference(request.file)
    source = str(request.file) if is_reference else read_workflow(request.file)
    sys.exit(call_server(_submit_until_signal(server, request, source, given)))


def _check_wishes(request: BatchRun) -> None:
    """End the command where the options do not go together."""
    is_varied = bool(request.vary) or request.count is not None
    if request.batch_file is not None and is_varied:
        explain_and_exit("Give either a batch file, or --vary and --count, not both.", WRONG_USE)
    if request.batch_file is None and not is_varied:
        explain_and_exit(
            "Say what is to be run: a batch file, --vary NODE.INPUT=A,B,C, or --count N.",
            WRONG_USE,
        )
    if request.detach and request.output is not None:
        explain_and_exit(
            "--detach does not wait for the results, so -o has none to save. Get them later with: "
            f"comfyrail batches fetch BATCH -o {request.output}",
            WRONG_USE,
        )


def _body_of(
    request: BatchRun, given: Mapping[str, Any], workflow: dict[str, Any]
) -> dict[str, Any]:
    """All but the workflow; options of the command line count more than the file."""
    body = dict(given)
    if request.batch_file is None:
        body["grid"] = grid_of(workflow, request.vary, request.count, request.seed_input)
    settings = dict(read_setting(text) for text in request.settings)
    return {
        **body,
        **request.options,
        **_together(given, "input_params", settings),
        **_together(given, "labels", request.options.get("labels") or {}),
    }


def _together(
    given: Mapping[str, Any], field: str, added: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """A field of a batch file with what options add to it; nothing where they add nothing."""
    if not added:
        return {}
    before = given.get(field) or {}
    if not isinstance(before, Mapping):
        explain_and_exit(f"{field} in the batch file is no table of names and values.", WRONG_USE)
    return {field: {**before, **added}}


async def _submit_until_signal(
    server: str, request: BatchRun, source: dict[str, Any] | str, given: Mapping[str, Any]
) -> int:
    with contextlib.ExitStack() as stack:
        if request.output is not None:
            stack.enter_context(checked_folder(request.output))
        stopper = stack.enter_context(stop_on_signals())
        try:
            async with ComfyrailClient(server) as client:
                return await _submit(client, request, source, given, stopper)
        except asyncio.CancelledError:
            if stopper.exit_code is None:
                raise
            return stopper.exit_code


async def _submit(
    client: ComfyrailClient,
    request: BatchRun,
    source: dict[str, Any] | str,
    given: Mapping[str, Any],
    stopper: Stopper,
) -> int:
    source, workflow = await find_workflow(client, source)
    body = _body_of(request, given, workflow)
    try:
        submitted = await client.batches.submit(source, **body)
    except RequestFailed as error:
        explain_and_exit(describe_refusal(error, body), WRONG_USE)
    if request.detach:
        say(submitted.batch_id)
        if submitted.executions:
            await WaitingNotice(client).look(submitted.executions[0])
        return 0
    batch = await _watch(client, submitted, stopper)
    print_batch(batch, client.server)
    stopper.let_go()
    code = 0 if batch.status == "completed" else stopper.exit_code or FAILED
    if request.output is not None:
        code = await _fetch(client, batch, request.output) or code
    return code


async def _watch(client: ComfyrailClient, submitted: SubmittedBatch, stopper: Stopper) -> Batch:
    """Show how far it is until it is over."""
    stopper.hold()
    canceller = asyncio.create_task(_cancel_when_asked(client, submitted, stopper), name="cancel")
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    notices = _Notices(client, submitted)
    batch: Batch | None = None
    try:
        with Progress(*columns, console=errors) as bar:
            task = bar.add_task(f"{submitted.jobs} jobs", total=1.0)
            async for batch in client.batches.watch(submitted.batch_id):
                bar.update(task, description=describe_counts(batch), completed=batch.progress)
                await notices.say(batch)
    except asyncio.CancelledError:
        errors.print(_advice(client.server, submitted.batch_id), soft_wrap=True)
        raise
    finally:
        canceller.cancel()
        await asyncio.gather(canceller, return_exceptions=True)
    if batch is None:
        raise AssertionError("a batch that is watched is seen at least once")
    return batch


class _Notices:
    """Lines above the bar: what the batch waits for, said when that is another thing."""

    def __init__(self, client: ComfyrailClient, submitted: SubmittedBatch) -> None:
        self._server = client.server
        self._queued = WaitingNotice(client)
        # Of those that are named the last one is queued for the longest.
        self._last = submitted.executions[-1] if submitted.executions else None
        self._said: str | None = None

    async def say(self, batch: Batch) -> None:
        counts = batch.counts
        wanted = wanted_scores(batch, self._server)
        if wanted is not None and wanted != self._said:
            errors.print(Text(wanted), soft_wrap=True)
        self._said = wanted
        if counts.queued and not counts.processing and self._last is not None:
            await self._queued.look(self._last)


async def _cancel_when_asked(
    client: ComfyrailClient, submitted: SubmittedBatch, stopper: Stopper
) -> None:
    await stopper.asked.wait()
    errors.print("Cancelling the batch. Ctrl-C again leaves at once.")
    with contextlib.suppress(TimeoutError, ServerUnreachable, RequestFailed, UnexpectedReply):
        async with asyncio.timeout(CANCEL_SECONDS):
            await client.batches.cancel(submitted.batch_id)


def fetch_batch(server: str, batch_id: str, folder: Path) -> None:
    """Save what its jobs have made so far, and exit with the code that says how that went."""

    async def ask() -> int:
        with checked_folder(folder):
            async with ComfyrailClient(server) as client:
                return await _fetch(client, await client.batches.show(batch_id), folder)

    sys.exit(call_server(ask()))


async def _fetch(client: ComfyrailClient, batch: Batch, folder: Path) -> int:
    try:
        return await BatchResults(client, batch, folder).fetch()
    except (ServerUnreachable, asyncio.CancelledError):
        again = fetch_command(client.server, batch.batch_id, folder)
        errors.print(
            Text(line(f"Not all results are there yet. Go on with: {again}")), soft_wrap=True
        )
        raise


def _advice(server: str, batch_id: str) -> str:
    return (
        f"The batch {batch_id} goes on there. "
        f"Look at it with: comfyrail batches show {batch_id} --server {server}"
    )
