"""Content hashes of files, computed again only when a file has changed."""

import hashlib
from collections import OrderedDict
from pathlib import Path

MOST_REMEMBERED = 4_096

_known: OrderedDict[tuple[str, int, int, int], str] = OrderedDict()


def content_hash(path: Path) -> str:
    """SHA-256 of the file. Size, time and inode tell whether it is still the same."""
    status = path.stat()
    identity = (str(path), status.st_ino, status.st_size, status.st_mtime_ns)
    found = _known.get(identity)
    if found is None:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        _known[identity] = found
        if len(_known) > MOST_REMEMBERED:
            _known.popitem(last=False)
    return found
