"""Options of jobs in the queue: who goes first, when, where, and how long they may wait."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from comfyrail.cli.exits import WRONG_USE, explain_and_exit

LOWEST_PRIORITY = 1
HIGHEST_PRIORITY = 10
MOST_RETRIES = 10


def check_priority(priority: int | None) -> int | None:
    if priority is not None and not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise typer.BadParameter(
            f"priority is {LOWEST_PRIORITY} (lowest) to {HIGHEST_PRIORITY} (highest), "
            f"not {priority}."
        )
    return priority


def _check_seconds(seconds: float | None) -> float | None:
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise typer.BadParameter(f"it takes seconds, more than 0, not {seconds:g}.")
    return seconds


def _check_retries(retries: int | None) -> int | None:
    if retries is not None and not 0 <= retries <= MOST_RETRIES:
        raise typer.BadParameter(f"it takes 0 to {MOST_RETRIES}, not {retries}.")
    return retries


LabelOption = Annotated[
    list[str] | None,
    typer.Option("--label", help="NAME=VALUE: run only on workers with this label."),
]
NotBeforeOption = Annotated[
    str | None,
    typer.Option(
        "--not-before",
        help="Start at this time or later: with its zone, such as 2026-01-31T08:00:00Z.",
    ),
]
QueueTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--queue-timeout",
        callback=_check_seconds,
        help="Seconds to wait in the queue at most (default: as the server is set up).",
    ),
]
MaxRetriesOption = Annotated[
    int | None,
    typer.Option(
        "--max-retries",
        callback=_check_retries,
        help="How often to try again after a failure, 0 to 10 (default: as the server is set up).",
    ),
]


def queue_wishes(
    labels: Sequence[str],
    not_before: str | None,
    queue_timeout: float | None,
    max_retries: int | None = None,
) -> dict[str, Any]:
    """What was given of these options, as the API names it."""
    wishes: dict[str, Any] = {}
    if labels:
        wishes["labels"] = read_labels(labels)
    if not_before is not None:
        wishes["not_before"] = read_moment(not_before)
    if queue_timeout is not None:
        wishes["queue_timeout"] = queue_timeout
    if max_retries is not None:
        wishes["max_retries"] = max_retries
    return wishes


def read_labels(texts: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE each, or the end of the command."""
    labels: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        name = name.strip()
        if not sign or not name:
            explain_and_exit(f"Write it like --label NAME=VALUE, not {text!r}.", WRONG_USE)
        if name in labels:
            explain_and_exit(f"--label {name} is given twice: a label has one value.", WRONG_USE)
        labels[name] = value.strip()
    return labels


def read_moment(text: str) -> str:
    """A time as the API reads it, or the end of the command."""
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            explain_and_exit(
                f"--not-before {text} has no time zone: add Z, or one such as +02:00.", WRONG_USE
            )
        return moment.astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        explain_and_exit(
            f"--not-before takes a time such as 2026-01-31T08:00:00Z, not {text!r}.", WRONG_USE
        )
