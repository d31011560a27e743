"""`python -m comfyrail.faultlab.write_lock DATABASE SECONDS`: nobody else can write meanwhile."""

import sqlite3
import sys
import time
from contextlib import closing

PATIENCE_SECONDS = 30.0


def hold_write_lock(database: str, seconds: float) -> None:
    with closing(
        sqlite3.connect(database, timeout=PATIENCE_SECONDS, isolation_level=None)
    ) as connection:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(seconds)
        connection.execute("ROLLBACK")


if __name__ == "__main__":
    hold_write_lock(sys.argv[1], float(sys.argv[2]))
