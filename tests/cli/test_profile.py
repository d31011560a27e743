"""`comfyrail profile` as a user types it [12.9]."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.graphs import Graph, picture, slow_picture
from tests.processes import COMFYRAIL, Comfyrail, comfyrail, wait_until

EXAMPLES = sorted((Path(__file__).parents[2] / "workflows").glob("*/workflow.json"))
STUBBORN_PACK = """
import pathlib, time

class Stubborn:
    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"marker": ("STRING", {})}}

    RETURN_TYPES = ()
    OUTPUT_NODE = True
    FUNCTION = "hang"

    def hang(self, marker):
        pathlib.Path(marker).touch()
        time.sleep(60)
        return ()

NODE_CLASS_MAPPINGS = {"Stubborn": Stubborn}
"""


PATIENT_PACK = """
import pathlib

from comfyrail.engine.context import NodeContext
from comfyrail.engine.definition import node

@node(
    "Patient",
    required={"value": ("*", {}), "marker": ("STRING", {})},
    outputs=("*",),
    cacheable=False,
)
def patient(value, marker, context: NodeContext):
    pathlib.Path(marker).touch()
    context.sleep(60)
    return (value,)

NODES = (patient,)
"""


def written(folder: Path, graph: Graph) -> str:
    path = folder / "w.json"
    path.write_text(json.dumps(graph))
    return str(path)


def start(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMFYRAIL, "profile", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "COLUMNS": "200", **environment},
    )


def saved_then_slow() -> Graph:
    """Saves a picture, and goes on for a minute."""
    graph = picture()
    graph["8"] = {"class_type": "Delay", "inputs": {"value": ["2", 0], "seconds": 60}}
    graph["9"] = {"class_type": "PreviewImage", "inputs": {"images": ["8", 0]}}
    return graph


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.parent.name))
def test_examples_are_profiled_fresh_and_cached(example: Path, tmp_path: Path) -> None:
    graph = json.loads(example.read_text())
    out, svg, folded = (tmp_path / name for name in ("p.json", "p.svg", "p.folded"))
    files = ["--json", str(out), "--svg", str(svg), "--folded", str(folded)]
    ended = comfyrail("profile", str(example), "--runs", "2", *files)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    for each in graph.values():
        assert each["class_type"] in ended.stdout
    count = len(graph)
    assert f"{count} nodes ran, 0 were cached" in ended.stdout
    assert f"0 nodes ran, {count} were cached" in ended.stdout
    data = json.loads(out.read_text())
    assert (data["version"], data["workflow"]) == (1, str(example))
    fresh, cached = data["runs"]
    assert fresh["counts"]["completed"] == cached["counts"]["cached"] == count
    assert {each["node_id"] for each in fresh["nodes"]} == set(graph)
    assert {each["cache_level"] for each in cached["nodes"]} == {"memory"}
    assert fresh["wall_seconds"] > cached["wall_seconds"]
    ET.parse(svg)
    ET.parse(tmp_path / "p-2.svg")
    assert folded.read_text().startswith("execute_graph;")


def test_the_strategy_and_the_configuration_are_used(tmp_path: Path) -> None:
    path = written(tmp_path, picture())
    out = tmp_path / "p.json"
    arguments = ["profile", path, "--json", str(out)]
    assert comfyrail(*arguments, "--strategy", "parallel").returncode == 0
    (run,) = json.loads(out.read_text())["runs"]
    assert run["strategy"] == "parallel"
    assert {lane.split()[0] for lane in run["lanes"]} == {"thread"}
    config = tmp_path / "engine.yaml"
    config.write_text(
        f"execution_engine:\n  execution: {{strategy: lazy}}\n"
        f"  caching: {{disk_path: {tmp_path / 'cache'}}}\n"
    )
    assert comfyrail(*arguments, "--config", str(config)).returncode == 0
    assert json.loads(out.read_text())["runs"][0]["strategy"] == "lazy"
    again = comfyrail(*arguments, "--config", str(config), "--data", str(tmp_path / "data"))
    assert again.returncode == 0
    (run,) = json.loads(out.read_text())["runs"]
    # The picture itself is not in this data folder.
    assert {each["cache_level"] for each in run["nodes"]} == {"disk", None}


def test_inputs_are_set_and_results_stay_where_they_were_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, picture())
    data = tmp_path / "data"
    settings = ["--set", "Save.filename_prefix=mine", "--set", "1.width=16"]
    ended = comfyrail("profile", path, *settings, "--data", str(data))
    assert ended.returncode == 0, ended.stderr
    assert [file.name for file in (data / "output").iterdir()] == ["mine_00001_.png"]


@pytest.mark.parametrize(
    ("graph", "arguments"),
    [
        (picture(width=-3), []),
        ({"1": {"class_type": "NoSuchNode", "inputs": {}}}, []),
        (picture(), ["--set", "1.widht=5"]),
        ({"1": {"class_type": "EmptyImage", "inputs": picture()["1"]["inputs"]}}, []),
    ],
)
def test_a_workflow_that_cannot_run_is_explained_as_run_does_it(
    running_server: Comfyrail, tmp_path: Path, graph: Graph, arguments: list[str]
) -> None:
    path = written(tmp_path, graph)
    profiled = comfyrail("profile", path, *arguments, cwd=tmp_path)
    ran = comfyrail("run", path, *arguments, "--server", running_server.url, cwd=tmp_path)
    assert profiled.returncode == ran.returncode == 2
    assert profiled.stderr == ran.stderr
    assert profiled.stdout == ""


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    graph = {
        "1": {"class_type": "LoadImage", "inputs": {"image": "nope.png"}},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    }
    ended = comfyrail("profile", written(tmp_path, graph))
    assert ended.returncode == 2
    assert "Node '1' (LoadImage)" in ended.stderr
    assert "Invalid image file: nope.png" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--strategy", "fast"], 2, "--strategy is one of sequential, parallel, lazy"),
        (["--json", "/nowhere/p.json"], 2, "/nowhere/p.json cannot be written"),
        (["--cpu"], 2, "There is no option --cpu"),
        (["--runs", "0"], 2, "--runs"),
        (["--set", "nothing"], 2, "--set takes NODE.INPUT=VALUE"),
        (["--config", "/nowhere/engine.yaml"], 3, "/nowhere/engine.yaml cannot be read"),
        (["--comfyui", "/nowhere"], 3, "/nowhere"),
        (["--data", "/proc/nowhere"], 3, "/proc/nowhere cannot be written"),
    ],
)
def test_wrong_use_is_a_sentence(
    tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    ended = comfyrail("profile", written(tmp_path, picture()), *arguments)
    assert (ended.returncode, said in ended.stderr) == (code, True), ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_a_failure_is_told_after_what_ran(tmp_path: Path) -> None:
    graph = picture()
    graph["3"]["inputs"]["filename_prefix"] = "../../outside"
    out = tmp_path / "p.json"
    path = written(tmp_path, graph)
    ended = comfyrail("profile", path, "--runs", "3", "--json", str(out))
    assert ended.returncode == 1
    assert "failed: Node '3' (SaveImage)" in ended.stdout
    (run,) = json.loads(out.read_text())["runs"]
    assert run["outcome"] == "failed"
    assert run["counts"] == {"completed": 2, "cached": 0, "failed": 1, "interrupted": 0}


def test_titles_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    graph = picture()
    graph["3"]["_meta"]["title"] = "\x1b[31m\x07[bold]\u202e</title><script>" + "x" * 500
    svg = tmp_path / "p.svg"
    ended = comfyrail("profile", written(tmp_path, graph), "--svg", str(svg))
    assert ended.returncode == 0, ended.stderr
    assert "3* [bold]</title><script>" in ended.stdout
    assert not {"\x1b", "\x07", "\u202e"} & set(ended.stdout)
    assert max(map(len, ended.stdout.splitlines())) < 250
    assert not list(ET.parse(svg).iter("{http://www.w3.org/2000/svg}script"))


def test_a_narrow_terminal_shows_what_it_has_room_for(tmp_path: Path) -> None:
    environment = {"FORCE_COLOR": "1", "COLUMNS": "70", "TERM": "dumb"}
    with start(written(tmp_path, picture()), **environment) as process:
        shown = process.communicate(timeout=60)[0].decode()
    head = next(line for line in shown.splitlines() if "Type" in line)
    assert "Time" in head
    assert "Written" not in head


def test_ctrl_c_ends_it_with_what_was_measured(tmp_path: Path) -> None:
    data, out, marker = tmp_path / "data", tmp_path / "p.json", tmp_path / "marker"
    pack = tmp_path / "patient.py"
    pack.write_text(PATIENT_PACK)
    graph = saved_then_slow()
    graph["8"] = {"class_type": "Patient", "inputs": {"value": ["2", 0], "marker": str(marker)}}
    path = written(tmp_path, graph)
    with start(path, "--data", str(data), "--json", str(out), "--nodes", str(pack)) as process:
        wait_until(lambda: list((data / "output").glob("*.png")) and marker.exists())
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        shown, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert time.monotonic() - began < 10
    assert b"Stopping." in said
    assert b"Traceback" not in said
    assert b"interrupted" in shown
    (run,) = json.loads(out.read_text())["runs"]
    assert run["outcome"] == "interrupted"
    statuses = {each["node_id"]: each["status"] for each in run["nodes"]}
    assert statuses["3"] == "completed"
    assert statuses["8"] == "interrupted"


def test_a_second_ctrl_c_leaves_a_node_that_does_not_look_up(tmp_path: Path) -> None:
    pack, marker = tmp_path / "stubborn.py", tmp_path / "marker"
    pack.write_text(STUBBORN_PACK)
    graph: dict[str, Any] = {
        "1": {"class_type": "Stubborn", "inputs": {"marker": str(marker)}},
    }
    with start(written(tmp_path, graph), "--nodes", str(pack)) as process:
        wait_until(marker.exists)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert b"Ctrl-C again" in process.stderr.readline()
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert time.monotonic() - began < 5
    assert b"Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    path = written(tmp_path, slow_picture(60))
    with start(path, TMPDIR=str(temporary)) as process:
        wait_until(lambda: list(temporary.glob("comfyrail-profile-*/output")))
        time.sleep(0.3)
        process.send_signal(number)
        said = process.communicate(timeout=20)[1]
    assert process.returncode == 128 + number
    assert b"Traceback" not in said
    assert list(temporary.iterdir()) == []
