"""What `comfyrail uploads` does, and how `comfyrail run` gives files to its server."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from comfyrail.cli.exits import WRONG_USE, call_server, explain_and_exit
from comfyrail.cli.tables import add_row, ago, new_table, print_table
from comfyrail.cli.terminal import errors, line, say
from comfyrail.client import Asset, ComfyrailClient

MARK = "@"
"""In front of a value: the file of this name is meant."""


def show_files(server: str, limit: int) -> None:
    async def ask() -> list[Asset]:
        found: list[Asset] = []
        async with ComfyrailClient(server) as client:
            async for asset in client.uploads.all(limit):
                found.append(asset)
                if len(found) == limit:
                    break
        return found

    found = call_server(ask())
    if not found:
        say(f"No files. Give one with: comfyrail uploads add FILE --server {server}")
        return
    table = new_table("Id", "Name", "Type", "Size", "Given", "Until")
    for each in found:
        until = each.expires_at.astimezone().strftime("%Y-%m-%d %H:%M") if each.expires_at else ""
        add_row(
            table,
            each.asset_id,
            line(each.name),
            line(each.content_type),
            f"{each.size:,}",
            ago(each.created_at),
            until,
        )
    print_table(table)


def add_files(
    server: str, files: Sequence[Path], name: str | None, expires_in: float | None
) -> None:
    if name is not None and len(files) > 1:
        explain_and_exit("--name is for one file.", WRONG_USE)
    for file in files:
        _check_file(file)

    async def ask() -> list[Asset]:
        async with ComfyrailClient(server) as client:
            return [await give_file(client, each, name, expires_in) for each in files]

    for asset in call_server(ask()):
        say(f"{line(asset.name)}: {asset.asset_id}")


def remove_file(server: str, asset_id: str) -> None:
    async def ask() -> None:
        async with ComfyrailClient(server) as client:
            await client.uploads.delete(asset_id)

    call_server(ask())
    say(f"Removed {line(asset_id)}.")


async def give_file(
    client: ComfyrailClient, file: Path, name: str | None = None, expires_in: float | None = None
) -> Asset:
    """Send a file, with a bar for one that takes a while."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(line(file.name), total=None)

        def told(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        try:
            return await client.uploads.add(file, name, expires_in=expires_in, told=told)
        except OSError as error:
            explain_and_exit(f"{file} cannot be read: {error.strerror or error}.", WRONG_USE)


def check_given(parameters: Mapping[str, Any]) -> None:
    """End the command for a file that is not there, before anything is begun."""
    for value in parameters.values():
        file = _file_in(value)
        if file is not None:
            _check_file(file)


async def give_all(client: ComfyrailClient, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with the names that their files have on the server, once they are there."""
    given: dict[str, Any] = {}
    for key, value in parameters.items():
        file = _file_in(value)
        if file is not None:
            given[key] = (await give_file(client, file)).input_name
        elif isinstance(value, str) and value.startswith(MARK + MARK):
            given[key] = value[1:]
        else:
            given[key] = value
    return given


def _file_in(value: Any) -> Path | None:
    """`@photo.png` means the file, `@@name` the text `@name`."""
    if not isinstance(value, str) or not value.startswith(MARK) or value.startswith(MARK + MARK):
        return None
    return Path(value[1:])


def _check_file(file: Path) -> None:
    try:
        is_file = file.is_file()
    except (OSError, ValueError):
        is_file = False
    if not is_file:
        explain_and_exit(
            f"There is no file {str(file)[:200]!r}. For a text that begins with @ write @@.",
            WRONG_USE,
        )
