"""Checkpoints of random weights, made by ComfyUI's own Python and lent to several servers."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from . import random_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .install import Peer

LIMIT_SECONDS = 110.0


def make_checkpoint(peer: Peer, target: Path, seed: int) -> None:
    """Write a checkpoint to a file (about 350 MB, some seconds); other seeds, other weights."""
    target.parent.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(
        [str(peer.python), random_checkpoint.__file__, str(target), str(seed)],
        cwd=peer.checkout,
        env=peer.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert made.returncode == 0, made.stdout[-3000:]


def lend_checkpoints(base_directory: Path, files: Iterable[Path]) -> None:
    """Let the ComfyUI with this base directory see the files, without copies of them."""
    folder = base_directory / "models" / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        (folder / file.name).symlink_to(file)
