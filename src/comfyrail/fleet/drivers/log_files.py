"""Logs of workers that this machine keeps."""

import os
from pathlib import Path
from typing import IO

LOG_NAME = "worker.log"
LOG_LIMIT_BYTES = 1 << 20
"""One that is longer begins anew when the worker starts again."""
TAIL_BYTES = 1 << 20
MOST_LINES = 10_000


def open_log(path: Path) -> IO[bytes]:
    """Go on in the log of the last life, which may say why it ended, unless it is long."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_long = path.exists() and path.stat().st_size > LOG_LIMIT_BYTES
    return path.open("wb" if is_long else "ab")


def last_lines(path: Path, lines: int) -> str:
    """The last lines of a log, or "" where there is none; never more than a megabyte of it."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            return keep_last_lines(file.read(TAIL_BYTES).decode(errors="replace"), lines)
    except FileNotFoundError:
        return ""


def keep_last_lines(text: str, lines: int) -> str:
    kept = text.splitlines()[-min(lines, MOST_LINES) :] if lines > 0 else []
    return "\n".join(kept)
