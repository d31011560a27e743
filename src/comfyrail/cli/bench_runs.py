"""What `comfyrail bench` does: runs of the fault harness, and their tables."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from comfyrail.cli.exits import FAILED, WRONG_USE, explain_and_exit
from comfyrail.cli.signals import stop_on_signals
from comfyrail.cli.tables import add_row, new_table, print_table
from comfyrail.cli.terminal import errors, out, plain
from comfyrail.errors import ConfigurationError
from comfyrail.faultlab import acknowledged, restart, worker_death
from comfyrail.faultlab.faults.registry import KIND_NAMES, faults_named
from comfyrail.faultlab.figures import Row, write_json
from comfyrail.faultlab.run import Plan, run_plan

MOST_SHOWN = 20


class _Judged(Protocol):
    @property
    def is_right(self) -> bool: ...


Judged = TypeVar("Judged", bound=_Judged)


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where a run works, whether that stays, and where its figures go."""

    folder: Path | None
    keep: bool
    json: Path | None

    def write(self, rows: Sequence[Any]) -> None:
        if self.json is not None:
            write_json(self.json, rows)

    @contextmanager
    def opened(self) -> Iterator[Path]:
        """An empty folder; gone afterwards unless it is to be kept. Exits where it is not empty."""
        if self.folder is not None and self.folder.exists() and any(self.folder.iterdir()):
            explain_and_exit(f"{self.folder} is not empty. Choose another --folder.", WRONG_USE)
        folder = self.folder or Path(tempfile.mkdtemp(prefix="comfyrail-bench-"))
        folder.mkdir(parents=True, exist_ok=True)
        if self.keep:
            say(f"Everything is kept in {folder}")
        try:
            yield folder.absolute()
        finally:
            if not self.keep:
                # A process that was killed a moment ago may still write as the folder goes.
                shutil.rmtree(folder, ignore_errors=True)


def say(text: str) -> None:
    """Progress, on standard error."""
    errors.print(plain(text), soft_wrap=True)


def run_faults(
    kinds: str | None, jobs: int, seed: int, interval: float, lease: float, workshop: Workshop
) -> None:
    names = [each.strip() for each in kinds.split(",")] if kinds else list(KIND_NAMES)
    try:
        for name in names:
            faults_named(name)
    except ConfigurationError as error:
        explain_and_exit(error.message, WRONG_USE)

    async def run(folder: Path) -> Sequence[Row]:
        rows: list[Row] = []
        try:
            for number, name in enumerate(names):
                below = folder / f"{number + 1}-{name}"
                below.mkdir()
                row = await run_plan(Plan(name, jobs, seed, interval, lease), below, say)
                say(f"{name}: {len(row.wrongs)} things are wrong")
                rows.append(row)
                workshop.write(rows)
        except asyncio.CancelledError:
            show_rows(rows)  # what was measured before somebody stopped it
            raise
        return rows

    finish(run, show_rows, workshop)


def run_acknowledged(
    submissions: int, rate: float, kills: int, seed: int, workshop: Workshop
) -> None:
    async def run(folder: Path) -> Sequence[acknowledged.AcknowledgedRow]:
        return [await acknowledged.run_acknowledged(folder, submissions, rate, kills, seed, say)]

    finish(run, _show_plain, workshop)


def run_restart(queued: int, workshop: Workshop) -> None:
    async def run(folder: Path) -> Sequence[restart.RestartRow]:
        return [await restart.run_restart(folder, queued, say)]

    finish(run, _show_plain, workshop)


def run_worker_deaths(deaths: int, lease: float, seed: int, workshop: Workshop) -> None:
    async def run(folder: Path) -> Sequence[worker_death.DeathRow]:
        return [await worker_death.run_worker_deaths(folder, deaths, lease, seed, say)]

    finish(run, _show_plain, workshop)


def finish(
    run: Callable[[Path], Coroutine[Any, Any, Sequence[Judged]]],
    show: Callable[[Sequence[Judged]], None],
    workshop: Workshop,
) -> None:
    """Run it, show it, write it, and end with 1 where something is wrong."""
    with workshop.opened() as folder:
        rows = asyncio.run(_until_signal(run(folder)))
    show(rows)
    workshop.write(rows)
    sys.exit(0 if all(row.is_right for row in rows) else FAILED)


async def _until_signal(work: Coroutine[Any, Any, Sequence[Judged]]) -> Sequence[Judged]:
    """A signal ends the run; what was started, mounted and opened goes with it."""
    with stop_on_signals() as stopper:
        try:
            return await work
        except asyncio.CancelledError:
            if stopper.exit_code is None:
                raise
    sys.exit(stopper.exit_code)


def show_rows(rows: Sequence[Row]) -> None:
    # fmt: off
    table = new_table(
        "Kind", "Faults", "Jobs", "Completed", "Failed", "Cancelled", "Lost", "Doubled", "Gaps",
        "Missing", "Orphans", "Swept", "Unexplained", "Recovery p50", "p99 (s)", "Wall (s)",
        "Jobs/s",
    )
    # fmt: on
    for row in rows:
        if row.obstacle is not None:
            add_row(table, row.kind, f"not possible here: {row.obstacle}")
        else:
            add_row(table, *_cells(row))
    print_table(table)
    for row in rows:
        _show_wrongs(row)


def _cells(row: Row) -> list[str]:
    failed = ", ".join(f"{code} {count}" for code, count in row.failed.items())
    counted = (row.cancelled, row.lost, row.doubled, row.gaps, row.missing, row.orphans)
    return [
        row.kind,
        *map(str, (row.faults, row.jobs, row.completed)),
        failed or "0",
        *map(str, (*counted, row.swept, row.unexplained)),
        *(_seconds(each) for each in (row.recovery_p50, row.recovery_p99)),
        f"{row.seconds:.0f}",
        f"{row.per_second:.1f}",
    ]


def _show_wrongs(row: Row) -> None:
    """What is behind the figures: the first of everything that must not be."""
    for wrong in (*row.wrongs[:MOST_SHOWN], *row.notes[:MOST_SHOWN]):
        out.print(plain(f"{row.kind}: {wrong}"), soft_wrap=True)
    left = max(0, len(row.wrongs) - MOST_SHOWN)
    if left:
        out.print(f"{row.kind}: … and {left} more; --json has all of them")


def _show_plain(rows: Sequence[Any]) -> None:
    """A table of all fields, a line for each."""
    for row in rows:
        table = new_table("Figure", "Value")
        for name in row.__dataclass_fields__:
            value = getattr(row, name)
            shown = _seconds(value) if isinstance(value, float | None) else str(value)
            add_row(table, name.replace("_", " "), shown)
        print_table(table)


def _seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"
