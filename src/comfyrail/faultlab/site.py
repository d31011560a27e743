"""A server, its workers, the lines between them and the disk below: what faults are done to."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from comfyrail.client import ComfyrailClient, RequestFailed, ServerUnreachable
from comfyrail.errors import ConfigurationError
from comfyrail.faultlab.clock_offset import ClockOffset
from comfyrail.faultlab.disks import Disk, loop_disk
from comfyrail.faultlab.programs import COMFYRAIL, DidNotStart, Program, free_port
from comfyrail.faultlab.proxy import LineProxy, proxy_to
from comfyrail.faultlab.waiting import LOOK_SECONDS, until

READY_LIMIT_SECONDS = 90.0
BRING_UP_LIMIT_SECONDS = 120.0
POLL_SECONDS = 1.0
PLAIN_DISK_MEBIBYTES = 256
STAMP_PACK = str(Path(__file__).with_name("stamp_node.py"))


@dataclass(frozen=True, slots=True)
class Layout:
    """What a kind of fault needs to find: how many workers, and which parts are made to fail."""

    remote_workers: int = 3
    local_workers: int = 0
    own_disk: bool = False
    shifted_clock: bool = False

    def __or__(self, other: "Layout") -> "Layout":
        """The smallest that has all of both."""
        return Layout(
            max(self.remote_workers, other.remote_workers),
            max(self.local_workers, other.local_workers),
            self.own_disk or other.own_disk,
            self.shifted_clock or other.shifted_clock,
        )

    @property
    def workers(self) -> int:
        return self.remote_workers + self.local_workers


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """A worker of its own, and the line on which the server reaches it."""

    program: Program
    line: LineProxy


@dataclass(slots=True)
class Site:
    folder: Path
    layout: Layout
    lease: float
    disk: Disk
    clock: ClockOffset
    server: Program
    places: list[WorkerPlace]
    notes: list[str] = field(default_factory=list)
    """What the processes did that nobody had asked of them."""

    @property
    def url(self) -> str:
        return self.server.url

    async def bring_up(self, program: Program) -> None:
        """Start it, and once more where that fails, as whoever watches over servers does."""
        deadline = time.monotonic() + BRING_UP_LIMIT_SECONDS
        while True:
            try:
                await program.start()
            except DidNotStart as error:
                self.note(str(error))
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.5)
            else:
                return

    async def until_ready(self) -> None:
        """Wait until the server has all its workers."""
        if not await until(self._has_all_workers, READY_LIMIT_SECONDS):
            raise ConfigurationError(
                f"The server did not get its {self.layout.workers} workers within "
                f"{READY_LIMIT_SECONDS:g} s. See the logs in {self.folder}."
            )

    def note(self, text: str) -> None:
        self.notes.append(text)

    async def _has_all_workers(self) -> bool:
        try:
            async with ComfyrailClient(self.url) as client:
                workers = await client.fleet.workers()
        except (ServerUnreachable, RequestFailed):
            return False
        up = [each for each in workers if each.status in {"idle", "busy"}]
        return len(up) >= self.layout.workers

    async def add_workers(self) -> None:
        async with ComfyrailClient(self.url) as client:
            for place in self.places:
                await client.fleet.add(place.line.url, name=place.program.name)

    async def keep_running(self) -> None:
        """Start what ends by itself, and note that it did."""
        programs = [self.server, *(place.program for place in self.places)]
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for program in programs:
                if program.exit_code is not None and not program.busy.locked():
                    async with program.busy:
                        self.note(f"{program.name} ended by itself with {program.exit_code}")
                        await program.kill()
                        await self.bring_up(program)


@asynccontextmanager
async def open_site(
    folder: Path,
    layout: Layout,
    lease: float,
    disk_mebibytes: int = PLAIN_DISK_MEBIBYTES,
    **environment: str,
) -> AsyncIterator[Site]:
    """Everything up and connected; all of it gone when this is over, however it ends."""
    async with AsyncExitStack() as stack:
        disk: Disk = (
            await stack.enter_async_context(loop_disk(folder, disk_mebibytes))
            if layout.own_disk
            else Disk(folder)
        )
        clock = ClockOffset(folder / "clock-offset")
        stack.callback(clock.close)
        places = [
            await _place(stack, folder, f"worker-{number}")
            for number in range(1, layout.remote_workers + 1)
        ]
        server = _server(folder, layout, lease, disk, environment)
        stack.push_async_callback(server.kill)
        site = Site(folder, layout, lease, disk, clock, server, places)
        await _start_all([server, *(place.program for place in places)])
        await site.add_workers()
        await site.until_ready()
        keeper = asyncio.create_task(site.keep_running(), name="site-keeper")
        stack.push_async_callback(_end, keeper)
        yield site


def _server(
    folder: Path, layout: Layout, lease: float, disk: Disk, environment: dict[str, str]
) -> Program:
    launcher = (
        (sys.executable, "-m", "comfyrail.faultlab.shifted_clock", str(folder / "clock-offset"))
        if layout.shifted_clock
        else COMFYRAIL
    )
    fleet = folder / "fleet.json"
    fleet.write_text(json.dumps({"pools": _local_pools(layout.local_workers)}))
    arguments = ("--port", str(free_port()), "--workers", "0", "--fleet", str(fleet))
    return Program(
        "server",
        (*launcher, "serve", "--data", str(disk.data), *arguments),
        folder / "server.log",
        {
            "COMFYRAIL_LEASE_SECONDS": f"{lease:g}",
            "COMFYRAIL_POLL_SECONDS": f"{min(POLL_SECONDS, lease / 2):g}",
            "COMFYRAIL_LOG_JSON": "true",
            **environment,
        },
    )


def _local_pools(workers: int) -> dict[str, Any]:
    """As those of `--workers`, but with our pack of nodes."""
    limits = {"minimum": workers, "maximum": workers}
    pool = {"driver": "local", "config": {"nodes": [STAMP_PACK]}, **limits}
    return {"engines": pool} if workers else {}


async def _place(stack: AsyncExitStack, folder: Path, name: str) -> WorkerPlace:
    port = free_port()
    arguments = ("--port", str(port), "--data", str(folder / name), "--nodes", STAMP_PACK)
    program = Program(name, (*COMFYRAIL, "worker", *arguments), folder / f"{name}.log", {})
    stack.push_async_callback(program.kill)
    return WorkerPlace(program, await stack.enter_async_context(proxy_to(port)))


async def _start_all(programs: Sequence[Program]) -> None:
    """At once, which takes as long as one. Raises DidNotStart."""
    try:
        async with asyncio.TaskGroup() as group:
            for program in programs:
                group.create_task(program.start(), name=f"start-{program.name}")
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
