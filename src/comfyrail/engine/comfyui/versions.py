"""Versions of foreign node types: they change with the source, so that a result of a node as it
was before an edit is not served for the node as it is.
"""

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

UNKNOWN = "unknown"
_DIGEST_LENGTH = 16


class Versions:
    """Digests of source files and packs, each made once: at the time when they were imported."""

    def __init__(self, comfyui_version: str) -> None:
        self._comfyui_version = comfyui_version
        self._packs: dict[str, str] = {}
        self._files: dict[str, str] = {}

    def note_pack(self, python_module: str, path: Path) -> None:
        """A pack was imported from this folder or file under this module's name."""
        self._packs[python_module] = digest_of_sources(path)

    def version_of(self, node_class: Any, python_module: str) -> str:
        digest = self._packs.get(python_module) or self._digest_of_module(node_class)
        return f"comfyui:{python_module}:{self._comfyui_version}:{digest}"

    def _digest_of_module(self, node_class: Any) -> str:
        name = str(getattr(node_class, "__module__", ""))
        if name not in self._files:
            file = getattr(sys.modules.get(name), "__file__", None)
            self._files[name] = digest_of_sources(Path(file)) if file else UNKNOWN
        return self._files[name]


def digest_of_sources(path: Path) -> str:
    """The digest of a file, or of all Python files under a folder; where it lies does not count."""
    digest = hashlib.sha256()
    try:
        for name, file in _sources(path):
            digest.update(f"{len(name)} {name} ".encode("utf-8", "surrogateescape"))
            content = file.read_bytes()
            digest.update(f"{len(content)} ".encode())
            digest.update(content)
    except OSError:
        return UNKNOWN
    return digest.hexdigest()[:_DIGEST_LENGTH]


def _sources(path: Path) -> Iterator[tuple[str, Path]]:
    if path.is_file():
        yield path.name, path
        return
    for folder, subfolders, names in os.walk(path):
        subfolders[:] = sorted(each for each in subfolders if not each.startswith((".", "__")))
        for name in sorted(names):
            if name.endswith(".py"):
                file = Path(folder) / name
                yield file.relative_to(path).as_posix(), file
