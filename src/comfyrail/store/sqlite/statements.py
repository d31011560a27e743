"""Running named queries. A value that SQLite cannot keep is the fault of whoever gave it."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from comfyrail.errors import MalformedRequest
from comfyrail.store.sqlite.queries import QUERIES


def execute(
    connection: sqlite3.Connection, query: str, values: Mapping[str, Any]
) -> sqlite3.Cursor:
    """Raise MalformedRequest for a whole number of more than 64 bits."""
    return _execute(connection, QUERIES[query], values)


def execute_given(
    connection: sqlite3.Connection, query: str, values: Mapping[str, Any]
) -> sqlite3.Cursor:
    """The same without the lines that end in `--? name` of a value that is None: so SQLite uses the
    indexes of the conditions that count.
    """
    lines = (line for line in QUERIES[query].splitlines() if _is_given(line, values))
    return _execute(connection, "\n".join(lines), values)


def _is_given(line: str, values: Mapping[str, Any]) -> bool:
    _, mark, name = line.partition("--? ")
    return not mark or values[name.strip()] is not None


def _execute(connection: sqlite3.Connection, sql: str, values: Mapping[str, Any]) -> sqlite3.Cursor:
    try:
        return connection.execute(sql, values)
    except OverflowError as error:
        raise MalformedRequest(
            "A number of the request is too large: whole numbers have 64 bits at most."
        ) from error
