"""The library from the command line, as a user types it [1.4]."""

import json
import os
import pty
import subprocess
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from tests.graphs import picture
from tests.library.parts import png
from tests.processes import COMFYRAIL, Comfyrail, comfyrail


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "workflow.json").write_text(json.dumps(picture()))
    (folder / "description.md").write_text("# Blue\nA picture [x] \x1b[2J.")
    (folder / "preview.png").write_bytes(png())
    (folder / "inputs.yaml").write_text(
        "width:\n"
        "  target: 1.width\n"
        "  type: integer\n"
        "  minimum: 1\n"
        "  maximum: 99\n"
        "  label: How wide\n"
        "format: {target: Save, choices: [a, b], default: b}\n"
    )
    return folder


def on(server: Comfyrail, *arguments: str, cwd: Path | None = None) -> str:
    ended = comfyrail(*arguments, "--server", server.url, cwd=cwd)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_folder_is_saved_shown_and_run_by_name(
    running_server: Comfyrail, name: str, folder: Path, tmp_path: Path
) -> None:
    said = on(running_server, "workflows", "save", name, str(folder))
    assert f"Saved {name}, version 1. Run it with: comfyrail run {name} --server" in said
    shown = on(running_server, "workflows", "show", name)
    assert "A picture [x] ." in shown
    assert "\x1b" not in shown
    for text in ("How wide", "1 to 99", "a, b", '"b"', f"/v1/workflows/{name}/preview?version=1"):
        assert text in shown
    out = tmp_path / "out"
    printed = on(running_server, "run", name, "--set", "width=21", "-o", str(out))
    assert printed.strip() == str(out / "b_00001_.png")
    with Image.open(printed.strip()) as image:
        assert image.size == (21, 48)


def test_older_version_is_run_and_printed(
    running_server: Comfyrail, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "w.json"
    for width in (11, 22):
        path.write_text(json.dumps(picture(width=width)))
        on(running_server, "workflows", "save", name, str(path))
    printed = on(running_server, "run", f"{name}@1", "-o", str(tmp_path / "out"))
    with Image.open(printed.strip()) as image:
        assert image.width == 11
    shown = on(running_server, "workflows", "show", f"{name}@1").splitlines()
    assert [each.split(maxsplit=1) for each in shown[1:3]] == [
        ["Version", "1"],
        ["Versions", "1, 2"],
    ]
    content = json.loads(on(running_server, "workflows", "show", f"{name}@1", "--json"))
    assert content == picture(width=11)
    lines = on(running_server, "workflows", "versions", name).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["2", "1"]


def test_list_shows_names_versions_and_descriptions(
    running_server: Comfyrail, name: str, folder: Path
) -> None:
    on(running_server, "workflows", "save", name, str(folder))
    for command in (["workflows"], ["workflows", "list"]):
        lines = on(running_server, *command).splitlines()
        assert lines[0].split() == ["Name", "Version", "Saved", "Description"]
        assert any(line.split()[0] == name and line.rstrip().endswith("Blue") for line in lines[1:])


def test_export_import_and_delete(
    running_server: Comfyrail, name: str, folder: Path, tmp_path: Path
) -> None:
    on(running_server, "workflows", "save", name, str(folder))
    printed = on(running_server, "workflows", "export", name, cwd=tmp_path)
    bundle = tmp_path / printed.strip()
    assert bundle.name == f"{name}.zip"
    with zipfile.ZipFile(bundle) as file:
        assert f"{name}/versions/1/inputs.json" in file.namelist()
    again = on(running_server, "workflows", "export", f"{name}@1", cwd=tmp_path)
    assert again.strip() == f"{name} (1).zip"
    ended = comfyrail("workflows", "import", str(bundle), "--server", running_server.url)
    assert (ended.returncode, "already" in ended.stderr) == (2, True)
    assert "--replace" in ended.stderr
    assert "--name NAME" in ended.stderr
    said = on(running_server, "workflows", "import", str(bundle), "--replace")
    assert f"Imported {name}, version 2." in said
    ended = comfyrail("workflows", "delete", name, "--server", running_server.url)
    assert (ended.returncode, "--yes" in ended.stderr) == (2, True)
    assert on(running_server, "workflows", "delete", name, "--yes") == f"Deleted {name}.\n"
    said = on(running_server, "workflows", "import", str(bundle), "--name", name)
    assert f"Imported {name}, version 1." in said


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_person_is_asked_before_all_versions_go(
    running_server: Comfyrail, name: str, folder: Path, answer: str, code: int
) -> None:
    on(running_server, "workflows", "save", name, str(folder))
    outer, inner = pty.openpty()
    command = [*COMFYRAIL, "workflows", "delete", name, "--server", running_server.url]
    with subprocess.Popen(command, stdin=inner, stdout=subprocess.PIPE) as process:
        os.write(outer, answer.encode() + b"\n")
        process.communicate(timeout=30)
    os.close(inner)
    os.close(outer)
    assert process.returncode == code
    assert running_server.call("GET", f"/v1/workflows/{name}")[0] == (404 if code == 0 else 200)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["workflows", "show", "no-such"], "There is no workflow 'no-such'"),
        (["workflows", "show", "a@x"], "not like NAME or NAME@3"),
        (["workflows", "export", "no-such"], "There is no workflow 'no-such'"),
        (["workflows", "versions", "../../health"], "is not part of this API"),
        (["workflows", "delete", "no-such", "--yes"], "There is no workflow 'no-such'"),
        (["workflows", "save", "Bad Name", "FILE"], "cannot be a workflow's name"),
        (["workflows", "save", "good", "nowhere.json"], "cannot be read"),
        (["workflows", "save", "good", "FILE", "--inputs", "BAD"], "one of text, integer"),
        (["workflows", "save", "good", "FILE", "--inputs", "BAD"], "bad.yaml: Declared input 'a'"),
        (
            ["workflows", "save", "good", "FILE", "--inputs", "cut.yaml"],
            "Error: cut.yaml is not YAML",
        ),
        (
            ["workflows", "save", "good", "FILE", "--inputs", "cut.json"],
            "Error: cut.json is not JSON",
        ),
        (["workflows", "save", "good", "FILE", "--inputs", "empty.yaml"], "empty.yaml is empty"),
        (
            ["workflows", "save", "good", "FILE", "--inputs", "link.yaml"],
            "takes IMAGE from another",
        ),
        (["workflows", "save", "good", "FILE", "--preview", "FILE"], "not a PNG"),
        (["workflows", "save", "good", "FILE", "--preview", "/dev/zero"], "larger than 4 MiB"),
        (["workflows", "import", "FILE"], "not a zip file"),
        (["run", "no-such"], "There is no file 'no-such', and no workflow of that name"),
        (["run", "no-such.json"], "no-such.json cannot be read"),
        (["run", "No Such"], "No Such cannot be read"),
    ],
)
def test_wrong_use_is_explained_with_exit_code_2(
    running_server: Comfyrail, folder: Path, arguments: list[str], said: str
) -> None:
    (folder / "bad.yaml").write_text("a: {target: 1.x, type: string}")
    (folder / "cut.yaml").write_text("a: [")
    (folder / "cut.json").write_text("[")
    (folder / "empty.yaml").write_text("# nothing yet\n")
    (folder / "link.yaml").write_text("a: 2.image")
    paths = {"FILE": str(folder / "workflow.json"), "BAD": str(folder / "bad.yaml")}
    given = [paths.get(each, each) for each in arguments]
    ended = comfyrail(*given, "--server", running_server.url, cwd=folder)
    assert ended.returncode == 2, ended.stdout
    assert said in ended.stderr, ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (folder / "no-such.zip").exists()


def test_name_without_a_server_is_explained(tmp_path: Path) -> None:
    ended = comfyrail("run", "poster@2", cwd=tmp_path)
    assert ended.returncode == 2
    assert "There is no file poster@2" in ended.stderr
    assert "--server" in ended.stderr


def test_file_goes_before_a_name(running_server: Comfyrail, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(json.dumps(picture(width=31)))
    path = tmp_path / "w.json"
    path.write_text(json.dumps(picture(width=32)))
    on(running_server, "workflows", "save", name, str(path))
    printed = on(running_server, "run", name, cwd=tmp_path)
    with Image.open(tmp_path / printed.strip()) as image:
        assert image.width == 31


def test_export_does_not_overwrite(running_server: Comfyrail, name: str, folder: Path) -> None:
    on(running_server, "workflows", "save", name, str(folder))
    target = folder / "there.zip"
    target.write_text("mine")
    ended = comfyrail(
        "workflows", "export", name, "-o", str(target), "--server", running_server.url
    )
    assert ended.returncode == 2
    assert "cannot be written" in ended.stderr
    assert target.read_text() == "mine"
