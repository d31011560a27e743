"""The built page: what `web/` was made into, out of the package [13].

The build is in the wheel, and in a checkout after `make page`. Its files are few and small: they
are held in memory, also compressed.
"""

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

FOLDER = "page_files"
INDEX = "index.html"
SMALLEST_COMPRESSED = 1000
TRIES = 3
COMPRESSIBLE = ("text/", "application/json", "image/svg+xml")


@dataclass(frozen=True, slots=True)
class PageFile:
    content: bytes
    compressed: bytes | None
    """None where it does not pay."""
    content_type: str
    tag: str


@dataclass(frozen=True, slots=True)
class PageBuild:
    index: str
    files: Mapping[str, PageFile]
    """By path below the page's folder: `assets/index-3fa9.js`."""


def read_build() -> PageBuild | None:
    """None where the page was not built."""
    folder = resources.files("comfyrail.api") / FOLDER
    index = folder / INDEX
    for _ in range(TRIES):
        if not index.is_file():
            break
        before = index.read_text("utf-8")
        files = dict(_files(folder, ""))
        if index.is_file() and index.read_text("utf-8") == before:
            return PageBuild(before, files)
        # Another build has taken its place meanwhile.
    return None


def _files(folder: Traversable, prefix: str) -> list[tuple[str, PageFile]]:
    found: list[tuple[str, PageFile]] = []
    for entry in folder.iterdir():
        path = prefix + entry.name
        if entry.name.startswith("."):
            continue  # what the build notes for itself
        if entry.is_dir():
            found.extend(_files(entry, path + "/"))
        elif path != INDEX:
            found.append((path, _read(path, entry.read_bytes())))
    return found


def _read(path: str, content: bytes) -> PageFile:
    content_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
    if content_type in {"text/javascript", "application/javascript"}:
        content_type = "text/javascript"  # machines differ
    is_text = content_type.startswith(COMPRESSIBLE)
    if content_type.startswith("text/"):
        content_type += "; charset=utf-8"
    compressed = None
    if is_text and len(content) >= SMALLEST_COMPRESSED:
        compressed = gzip.compress(content, 9, mtime=0)
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return PageFile(content, compressed, content_type, tag)
