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
    try:
        return connection.execute(QUERIES[query], values)
    except OverflowError as error:
        raise MalformedRequest(
            "A number of the request is too large: whole numbers have 64 bits at most."
        ) from error
