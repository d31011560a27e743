"""Which results of an execution's nodes need not be made again, and where they are."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from comfyrail.engine.caching.result import CachedResult
from comfyrail.engine.caching.result_cache import ResultCache
from comfyrail.engine.folders import Folders, path_inside

_NOWHERE = Path("/nowhere/at/all")


class KnownResults:
    """Keys that were found, in the checkpoint to resume from or in the cache."""

    def __init__(
        self, cache: ResultCache, saved: Mapping[str, CachedResult], folders: Folders
    ) -> None:
        self._cache = cache
        self._saved = saved
        self._folders = folders
        self._found: set[str] = set()

    def look_for(self, keys: Iterable[str]) -> None:
        """Find out which of these are there; values are not loaded yet."""
        wanted = [key for key in keys if key not in self._found]
        self._found.update(key for key in wanted if key in self._saved)
        self._found |= self._cache.locate(key for key in wanted if key not in self._found)

    def __contains__(self, key: object) -> bool:
        return key in self._found

    def add(self, key: str) -> None:
        """Say that the cache has this one now."""
        self._found.add(key)

    def forget(self, key: str) -> None:
        """Say that nobody has this one."""
        self._found.discard(key)

    def load(self, key: str) -> CachedResult | None:
        """The result, or None when it proves to be lost: then it is not known any more."""
        result = self._saved.get(key) if key in self._saved else None
        if result is None:
            result = self._cache.get(key)
        if result is None:
            self._found.discard(key)
        return result

    def load_shown(self, key: str) -> CachedResult | None:
        """The same for a node that shows files: it counts only if they are still there."""
        result = self.load(key)
        if result is not None and not files_are_there(result, self._folders):
            self._found.discard(key)
            return None
        return result


def with_files(result: CachedResult, folders: Folders) -> CachedResult:
    """A result that has just been made, with what its files are like now."""
    if result.ui is None:
        return result
    stamps = {str(path): _stamp(path) for path in files_of(result, folders)}
    found = {path: stamp for path, stamp in stamps.items() if stamp is not None}
    return msgspec.structs.replace(result, files=found) if found else result


def files_are_there(result: CachedResult, folders: Folders) -> bool:
    """Whether every file that a result names is here, and is still the one that it wrote."""
    return all(
        result.files.get(str(path), ()) == _stamp(path) for path in files_of(result, folders)
    )


def files_of(result: CachedResult, folders: Folders) -> Iterator[Path]:
    """The files that a result names. One that leads outside of its folder is none at all."""
    for items in (result.ui or {}).values():
        for item in items if isinstance(items, list | tuple) else ():
            if isinstance(item, Mapping) and "filename" in item:
                root = folders.of(str(item.get("type")))
                name = (str(item.get("subfolder", "")), str(item["filename"]))
                yield (path_inside(root, *name) if root else None) or _NOWHERE


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_size, found.st_mtime_ns
