"""`comfyrail convert`, and workflows in pictures for other commands [1.1]."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from comfyrail.cli.catalogs import choose_catalog
from comfyrail.cli.workflow_file import read_workflow
from comfyrail.clock import Instant, SystemClock
from comfyrail.ids import WorkerId
from comfyrail.store.interface import WorkerRecord
from comfyrail.store.sqlite.store import open_sqlite_store
from tests.graphs import picture
from tests.processes import comfyrail
from tests.workflow_formats.conftest import DATA
from tests.workflow_formats.editor_graphs import Drawing
from tests.workflow_formats.pictures import png, text
from tests.workflow_formats.test_sources import webp_of_comfyui


def saved_graph() -> dict[str, Any]:
    """`picture()` as the editor saves it."""
    drawing = Drawing()
    drawing.node("EmptyImage", values=[64, 48, 1, 0x336699])
    drawing.node("ImageInvert", "image:IMAGE")
    drawing.node("SaveImage", "images:IMAGE", values=["test"], title="Save")
    drawing.link(1, 2, "image")
    drawing.link(2, 3, "images")
    return drawing.as_old_schema()


def inputs(prompt: dict[str, Any]) -> dict[str, Any]:
    return {node_id: node["inputs"] for node_id, node in prompt.items()}


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_the_editors_format_is_converted_with_the_built_in_nodes(tmp_path: Path) -> None:
    file = written(tmp_path / "w.json", saved_graph())
    ended = comfyrail("convert", str(file), cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    prompt = json.loads(ended.stdout)
    assert inputs(prompt) == inputs(picture())
    assert prompt["3"]["_meta"] == {"title": "Save"}
    assert not (tmp_path / "comfyrail-data").exists()


def test_there_and_back_by_files(tmp_path: Path) -> None:
    file = written(tmp_path / "api.json", picture())
    drawn, back = tmp_path / "editor.json", tmp_path / "back.json"
    to_editor = comfyrail("convert", str(file), "--to", "editor", "-o", str(drawn), cwd=tmp_path)
    assert (to_editor.returncode, to_editor.stdout) == (0, "")
    assert [node["type"] for node in json.loads(drawn.read_text())["nodes"]] == [
        "EmptyImage",
        "ImageInvert",
        "SaveImage",
    ]
    assert comfyrail("convert", str(drawn), "-o", str(back), cwd=tmp_path).returncode == 0
    assert json.loads(back.read_text()) == picture()


def test_standard_input_and_a_catalog_from_a_file(tmp_path: Path, exported: dict[str, Any]) -> None:
    name = "sd3.5_simple_example"
    catalog = ["--catalog", str(DATA / "object_info.json")]
    command = [sys.executable, "-m", "comfyrail", "convert", "-", *catalog]
    graph = subprocess.run(
        [*command, "--to", "editor"],
        input=json.dumps(exported[name]).encode(),
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    ended = subprocess.run(
        command, input=graph.stdout, capture_output=True, check=True, cwd=tmp_path
    )
    assert json.loads(ended.stdout) == exported[name]


def test_what_is_in_the_wanted_format_stays_as_it_is(tmp_path: Path) -> None:
    graph = saved_graph()
    file = written(tmp_path / "w.json", graph)
    ended = comfyrail("convert", str(file), "--to", "editor", cwd=tmp_path)
    assert json.loads(ended.stdout) == graph


def test_types_that_the_catalog_lacks_are_notes(tmp_path: Path) -> None:
    graph = saved_graph()
    graph["nodes"][0]["type"] = "\x1b[31mOdd"
    ended = comfyrail("convert", str(written(tmp_path / "w.json", graph)), cwd=tmp_path)
    assert ended.returncode == 0
    assert "Note: Node 1 is of the type 'Odd'" in ended.stderr
    assert "\x1b" not in ended.stderr
    assert "the built-in node types. Give another with --catalog." in ended.stderr
    assert json.loads(ended.stdout)["2"]["inputs"] == {"image": ["1", 0]}


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        ("{}", [], "The workflow has no nodes."),
        ('{"nodes": []}', [], "The workflow has no nodes."),
        ("hello", [], "There is no workflow in this text"),
        ("[1]", [], "it must be a JSON object"),
        ("{}", ["--to", "yaml"], "--to is one of api, editor, not 'yaml'."),
        (json.dumps(picture()), ["--catalog", "w.json"], "w.json is no node catalog"),
        (json.dumps(picture()), ["--catalog", "gone.json"], "gone.json cannot be read"),
        (json.dumps(picture()), ["-o", "no/such/folder"], "no/such/folder cannot be written"),
    ],
)
def test_wrong_use_is_explained(
    tmp_path: Path, content: str, arguments: list[str], said: str
) -> None:
    (tmp_path / "w.json").write_text(content)
    ended = comfyrail("convert", "w.json", *arguments, cwd=tmp_path)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize(
    "content",
    [png(text("prompt", picture())), webp_of_comfyui(prompt=picture())],
    ids=["png", "webp"],
)
def test_commands_read_workflows_out_of_pictures(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "picture"
    file.write_bytes(content)
    assert read_workflow(file) == picture()


def test_a_picture_without_a_workflow_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(png())
    with pytest.raises(SystemExit, match="2"):
        read_workflow(file)
    assert "holds no workflow" in capsys.readouterr().err


def test_profile_runs_the_editors_format(tmp_path: Path) -> None:
    file = written(tmp_path / "w.json", saved_graph())
    ended = comfyrail("profile", str(file), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "ImageInvert" in ended.stdout


def test_the_catalog_that_a_server_remembers_is_used(tmp_path: Path) -> None:
    info = {"Odd": {"input": {"required": {"x": ["INT"]}}, "output": []}}

    async def remember() -> None:
        store = await open_sqlite_store(tmp_path, SystemClock(), 30.0)
        worker = WorkerId("static-1")
        await store.save_worker(WorkerRecord(worker, "static", "http://127.0.0.1:1", Instant(0)))
        await store.save_catalog(worker, "fingerprint", json.dumps(info).encode())
        await store.close()

    asyncio.run(remember())
    chosen = choose_catalog(None, tmp_path)
    assert set(chosen.catalog.types) == {"Odd"}
    assert str(tmp_path) in chosen.origin


def test_a_database_that_cannot_be_read_gives_way_unless_it_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "comfyrail-data"
    folder.mkdir()
    (folder / "comfyrail.db").write_bytes(b"this is no database" * 100)
    monkeypatch.chdir(tmp_path)
    assert "EmptyImage" in choose_catalog(None, None).catalog
    assert "is damaged" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        choose_catalog(None, folder)
