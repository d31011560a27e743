"""Files that loading nodes choose from: images, sounds, films, latents of the input folder."""

import os
from dataclasses import dataclass
from pathlib import Path

from comfyrail.engine.definition import InputCheck, Literals, NodeInputs
from comfyrail.engine.file_hash import content_hash
from comfyrail.engine.folders import Folders


@dataclass(frozen=True, slots=True)
class InputFiles:
    """Those of one kind. `input`: the input of the node that names one; `kind`: in messages;
    `suffixes`: in small letters, of what is offered to choose from.
    """

    input: str
    kind: str
    suffixes: tuple[str, ...]

    def choices(self, folders: Folders) -> list[str]:
        if not folders.input.is_dir():
            return []
        with os.scandir(folders.input) as entries:
            return sorted(
                entry.name
                for entry in entries
                if entry.is_file() and entry.name.lower().endswith(self.suffixes)
            )

    @property
    def check(self) -> InputCheck:
        """What is wrong with a name, before the graph runs."""
        return InputCheck((self.input,), self._find_missing)

    def fingerprint(self, inputs: NodeInputs) -> str:
        """The content decides, not the name."""
        return content_hash(self.path(inputs.folders, inputs.literals[self.input]))

    def path(self, folders: Folders, name: object) -> Path:
        """Raises FileNotFoundError for a name that stands for no file."""
        path = folders.locate(str(name))
        if path is None:
            raise FileNotFoundError(self._invalid(name))
        return path

    def _find_missing(self, literals: Literals, folders: Folders) -> str | None:
        name = literals[self.input]
        path = folders.locate(str(name))
        return None if path and path.is_file() else self._invalid(name)

    def _invalid(self, name: object) -> str:
        return f"Invalid {self.kind} file: {name}"
