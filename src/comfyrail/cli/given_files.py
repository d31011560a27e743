"""What `comfyrail uploads` does, and how `comfyrail run` gives files to its server."""

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from comfyrail.cli.exits import WRONG_USE, call_server, explain_and_exit
from comfyrail.cli.tables import add_row, ago, new_table, print_table
from comfyrail.cli.terminal import errors, line, say
from comfyrail.client import Asset, ComfyrailClient, RequestFailed

KEPT_SECONDS = 86_400.0
STAYS_SECONDS = 600.0
MOST_SHOWN = 5
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
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


def remove_file(server: str, id_or_name: str) -> None:
    """Of several files with the name the newest: that is the one which the name means."""

    async def ask() -> list[str]:
        async with ComfyrailClient(server) as client:
            named: list[str] = []
            if not ID.fullmatch(id_or_name):
                named += [each.asset_id async for each in client.uploads.all(name=id_or_name)]
            await client.uploads.delete(named[0] if named else id_or_name)
            return named

    removed, *others = call_server(ask()) or [id_or_name]
    say(f"Removed {line(removed)}.")
    if others:
        shown = ", ".join(others[:MOST_SHOWN]) + (", …" if len(others) > MOST_SHOWN else "")
        say(f"There are {len(others)} more of this name: {shown}. The newest of them counts now.")


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
            _check_file(file, " For a text that begins with @ write @@.")


async def check_names(
    client: ComfyrailClient,
    workflow: dict[str, Any] | str,
    parameters: Mapping[str, Any],
    *,
    auto_fix: bool,
) -> None:
    """End the command for parameters that the workflow has not, before their files are sent."""
    named = {key: _file_in(value) for key, value in parameters.items()}
    if not any(named.values()):
        return
    meant = {
        key: value if (file := named[key]) is None else file.name
        for key, value in parameters.items()
    }
    report = await client.validate(workflow, meant, auto_fix=auto_fix)
    # What a file is called decides about later stages, and it has no name there yet.
    faults = [
        finding.message
        for finding in report.findings
        if (finding.stage, finding.severity) == ("syntax", "error")
    ]
    if faults:
        explain_and_exit("\n       ".join(faults), WRONG_USE)


async def give_all(client: ComfyrailClient, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with the names that their files have on the server, once they are there. They
    are kept for a day: the run has its own hold on them.
    """
    given: dict[str, Any] = {}
    for key, value in parameters.items():
        file = _file_in(value)
        if file is not None:
            asset = await _own_copy(client, file)
            if asset is None:
                asset = await give_file(client, file, expires_in=KEPT_SECONDS)
            given[key] = asset.input_name
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


async def _own_copy(client: ComfyrailClient, file: Path) -> Asset | None:
    """The file with this name and these bytes that is there already, and stays for a while."""
    latest = datetime.now(UTC) + timedelta(seconds=STAYS_SECONDS)
    sha256 = await asyncio.to_thread(_sha256, file)
    with contextlib.suppress(RequestFailed):  # the key may give files and not list them
        async for each in client.uploads.all(name=file.name):
            if each.sha256 == sha256 and (each.expires_at is None or each.expires_at > latest):
                return each
    return None


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None  # sending it says why


def _check_file(file: Path, advice: str = "") -> None:
    try:
        is_file = file.is_file()
    except (OSError, ValueError):
        is_file = False
    if not is_file:
        explain_and_exit(f"There is no file {str(file)[:200]!r}.{advice}", WRONG_USE)
