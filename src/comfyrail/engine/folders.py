"""The three folders that nodes and clients share, and the only way from a name to a path."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

FolderKind = Literal["input", "output", "temp"]
FOLDER_KINDS: tuple[FolderKind, ...] = get_args(FolderKind)


@dataclass(frozen=True, slots=True)
class Folders:
    input: Path
    output: Path
    temp: Path

    @classmethod
    def under(cls, data_dir: Path, input_dir: Path | None = None) -> "Folders":
        root = data_dir.resolve()
        return cls(
            input=(input_dir or root / "input").resolve(),
            output=root / "output",
            temp=root / "temp",
        )

    def make(self, *, keeps_temp: bool = False) -> None:
        """Make all three and empty temp. Raises OSError where output or temp cannot be written."""
        if not keeps_temp:
            shutil.rmtree(self.temp, ignore_errors=True)
        for folder in (self.input, self.output, self.temp):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (self.output, self.temp):
            tempfile.TemporaryFile(dir=folder).close()

    def of(self, kind: str) -> Path | None:
        """The folder of this kind, or None for a word that names none."""
        if kind == "input":
            return self.input
        if kind == "output":
            return self.output
        return self.temp if kind == "temp" else None

    def locate(self, name: str, default: FolderKind = "input") -> Path | None:
        """The path that `sub/x.png [temp]` means, or None where it leads outside its folder."""
        bare, kind = split_annotation(name, default)
        root = self.of(kind)
        return None if root is None else path_inside(root, bare)


def split_annotation(name: str, default: FolderKind) -> tuple[str, FolderKind]:
    """The name without its ` [input|output|temp]`, and the folder that it means."""
    for kind in FOLDER_KINDS:
        if name.endswith(f"[{kind}]"):
            return name[: -len(kind) - 2].rstrip(" "), kind
    return name, default


def path_inside(root: Path, *parts: str) -> Path | None:
    """`parts` joined to `root`, or None where that is outside of it, also through a link."""
    try:
        real_root = os.path.realpath(root)
        real = os.path.realpath(root.joinpath(*parts))
    except ValueError:
        # NUL, or half of a surrogate pair: no file can have such a name.
        return None
    if real != real_root and not real.startswith(real_root.rstrip(os.sep) + os.sep):
        return None
    return Path(real)
