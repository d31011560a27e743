"""`comfyrail doctor`: what is right and wrong on this machine."""

import importlib
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from comfyrail import __version__
from comfyrail.bootstrap.blobs import describe_blobs
from comfyrail.bootstrap.settings import load_settings
from comfyrail.cli.exits import FAILED, call_server
from comfyrail.cli.packs import pack_failures
from comfyrail.cli.terminal import out, plain, say
from comfyrail.client import (
    ComfyrailClient,
    InvalidAddress,
    RequestFailed,
    ServerUnreachable,
    UnexpectedReply,
    Worker,
)

LEAST_SQLITE = (3, 37, 0)  # the first with STRICT tables
LEAST_FREE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    is_right: bool
    found: str
    advice: str = ""


def examine(data: Path | None, server: str) -> None:
    """Print every check; exit 1 when one found a fault. A server that is not up is no fault."""
    settings = load_settings(data=data)
    checks = [*machine_checks(), *folder_checks(settings.data)]
    checks += [Check("Blob store", True, describe_blobs(settings)), engine_check()]
    checks += call_server(server_checks(server))
    for check in checks:
        mark = Text("ok  ", "green") if check.is_right else Text("BAD ", "red")
        say(mark, f"{check.name}: {check.found}")
        if not check.is_right:
            out.print(f"     {plain(check.advice)}", soft_wrap=True)
    if not all(check.is_right for check in checks):
        sys.exit(FAILED)


def machine_checks() -> Iterator[Check]:
    python = ".".join(str(part) for part in sys.version_info[:3])
    yield Check("Comfyrail", True, f"{__version__} on Python {python}, {os.cpu_count()} cores")
    yield Check(
        "SQLite",
        sqlite3.sqlite_version_info >= LEAST_SQLITE,
        sqlite3.sqlite_version,
        "Comfyrail needs SQLite 3.37 or newer: use a newer Python build.",
    )


def folder_checks(data: Path) -> Iterator[Check]:
    existing = data.absolute()
    while not os.path.exists(existing):  # noqa: PTH110 - Path.exists raises for some names
        existing = existing.parent
    yield Check(
        "Data folder",
        existing.is_dir() and os.access(existing, os.W_OK | os.X_OK),
        str(data.absolute()),
        f"{existing} cannot be written. Choose another folder with --data.",
    )
    free = shutil.disk_usage(existing).free
    yield Check(
        "Free disk",
        free >= LEAST_FREE_BYTES,
        f"{free / (1 << 30):.1f} GiB",
        "Less than 1 GiB is free: make room, or put the data folder on another disk.",
    )


def engine_check() -> Check:
    try:
        registry = importlib.import_module("comfyrail.engine.builtin").builtin_registry()
    except ImportError as error:
        return Check("Engine", False, str(error), "Install Comfyrail again: pip install comfyrail")
    return Check("Engine", True, f"{len(registry.names())} built-in node types")


async def server_checks(server: str) -> list[Check]:
    try:
        return await _server_checks(server)
    except (InvalidAddress, RequestFailed, ServerUnreachable, UnexpectedReply) as error:
        return [Check("Server", False, f"{error}.", "Choose another one with --server.")]


async def _server_checks(server: str) -> list[Check]:
    async with ComfyrailClient(server) as client:
        try:
            await client.check_alive()
        except ServerUnreachable:
            return [Check("Server", True, f"none answers at {server}")]
        obstacle = await client.why_not_ready()
        checks = [Check("Server", obstacle is None, server, f"It answers, but: {obstacle}")]
        workers = await client.fleet.workers()
        for worker in workers:
            checks += [_worker_check(worker), *await _pack_checks(worker)]
        return checks


async def _pack_checks(worker: Worker) -> list[Check]:
    """Packs that an engine worker could not load. One that cannot be asked is asked nothing."""
    if worker.endpoint is None:
        return []
    return [
        Check(
            f"Pack {failure.name}",
            False,
            f"not loaded by worker {worker.worker_id}: {failure.reason}",
            f"Mend or remove {failure.path}, then start the worker again.",
        )
        for failure in await pack_failures(worker.endpoint)
    ]


def _worker_check(worker: Worker) -> Check:
    is_right = worker.status in {"idle", "busy"}
    found = f"{worker.status}, {worker.node_types} node types, {worker.endpoint or 'no address'}"
    if worker.driver == "local":
        advice = f"{worker.error or 'It does not run.'} See worker.log in its folder."
    else:
        advice = f"{worker.error or 'It does not answer.'} Start it again, or remove it."
    return Check(f"Worker {worker.worker_id}", is_right, found, advice)
