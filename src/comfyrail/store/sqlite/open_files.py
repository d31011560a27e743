"""Files that are open: whether they are still those that others find under their names."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class OpenFile:
    """What is written to an open file that was deleted or replaced is gone when it is closed."""

    path: Path
    device: int
    number: int

    @classmethod
    def at(cls, path: Path) -> Self:
        """For a file that was just opened. Raises OSError when there is none any more."""
        figures = path.stat()
        return cls(path, figures.st_dev, figures.st_ino)

    def is_in_place(self) -> bool:
        """Whether its name still leads to it. Blocks."""
        try:
            figures = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # who writes there hears what is wrong
        return (figures.st_dev, figures.st_ino) == (self.device, self.number)
