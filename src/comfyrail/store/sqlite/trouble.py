"""What SQLite says when it cannot work, translated: what is wrong, and whether a new connection
may help.
"""

import sqlite3
from pathlib import Path

from comfyrail.errors import StoreUnavailable
from comfyrail.store.disk_trouble import (
    BACKUP_PAGE,
    RETRY_SECONDS,
    StorageTrouble,
    free_in,
    trouble_in,
    try_to_write,
)

SPOILING = frozenset(
    (
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
    )
)
"""After these a connection may go on failing although its disk is well again."""
DISK_ERRORS = SPOILING | {sqlite3.SQLITE_FULL}
DAMAGE = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
OF_THE_CALLER = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.ProgrammingError,
    sqlite3.NotSupportedError,
)


def is_locked(error: sqlite3.Error) -> bool:
    """Whether another process has the database to itself for the moment."""
    return _primary_code(error) == sqlite3.SQLITE_BUSY


def is_of_the_database(error: BaseException | None) -> bool:
    """Whether the database itself fails: not for what it was asked to do."""
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, OF_THE_CALLER)


def is_spoiling(error: BaseException) -> bool:
    """Whether the connection should be given up."""
    return isinstance(error, sqlite3.Error) and _primary_code(error) in SPOILING


def is_of_the_disk(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and _primary_code(error) in DISK_ERRORS


def store_error(error: Exception, folder: Path, verb: str) -> StoreUnavailable:
    """`verb`: what could not be done with the database, such as 'written'. Blocks."""
    if isinstance(error, StoreUnavailable):
        return error
    if isinstance(error, sqlite3.Error):
        if is_locked(error):
            return _locked(error, folder)
        trouble = _storage_trouble(error, folder)
        if trouble is not None:
            return trouble.error()
        if _primary_code(error) in DAMAGE:
            return _damaged(error, folder)
    return StoreUnavailable(
        f"The database in {folder} could not be {verb}: {error}. Check the disk, then try again.",
        retry_after=5.0,
    )


def same_again(error: StoreUnavailable) -> StoreUnavailable:
    """For a further caller: whoever raises an error adds to its traceback."""
    return type(error)(
        error.message, code=error.code, details=error.details, retry_after=error.retry_after
    )


def _storage_trouble(error: sqlite3.Error, folder: Path) -> StorageTrouble | None:
    """A full or read-only disk hides behind several codes: the disk itself is asked too."""
    code = _primary_code(error)
    if code not in DISK_ERRORS:
        return None
    seen = trouble_in(folder) or try_to_write(folder)
    if code == sqlite3.SQLITE_FULL and (seen is None or seen.kind != "read_only"):
        return StorageTrouble("full", folder, free_in(folder))
    return seen


def _locked(error: sqlite3.Error, folder: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"The database in {folder} is held by another process ({error}), such as a backup or a "
        "database tool. Let that one end, or use one that copies without locking; then try again.",
        retry_after=RETRY_SECONDS,
    )


def _damaged(error: sqlite3.Error, folder: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"The database in {folder} is damaged ({error}). Stop the server, check the disk, and "
        f"restore a backup: {BACKUP_PAGE}.",
        retry_after=RETRY_SECONDS,
    )


def _primary_code(error: sqlite3.Error) -> int | None:
    """Without what SQLite adds to tell kinds of the same fault apart."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
