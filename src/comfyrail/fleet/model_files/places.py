"""Where the files of a models folder are, and where notes about them are kept."""

import hashlib
from pathlib import Path

from comfyrail.errors import DriverRefused
from comfyrail.fleet.model_files.manifest import PART_SUFFIX

NOTES_FOLDER = ".comfyrail"


class Places:
    """Paths in one models folder. Nothing that is asked for can lead out of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._notes = self.folder / NOTES_FOLDER

    @property
    def index(self) -> Path:
        return self._notes / "index.json"

    @property
    def index_lock(self) -> Path:
        return self._notes / "index.lock"

    def make(self) -> None:
        """Make the folders. Blocks."""
        self._notes.mkdir(parents=True, exist_ok=True)

    def target(self, path: str) -> Path:
        return self.folder / path

    def part(self, path: str) -> Path:
        return self.folder / f"{path}{PART_SUFFIX}"

    def note(self, path: str) -> Path:
        return self._notes / f"{_key(path)}.part.json"

    def download_lock(self, path: str) -> Path:
        """Held by the one who fetches the file."""
        return self._notes / f"{_key(path)}.download"

    def use_lock(self, path: str) -> Path:
        """Shared by all whose worker needs the file: it is not removed then."""
        return self._notes / f"{_key(path)}.use"

    def make_parent(self, path: str) -> None:
        """Make the file's folder. Blocks. Raises DriverRefused where a link leads elsewhere."""
        # Judged before anything is made: a link in the middle could have folders made outside.
        if not self.is_inside(path):
            raise DriverRefused(
                f"The folder of the model {path} leads out of {self.folder} by a link. "
                "Put a real folder there, or choose another 'models_folder'.",
                code="MODEL_PATH_ESCAPES",
                details={"model": path},
            )
        self.target(path).parent.mkdir(parents=True, exist_ok=True)

    def is_inside(self, path: str) -> bool:
        """Whether no link on the way to a file leads out of the models folder. Blocks."""
        return self.target(path).parent.resolve().is_relative_to(self.folder.resolve())


def _key(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:32]
