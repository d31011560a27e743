"""Keep only the newest files in the output and temp folders of a worker."""

import contextlib
import os
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comfyrail.clock import Clock
from comfyrail.engine.folders import Folders, path_inside

SPARED_SECONDS = 60.0


class OutputRetention:
    """Deletes the oldest files beyond `keep`. Owned by the thread that executes.

    What a prompt of the last minute named, written or reused, is spared: someone may be fetching
    it. The folders are listed once, at the start.
    """

    def __init__(self, folders: Folders, keep: int, clock: Clock) -> None:
        self._folders = folders
        self._keep = keep
        self._clock = clock
        self._named_at: OrderedDict[Path, float] = OrderedDict()
        for path in _files_by_age(folders.output, folders.temp):
            self._named_at[path] = float("-inf")

    def note(self, ui: Mapping[str, Any]) -> None:
        """Remember the files that a node says it wrote."""
        now = self._clock.monotonic()
        for items in ui.values():
            for item in items:
                path = self._path_of(item)
                if path is not None:
                    self._named_at[path] = now
                    self._named_at.move_to_end(path)

    def enforce(self) -> None:
        """Delete what is too much. Called between prompts, never while one runs."""
        spared_since = self._clock.monotonic() - SPARED_SECONDS
        while len(self._named_at) > self._keep:
            path, named_at = next(iter(self._named_at.items()))
            if named_at > spared_since:
                return
            del self._named_at[path]
            with contextlib.suppress(OSError):
                path.unlink()

    def _path_of(self, item: Any) -> Path | None:
        if not isinstance(item, Mapping) or item.get("type") not in ("output", "temp"):
            return None
        root = self._folders.of(item["type"])
        name = (str(item.get("subfolder", "")), str(item.get("filename", "")))
        return path_inside(root, *name) if root else None


def _files_by_age(*roots: Path) -> list[Path]:
    found = [
        Path(parent, name) for root in roots for parent, _, names in os.walk(root) for name in names
    ]
    # Not of what a link leads to, which may be nothing.
    return sorted(found, key=lambda path: path.lstat().st_mtime_ns)
