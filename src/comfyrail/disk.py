"""What the rooms that keep files have in common: how bytes and names reach the disk."""

import os
from pathlib import Path


def write_synced(path: Path, content: bytes) -> None:
    """Write a new file; when this returns its bytes are on disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk: without it a rename may be forgotten."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
