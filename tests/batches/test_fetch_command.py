"""A batch's results as files [4.6]."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from comfyrail.cli.results import save_output
from comfyrail.client import ComfyrailClient, Output
from tests.cli.foreign_server import JOB_ID, MOMENT, foreign_server, job_with_outputs
from tests.graphs import picture
from tests.processes import Comfyrail, comfyrail

NO_COUNTS = {
    "queued": 0,
    "processing": 0,
    "completed": 0,
    "failed": 0,
    "cancelled": 0,
    "unmade": 0,
    "awaiting_score": 0,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(picture()))
    return path


def submit(server: Comfyrail, file: Path, *arguments: str) -> Any:
    return comfyrail("batches", "submit", str(file), *arguments, "--server", server.url)


def test_results_are_saved_at_the_end_under_the_number_of_their_job(
    running_server: Comfyrail, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "pictures"
    grid = ["--vary", "1.width=3,4", "--set", "3.filename_prefix=x", "--priority", "9"]
    ended = submit(running_server, file, *grid, "-o", str(out))
    assert ended.returncode == 0, ended.stderr
    names = sorted(path.name for path in out.iterdir())
    assert [name[:4] for name in names] == ["0_x_", "1_x_"]
    assert [str(out / name) for name in names] == ended.stdout.splitlines()[-2:]
    assert f"Saved 2 files in {out}." in ended.stderr


def test_results_are_fetched_once_and_nothing_is_overwritten(
    running_server: Comfyrail, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    at = ["--server", running_server.url, "-o", str(out)]
    submit(running_server, file, "--vary", "1.height=7,8", "--priority", "9")
    batch_id = running_server.call("GET", "/v1/batches?limit=1")[1]["batches"][0]["batch_id"]
    first = comfyrail("batches", "fetch", batch_id, *at)
    assert first.returncode == 0, first.stderr
    zero, one = map(Path, first.stdout.splitlines())
    zero.write_text("mine")
    again = comfyrail("batches", "fetch", batch_id, *at)
    assert again.returncode == 0, again.stderr
    renamed = f"{zero.stem} (1){zero.suffix}"
    assert again.stdout == f"{out / renamed}\n"
    assert "Saved 1 file in" in again.stderr
    assert "1 were there already" in again.stderr
    assert zero.read_text() == "mine"
    assert {path.name for path in out.iterdir()} == {zero.name, one.name, renamed}


def test_batch_that_is_nobodys_leaves_no_folder(running_server: Comfyrail, tmp_path: Path) -> None:
    at = ["--server", running_server.url, "-o", str(tmp_path / "out")]
    ended = comfyrail("batches", "fetch", "none", *at)
    assert ended.returncode == 2
    assert "There is no batch none" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_folder_that_takes_no_results_is_refused_before_the_work(
    running_server: Comfyrail, file: Path
) -> None:
    ended = submit(running_server, file, "--vary", "1.width=3", "-o", "/proc")
    assert ended.returncode == 2
    assert "Results cannot be put in /proc: " in ended.stderr


def test_folder_for_the_results_of_a_detached_batch_is_refused(
    running_server: Comfyrail, file: Path
) -> None:
    ended = submit(running_server, file, "--vary", "1.width=3", "--detach", "-o", "x")
    assert ended.returncode == 2
    assert "comfyrail batches fetch BATCH -o x" in ended.stderr


def foreign_batch(*jobs: dict[str, Any]) -> dict[str, Any]:
    batch: dict[str, Any] = {
        "batch_id": "b",
        "name": None,
        "kind": "list",
        "status": "failed",
        "jobs": 11,
        "counts": NO_COUNTS,
        "progress": 1.0,
        "stop_on_error": False,
        "submitted_at": MOMENT,
        "started_at": None,
        "completed_at": None,
        "estimated_remaining": None,
        "cost": None,
        "best": None,
        "warnings": [],
    }
    nothing: dict[str, Any] = {
        "name": None,
        "progress": 1.0,
        "parameters": {},
        "score": None,
        "started_at": None,
        "completed_at": None,
        "cost": None,
        "warning": None,
        "error": None,
    }
    listed = [{**nothing, **job} for job in jobs]
    return {
        "/v1/batches/b": batch,
        "/v1/batches/b/executions": {"executions": listed, "next_cursor": None},
    }


def outputs(*names: str, **changes: Any) -> dict[str, Any]:
    job = job_with_outputs(*names)[f"/v1/workflows/execution/{JOB_ID}"]
    return {"outputs": [{**each, **changes} for each in job["result"]["outputs"]]}


def test_names_stay_in_the_folder_and_partial_results_are_marked(tmp_path: Path) -> None:
    out = tmp_path / "out"
    jobs: list[dict[str, Any]] = [
        {"index": 0, "execution_id": "a", "status": "completed"},
        {"index": 1, "execution_id": "f", "status": "failed"},
        {"index": 2, "execution_id": "r", "status": "processing"},
        {"index": 3, "execution_id": None, "status": None},
        {"index": 4, "execution_id": "n", "status": "cancelled"},
    ]
    replies = {
        **foreign_batch(*jobs),
        "/v1/workflows/execution/a/outputs": outputs(
            "../../a.png", "..", "\x1b[2J.png", "a.png", "e" * 400 + ".png"
        ),
        "/v1/workflows/execution/f/outputs": outputs("a.png", partial=True),
        "/v1/workflows/execution/n/outputs": outputs(),
        "/output": b"abc",
    }
    with foreign_server(replies) as url:
        ended = comfyrail("batches", "fetch", "b", "--server", url, "-o", str(out))
    assert ended.returncode == 0, ended.stderr
    assert {path.name for path in out.iterdir()} == {
        "00_a.png",
        "00_output",
        "00__[2J.png",
        "00_a (1).png",
        "00_" + "e" * 248 + ".png",
        "01_partial_a.png",
    }
    assert "1 are partial: their jobs did not complete" in ended.stderr
    assert "1 jobs have none; 1 jobs have not ended yet" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_result_that_is_not_as_announced_ends_it_and_leaves_no_half_a_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    jobs: list[dict[str, Any]] = [
        {"index": index, "execution_id": "a", "status": "completed"} for index in range(9)
    ]
    replies = {
        **foreign_batch(*jobs),
        "/v1/workflows/execution/a/outputs": outputs("a.png", size=5),
        "/output": b"abc",
    }
    with foreign_server(replies) as url:
        ended = comfyrail("batches", "fetch", "b", "--server", url, "-o", str(out))
    assert ended.returncode == 3
    assert "a result is smaller than it said" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not out.exists(), "half a file is none"


def test_result_that_is_given_up_while_its_file_is_made_leaves_none(tmp_path: Path) -> None:
    asyncio.run(give_up_often(tmp_path))
    assert list(tmp_path.iterdir()) == []


async def give_up_often(folder: Path) -> None:
    output = msgspec.convert(outputs("a.png")["outputs"][0], Output)
    async with ComfyrailClient("http://127.0.0.1:1") as client:
        for _ in range(20):
            saving = asyncio.create_task(save_output(client, output, folder, "a.png"))
            await asyncio.sleep(0)
            saving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await saving
