"""Tables on a terminal."""

from datetime import UTC, datetime

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from comfyrail.cli.terminal import line, out, plain

COLOURS = {
    "completed": "green",
    "idle": "green",
    "processing": "cyan",
    "busy": "cyan",
    "queued": "yellow",
    "starting": "yellow",
    "draining": "yellow",
    "running": "cyan",
    "cached": "green",
    "stopped": "magenta",
    "cancelled": "magenta",
    "failed": "red",
    "delivered": "green",
    "pending": "yellow",
    "dead": "red",
    "unhealthy": "red",
}


def new_table(*columns: str) -> Table:
    """Ids and addresses are for copying: nothing is cut, a narrow terminal wraps whole lines."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def add_row(table: Table, *cells: str | Text) -> None:
    """Text as cells: rich reads its own markup in plain strings."""
    table.add_row(*(cell if isinstance(cell, Text) else Text(plain(cell)) for cell in cells))


def print_table(table: Table) -> None:
    unlimited = Console(highlight=False, width=10_000)
    needed = Measurement.get(unlimited, unlimited.options, table).maximum
    Console(highlight=False, width=max(needed, out.width)).print(table)


def ago(moment: datetime) -> str:
    seconds = max(0, round((datetime.now(UTC) - moment).total_seconds()))
    if seconds < 60:
        return f"{seconds} s ago"
    if seconds < 3600:
        return f"{seconds // 60} min ago"
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def coloured(status: str) -> Text:
    return Text(line(status), COLOURS.get(status, "white"))
