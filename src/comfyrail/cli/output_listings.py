"""What `comfyrail outputs` does."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from comfyrail.cli.exits import WRONG_USE, call_server, explain_and_exit
from comfyrail.cli.results import checked_folder, print_path, save_output
from comfyrail.cli.tables import add_row, ago, new_table, print_table
from comfyrail.cli.terminal import line, say
from comfyrail.client import ComfyrailClient, FoundOutput

Filters = dict[str, str | Sequence[str] | None]


def search_filters(
    text: str | None,
    kinds: list[str] | None,
    workflow: str | None,
    since: str | None,
    before: str | None,
) -> Filters:
    return {
        "text": text,
        "kind": kinds,
        "workflow_id": workflow,
        "created_from": _time(since, "--since"),
        "created_before": _time(before, "--before"),
    }


def show_outputs(server: str, filters: Mapping[str, Any], limit: int) -> None:
    async def ask() -> list[FoundOutput]:
        found: list[FoundOutput] = []
        async with ComfyrailClient(server) as client:
            async for each in client.all_outputs.search(limit, **filters):
                found.append(each)
                if len(found) == limit:
                    break
        return found

    found = call_server(ask())
    if not found:
        is_all = not any(filters.values())
        say(
            f"No outputs. Make one with: comfyrail run FILE --server {server}"
            if is_all
            else "No outputs like that."
        )
        return
    table = new_table("Id", "File", "Type", "Size", "Shape", "Job", "Workflow", "Until")
    for each in found:
        add_row(
            table,
            each.output.output_id,
            line(each.output.filename),
            line(each.output.content_type),
            f"{each.output.size:,}",
            _shape(each),
            each.execution_id,
            line(each.workflow_id or ""),
            _life(each),
        )
    print_table(table)


def show_output(server: str, output_id: str) -> None:
    async def ask() -> FoundOutput:
        async with ComfyrailClient(server) as client:
            return await client.all_outputs.show(output_id)

    found = call_server(ask())
    output = found.output
    table = new_table("", "")
    rows = {
        "File": output.filename,
        "Type": output.content_type,
        "Size": f"{output.size:,} bytes",
        "SHA-256": output.sha256,
        "Job": found.execution_id,
        "Node": output.node_id,
        "Workflow": found.workflow_id or "",
        "Tier": output.tier,
        "Until": _life(found),
        **{name.replace("_", " ").capitalize(): str(value) for name, value in _facts(found)},
        "Variants": ", ".join(sorted(output.variants)),
        "URL": output.url,
    }
    for name, value in rows.items():
        if value:
            add_row(table, name, line(value))
    print_table(table)


def download(server: str, output_ids: Sequence[str], folder: Path) -> None:
    async def ask() -> None:
        async with ComfyrailClient(server) as client:
            for output_id in output_ids:
                found = await client.all_outputs.show(output_id)
                output = found.output
                try:
                    path = await save_output(client, output, folder, output.filename)
                except OSError as error:
                    explain_and_exit(
                        f"{output.filename} cannot be written: {error.strerror or error}.",
                        WRONG_USE,
                    )
                print_path(path)

    with checked_folder(folder):
        call_server(ask())


def download_zip(server: str, path: Path, job: str | None, filters: Mapping[str, Any]) -> None:
    if job is not None and any(filters.values()):
        explain_and_exit("Give either --job or words to search for.", WRONG_USE)

    async def ask(file: BinaryIO) -> None:
        async with (
            ComfyrailClient(server) as client,
            aclosing(client.all_outputs.zip(job, **filters)) as chunks,
        ):
            async for chunk in chunks:
                await asyncio.to_thread(file.write, chunk)

    with _new_file(path) as file:
        call_server(ask(file))
    print_path(path)


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """One that is not left behind unless all of it is there."""
    try:
        file = path.open("xb")
    except FileExistsError:
        explain_and_exit(f"{path} is there already. Name another file.", WRONG_USE)
    except OSError as error:
        explain_and_exit(f"{path} cannot be written: {error.strerror or error}.", WRONG_USE)
    try:
        with file:
            yield file
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            explain_and_exit(f"{path} cannot be written: {error.strerror or error}.", WRONG_USE)
        raise


def make_link(
    server: str,
    output_id: str,
    expires_in: float,
    *,
    variant: str | None,
    is_download: bool,
    is_direct: bool,
) -> None:
    async def ask() -> str:
        async with ComfyrailClient(server) as client:
            link = await client.all_outputs.link(
                output_id, expires_in, variant=variant, download=is_download, direct=is_direct
            )
            return link.url

    say(call_server(ask()))


def remove(server: str, output_ids: Sequence[str]) -> None:
    async def ask() -> None:
        async with ComfyrailClient(server) as client:
            for output_id in output_ids:
                await client.all_outputs.delete(output_id)
                say(f"Removed {line(output_id)}.")

    call_server(ask())


def _time(text: str | None, option: str) -> str | None:
    """With a time zone: that of this machine where it does not say."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        explain_and_exit(
            f"{option} is a time like 2026-01-31 or 2026-01-31T08:00, not {text!r}.", WRONG_USE
        )
    return moment.astimezone().isoformat()


def _facts(found: FoundOutput) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in (found.output.media or {}).items() if value]


def _shape(found: FoundOutput) -> str:
    facts = dict(_facts(found))
    parts = []
    if facts.get("width") and facts.get("height"):
        parts.append(f"{facts['width']}x{facts['height']}")
    if isinstance(facts.get("duration"), int | float):
        parts.append(f"{facts['duration']:.1f} s")
    return " ".join(parts)


def _life(found: FoundOutput) -> str:
    if found.output.gone_at is not None:
        return f"gone ({found.output.gone_reason}) {ago(found.output.gone_at)}"
    if found.expires_at is None:
        return ""
    return found.expires_at.astimezone().strftime("%Y-%m-%d")
