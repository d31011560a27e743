"""Memory [12.5]: clean-up of what was left on disk, also by processes that were killed."""

import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from comfyrail.engine.memory.spill_area import FOLDER_PREFIX, LOCK_NAME, SpillArea
from tests.engine.memory.memory_parts import spill_files

VICTIM = """
import sys
from pathlib import Path
import numpy as np
from comfyrail.engine.memory.budget import MemoryBudget
from comfyrail.engine.memory.spill_area import SpillArea
from comfyrail.engine.memory.value_store import ValueStore

store = ValueStore(MemoryBudget(1 << 20), SpillArea(Path(sys.argv[1])))
for number in range(20):
    store.put(str(number), ((np.full(1 << 17, number, np.uint8),),), 1)
print(store.spilled_bytes, flush=True)
sys.stdin.read()
"""


def folders(root: Path) -> set[Path]:
    return set(root.glob(f"{FOLDER_PREFIX}*"))


def test_the_folder_of_a_killed_process_is_removed_at_the_next_start(tmp_path: Path) -> None:
    living = SpillArea(tmp_path).new_folder()
    kept = living.write([b"kept"])
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 1 << 20
        (left,) = folders(tmp_path) - {living.path}
        SpillArea(tmp_path)
        assert len(list(left.iterdir())) > 8
        process.kill()
        process.wait(10)
    assert len(list(left.iterdir())) > 8
    SpillArea(tmp_path)
    assert folders(tmp_path) == {living.path}
    assert bytes(kept.map()) == b"kept"
    living.close()
    assert folders(tmp_path) == set()


def test_only_folders_of_values_are_swept(tmp_path: Path) -> None:
    other = tmp_path / "other" / "file"
    other.parent.mkdir()
    other.touch()
    (tmp_path / f"{FOLDER_PREFIX}file").touch()
    (tmp_path / f"{FOLDER_PREFIX}link").symlink_to(other.parent)
    half_made = tmp_path / f"{FOLDER_PREFIX}half"
    half_made.mkdir()
    dead = tmp_path / f"{FOLDER_PREFIX}dead"
    dead.mkdir()
    (dead / LOCK_NAME).touch()
    SpillArea(tmp_path)
    assert other.exists()
    assert not half_made.exists()
    assert not dead.exists()


def test_a_place_that_cannot_be_swept_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).mkdir()
    with capture_logs() as logs:
        SpillArea(tmp_path)
    assert [entry["event"] for entry in logs] == ["cannot_sweep_spill_folders"]


def test_a_write_that_fails_leaves_no_file(tmp_path: Path) -> None:
    folder = SpillArea(tmp_path).new_folder()
    with pytest.raises(TypeError):
        folder.write([b"good", "bad"])  # type: ignore[list-item]
    assert spill_files(tmp_path) == []
    folder.close()
