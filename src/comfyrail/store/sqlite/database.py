"""Opening the database file: lock, pragmas, migrations."""

import contextlib
import fcntl
import hashlib
import os
import sqlite3
import stat
from pathlib import Path
from typing import IO

from comfyrail.errors import ConfigurationError
from comfyrail.store.disk_trouble import trouble_of
from comfyrail.store.sqlite.migrations import all_migrations
from comfyrail.store.sqlite.trouble import is_locked, is_of_the_disk, store_error

DATABASE_NAME = "comfyrail.db"
WAL_NAME = DATABASE_NAME + "-wal"
LOCK_NAME = "comfyrail.lock"
OF_OWNER_ALONE = stat.S_IRUSR | stat.S_IWUSR
WAL_BYTES_KEPT = 32 << 20
"""What the write-ahead log is cut back to when a reader that had kept it growing has gone."""
WRITER_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    f"journal_size_limit = {WAL_BYTES_KEPT}",
)


def lock_folder(folder: Path) -> IO[str]:
    """Make this process the only one that uses the data folder, until the file is closed."""
    try:
        folder.mkdir(OF_OWNER_ALONE | stat.S_IXUSR, parents=True, exist_ok=True)
        lock = (folder / LOCK_NAME).open("a+", encoding="utf-8")
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise ConfigurationError(
            f"The data folder {folder} is in use by another Comfyrail server (process {holder}). "
            "Stop that one, or choose another folder with --data.",
            code="DATA_FOLDER_IN_USE",
        ) from error
    # Only for people, and a full disk may refuse it: the lock itself needs no room. Unbuffered:
    # what is refused must not come up again when the file is closed.
    with contextlib.suppress(OSError):
        os.ftruncate(lock.fileno(), 0)
        os.write(lock.fileno(), str(os.getpid()).encode())
    return lock


def _unwritable(folder: Path, error: OSError) -> ConfigurationError:
    trouble = trouble_of(error, folder)
    if trouble is not None:
        advice = "Free some space there" if trouble.kind == "full" else "Make it writable"
        said = f"{error.strerror}. {advice}, or choose another with --data."
    else:
        said = f"{error.strerror}. Choose another with --data, or mend its permissions."
    return ConfigurationError(
        f"The data folder {folder} cannot be written: {said}", code="DATA_FOLDER_UNWRITABLE"
    )


def connect(
    folder: Path, *, read_only: bool = False, may_create: bool = True
) -> sqlite3.Connection:
    """A connection with the settings that the store relies on; transactions are explicit."""
    path = folder / DATABASE_NAME
    mode = "ro" if read_only else "rwc" if may_create else "rw"
    if mode == "rwc":
        _make_private(path)
    try:
        connection = sqlite3.connect(
            f"file:{_quote(path)}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=10.0,
            cached_statements=256,
        )
        connection.row_factory = sqlite3.Row
        # SQLite's own lower() knows no letters but those of English.
        connection.create_function("casefold", 1, str.casefold, deterministic=True)
        for pragma in (
            "foreign_keys = ON",
            "temp_store = MEMORY",
            "cache_size = -16384",
            *(() if read_only else WRITER_PRAGMAS),
        ):
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.Error as error:
        raise store_error(error, folder, "opened") from error
    return connection


def _make_private(path: Path) -> None:
    """A new database is for its owner alone; the files beside it get the same rights by SQLite."""
    # What the disk refuses is said when SQLite opens the file.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OF_OWNER_ALONE))


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the schema up to date; every migration in a transaction of its own."""
    try:
        _migrate(connection)
    except sqlite3.DatabaseError as error:
        if is_of_the_disk(error) or is_locked(error):
            raise store_error(error, folder_of(connection), "brought up to date") from error
        raise


def _migrate(connection: sqlite3.Connection) -> None:
    (current,) = connection.execute("PRAGMA user_version").fetchone()
    migrations = all_migrations()
    if current > migrations[-1].number:
        raise ConfigurationError(
            f"The database was made by a newer Comfyrail (schema {current}, this one knows "
            f"{migrations[-1].number}). Upgrade Comfyrail, or restore a backup.",
            code="SCHEMA_TOO_NEW",
        )
    connection.create_function("sha256_hex", 1, _sha256_hex, deterministic=True)
    for migration in migrations:
        if migration.number > current:
            connection.executescript(
                f"BEGIN IMMEDIATE;\n{migration.sql}\n"
                f"PRAGMA user_version = {migration.number};\nCOMMIT;"
            )


def folder_of(connection: sqlite3.Connection) -> Path:
    """Where its database lies."""
    rows = connection.execute("PRAGMA database_list").fetchall()
    return next(Path(file) for _, name, file in rows if name == "main").parent


def _sha256_hex(text: str) -> str:
    """For migrations that must make keys as the program does."""
    return hashlib.sha256(text.encode()).hexdigest()


def _quote(path: Path) -> str:
    return str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
