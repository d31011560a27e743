"""What is remembered of the files in a models folder, in one small file.

Only what was fetched here is ever removed: a file that is not in the index, or is there as found,
belongs to somebody else.
"""

from pathlib import Path

import msgspec
import structlog

from comfyrail.disk import sync_folder, write_synced
from comfyrail.fleet.model_files.manifest import Size, is_safe_path

log = structlog.get_logger(__name__)

INDEX_LIMIT_BYTES = 16 << 20


class KnownFile(msgspec.Struct, frozen=True, kw_only=True):
    sha256: str
    size: Size
    used_at: float
    """Seconds since the epoch: when a worker last needed it."""
    fetched: bool = True
    """False: it was there before us, and stays."""
    arriving: bool = False
    """Still a part; its whole size is counted."""
    modified_ns: int = 0
    """Of the file when its content was checked: one that was changed since is checked again."""


class Index:
    """Read and written under the folder's lock, by whoever holds that. All calls block."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, KnownFile]:
        """By path below the models folder. One that cannot be read counts as empty."""
        try:
            with self._path.open("rb") as file:
                content = file.read(INDEX_LIMIT_BYTES)
            found = msgspec.json.decode(content, type=dict[str, KnownFile])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.warning("model_index_unreadable", path=str(self._path), error=str(error))
            return {}
        return {path: file for path, file in found.items() if is_safe_path(path)}

    def write(self, known: dict[str, KnownFile]) -> None:
        draft = self._path.with_name(f"{self._path.name}.draft")
        draft.unlink(missing_ok=True)
        write_synced(draft, msgspec.json.format(msgspec.json.encode(known), indent=1))
        draft.replace(self._path)
        sync_folder(self._path.parent)
