"""Batches from the command line, as a user types it [4.6]."""

import asyncio
import json
import os
import signal
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from comfyrail.cli.batch_file import grid_of, read_batch_file
from comfyrail.client import ComfyrailClient
from tests.batches.parts import NUMBER
from tests.graphs import picture, slow_picture
from tests.processes import COMFYRAIL, Comfyrail, comfyrail, wait_until

SEEDED = {
    "5": {"class_type": "KSampler", "inputs": {"seed": 1}},
    "6": {"class_type": "Noise", "inputs": {"noise_seed": 1, "seed": ["5", 0]}},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(picture()))
    return path


def on(server: Comfyrail, *arguments: str) -> str:
    ended = comfyrail("batches", *arguments, "--server", server.url)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_grid_of_options_runs_to_its_end_and_is_listed(
    running_server: Comfyrail, file: Path
) -> None:
    options = ["--vary", "1.width=3,4", "--vary", '1.height=[5, "6"]', "--priority", "9"]
    ended = comfyrail(
        "batches",
        "submit",
        str(file),
        *options,
        *("--set", "3.filename_prefix=x", "--name", "four"),
        *("--server", running_server.url, "--auto-fix"),
    )
    assert ended.returncode == 0, ended.stderr
    assert "4 of 4 completed" in ended.stdout
    lines = on(running_server, "list").splitlines()
    assert lines[0].split()[:3] == ["Batch", "Status", "Progress"]
    batch_id = lines[1].split()[0]
    assert lines[1].split()[1:3] == ["completed", "100%"]
    assert lines[1].rstrip().endswith("four")
    shown = on(running_server, "show", batch_id, "--jobs")
    assert '1.width=4, 1.height="6"' in shown


def test_search_of_a_file_names_its_best(
    running_server: Comfyrail, file: Path, tmp_path: Path
) -> None:
    file.write_text(json.dumps(NUMBER))
    batch = tmp_path / "search.yaml"
    batch.write_text(
        "name: highest\n"
        "priority: 9\n"
        "search:\n"
        "  parameters: {1.value: {minimum: 0, maximum: 9, step: 0.5}}\n"
        "  trials: 4\n"
        "  score: {node: '2'}\n"
    )
    ended = comfyrail("batches", "submit", str(file), str(batch), "--server", running_server.url)
    assert ended.returncode == 0, ended.stderr
    assert "with 1.value=" in ended.stdout


def test_seed_of_a_workflow_in_the_library_is_found(
    running_server: Comfyrail, tmp_path: Path
) -> None:
    noise = {"width": 8, "height": 8, "seed": 1, "scale": 4.0, "octaves": 1, "palette": "forest"}
    graph = {**picture(), "1": {"class_type": "NoiseImage", "inputs": noise}}
    saved = running_server.call("PUT", "/v1/workflows/noise", {"workflow": graph})
    assert saved[0] < 300, saved
    ended = comfyrail(
        *("batches", "submit", "noise", "--count", "2", "--priority", "9"),
        *("--server", running_server.url),
        cwd=tmp_path,
    )
    assert ended.returncode == 0, ended.stderr
    assert "2 of 2 completed" in ended.stdout


def test_search_that_waits_for_scores_says_so_and_takes_them(
    running_server: Comfyrail, file: Path, tmp_path: Path
) -> None:
    batch = tmp_path / "search.yaml"
    batch.write_text("{priority: 9, search: {parameters: {1.width: [3, 4]}, trials: 2}}")
    options = [str(file), str(batch), "--server", running_server.url]
    with subprocess.Popen(
        [*COMFYRAIL, "batches", "submit", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
    ) as process:
        assert process.stderr is not None
        told = process.stderr.readline()
        batch_id = newest(running_server)["batch_id"]
        shown = on(running_server, "show", batch_id, "--jobs")
        command = f"give them with comfyrail batches score {batch_id} JOB NUMBER"
        sentence = f"Waits for 2 scores: {command} --server {running_server.url}"
        assert (told.strip(), sentence in shown) == (sentence, True)
        assert "Left" not in shown
        assert "100%" not in shown
        assert [row.split()[3] for row in shown.splitlines()[-2:]] == ["waits", "waits"]
        job_id = shown.splitlines()[-1].split()[1]
        assert "Waits for 1 score: give it" in on(running_server, "score", batch_id, "0", "-2.5")
        scored = on(running_server, "score", batch_id, job_id, "1")
        _, said = process.communicate(timeout=20)
    assert "Best      1 with 1.width=" in scored
    assert process.returncode == 0, said
    missing = comfyrail("batches", "score", batch_id, "9", "1", "--server", running_server.url)
    assert (missing.returncode, "has no job 9." in missing.stderr) == (2, True)


def test_options_about_the_queue_reach_every_job(running_server: Comfyrail, file: Path) -> None:
    batch = file.parent / "b.yaml"
    batch.write_text("{labels: {zone: attic, gpu: none}, items: [{}, {}]}")
    waiting = ["--label", "zone=nowhere", "--queue-timeout", "900"]
    ended = comfyrail(
        *("batches", "submit", str(file), str(batch), *waiting, "--detach"),
        *("--not-before", "2026-01-31T08:00:00+01:00", "--server", running_server.url),
    )
    assert ended.returncode == 0, ended.stderr
    assert "Waiting: No worker has the label gpu=none, zone=nowhere." in ended.stderr
    batch_id = ended.stdout.strip()
    members = running_server.call("GET", f"/v1/batches/{batch_id}/executions")[1]["executions"]
    for member in members:
        job = running_server.execution(member["execution_id"])
        waits = datetime.fromisoformat(job["expires_at"])
        assert 890 < (waits - datetime.fromisoformat(job["submitted_at"])).total_seconds() < 910


def test_detached_batch_is_cancelled_by_its_id(running_server: Comfyrail, file: Path) -> None:
    graph = {**NUMBER, "1": {"class_type": "PrimitiveInt", "inputs": {"value": 1}}}
    graph["9"] = {"class_type": "Delay", "inputs": {"value": ["1", 0], "seconds": 60.0}}
    graph["2"] = {"class_type": "PreviewAny", "inputs": {"source": ["9", 0]}}
    file.write_text(json.dumps(graph))
    options = ["--count", "3", "--seed-input", "1.value", "--detach"]
    batch_id = on(running_server, "submit", str(file), *options).strip()
    on(running_server, "cancel", batch_id)
    seeds, states = asyncio.run(follow(running_server.url, batch_id))
    assert len(set(seeds)) == 3
    assert states[-1] == "cancelled"


async def follow(url: str, batch_id: str) -> tuple[list[int], list[str]]:
    async with ComfyrailClient(url) as client:
        jobs = client.batches.executions(batch_id, page_size=2)
        seeds = [each.parameters["1.value"] async for each in jobs]
        states = [batch.status async for batch in client.batches.watch(batch_id, every=0.05)]
    return seeds, states


def test_interrupt_cancels_the_batch(running_server: Comfyrail, file: Path) -> None:
    file.write_text(json.dumps(slow_picture(60)))
    command = [*COMFYRAIL, "batches", "submit", str(file), "--vary", "1.color=1,2,3"]
    with subprocess.Popen(
        [*command, "--priority", "9", "--server", running_server.url], stderr=subprocess.PIPE
    ) as process:
        wait_until(lambda: newest(running_server)["counts"]["processing"])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 130
    batch = newest(running_server)
    assert (batch["status"], batch["counts"]["cancelled"]) == ("cancelled", 3)


def newest(server: Comfyrail) -> dict[str, Any]:
    found = server.call("GET", "/v1/batches?limit=1")[1]["batches"]
    return dict(found[0]) if found else {"counts": {"processing": 0}}


def test_wrong_use_is_explained_with_exit_code_2(running_server: Comfyrail, file: Path) -> None:
    for arguments, said in (
        (
            ["submit", str(file), "--vary", "1.widht=1,2"],
            "Error: Node '1' (EmptyImage) has no input 'widht'. Did you mean 'width'? (in all 2",
        ),
        (
            ["submit", "nothere", "--count", "2"],
            f"no file 'nothere', and no workflow of that name on {running_server.url}.",
        ),
        (["score", "none", "7", "1"], "There is no batch none"),
        (["score", "none", "x", "nan"], "A score is a finite number"),
        (["submit", str(file)], "a batch file, --vary NODE.INPUT=A,B,C, or --count N"),
        (["cancel", "none"], "There is no batch none"),
    ):
        ended = comfyrail("batches", *arguments, "--server", running_server.url)
        assert ended.returncode == 2, ended.stdout
        assert said in ended.stderr, ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("b.yaml", "gird: {1.width: [1]}", "Did you mean 'grid'?"),
        ("b.yaml", "{grid: {1.width: [1]}, items: [{}]}", "it has items and grid"),
        ("b.yaml", "name: x", "it has none"),
        ("b.json", "[]", "is no batch"),
        ("b.json", "{", "b.json is not JSON"),
        ("b.yaml", "grid: [", "b.yaml is not YAML"),
        ("b.yaml", "grid: &a [*a]", "an alias"),
        ("b.yaml", "x" * (16 << 20) + "x", "larger than 16 MiB"),
    ],
)
def test_wrong_batch_file_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(SystemExit) as caught:
        read_batch_file(tmp_path / name)
    assert caught.value.code == 2
    assert said in capsys.readouterr().err.replace("\n", " ")


def test_dates_of_a_batch_file_are_written_as_the_api_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "b.yaml"
    path.write_text("{items: [{}], not_before: 2030-01-31T08:00:00Z}")
    assert read_batch_file(path)["not_before"] == "2030-01-31T08:00:00+00:00"


@pytest.mark.parametrize(
    ("vary", "count", "seed_input", "said"),
    [
        (["1.width"], None, None, "--vary takes NODE.INPUT=A,B,C"),
        (["1.width=[1"], None, None, "the list is not JSON"),
        (["1.width=[]"], None, None, "the list is empty"),
        (["1.width=1", "1.width=2"], None, None, "given twice"),
        (["5.seed=1"], 3, "5.seed", "choose one"),
        ([], None, "5.seed", "goes with --count"),
        ([], 3, None, "several seeds: say --seed-input 5.seed or 6.noise_seed"),
        ([], 10**9, "5.seed", "10000 at most"),
    ],
)
def test_wrong_options_are_explained(
    capsys: pytest.CaptureFixture[str],
    vary: list[str],
    count: int | None,
    seed_input: str | None,
    said: str,
) -> None:
    with pytest.raises(SystemExit) as caught:
        grid_of(SEEDED, vary, count, seed_input)
    assert caught.value.code == 2
    assert said in capsys.readouterr().err.replace("\n", " ")


def test_options_make_a_grid() -> None:
    vary = ["1.width=3, 4", '6.text=["a, b", "c"]', "7.name=1.10,true,x"]
    assert grid_of(SEEDED, vary, None, None) == {
        "1.width": [3, 4],
        "6.text": ["a, b", "c"],
        "7.name": ["1.10", True, "x"],
    }
    only = {"nodes": {key: node for key, node in SEEDED.items() if key != "6"}}
    (target, seeds), *others = grid_of(only, [], 50, None).items()
    assert (target, len(set(seeds)), others) == ("5.seed", 50, [])
    assert all(0 <= seed < 1 << 32 for seed in seeds)
