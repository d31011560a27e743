"""`comfyrail bench`: what it says, and that it leaves nothing behind."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from comfyrail.cli.bench_runs import show_rows
from comfyrail.faultlab.disks import loop_disk_obstacle
from comfyrail.faultlab.figures import Row, write_json
from tests.processes import wait_until

BENCH = [sys.executable, "-c", "from comfyrail.cli.bench import bench_app; bench_app()"]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BENCH, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_unknown_kind_is_named_with_those_that_are_known() -> None:
    done = bench("faults", "--kinds", "server-kill,earthquake")
    assert done.returncode == 2
    assert "earthquake" in done.stderr
    assert "worker-pause" in done.stderr


def test_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    done = bench("faults", "--folder", str(tmp_path), "--jobs", "1")
    assert done.returncode == 2
    assert "not empty" in done.stderr
    assert (tmp_path / "precious").exists()


def test_table_has_a_row_a_kind_and_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [
        Row("server-kill", jobs=10, completed=9, failed={"WORKER_LOST": 1}, recovery_p50=0.25),
        Row("disk-slow", obstacle="only root can mount a file system"),
        Row("mixed", jobs=10, lost=1, wrongs=["job-1 did not end in time"]),
    ]
    show_rows(rows)
    said = capsys.readouterr().out
    assert "WORKER_LOST 1" in said
    assert "not possible here: only root can mount a file system" in said
    assert "mixed: job-1 did not end in time" in said
    assert [row.is_right for row in rows] == [True, True, False]
    write_json(tmp_path / "rows.json", rows)
    written = json.loads((tmp_path / "rows.json").read_text())
    assert [row["kind"] for row in written] == ["server-kill", "disk-slow", "mixed"]
    assert written[2]["wrongs"] == ["job-1 did not end in time"]


def test_signal_ends_a_run_with_all_that_it_started_and_mounted(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    kind = "disk-slow" if loop_disk_obstacle() is None else "worker-pause"
    command = [*BENCH, "faults", "--kinds", kind, "--jobs", "100000", "--folder", str(folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "server and workers are up" in process.stderr.readline()
        assert processes_of(folder)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    wait_until(lambda: not processes_of(folder))
    assert str(folder) not in Path("/proc/mounts").read_text()
    assert not folder.exists()


def processes_of(folder: Path) -> list[str]:
    """Commands that name the folder, but for the harness itself."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(folder) in command and "bench_app" not in command:
                found.append(command)
    return found
