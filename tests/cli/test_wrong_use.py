"""Wrong files, addresses and ids: a sentence and the exit code that the reference gives."""

import json
from pathlib import Path

import pytest
from PIL import Image

from comfyrail.cli.workflow_file import read_setting, read_workflow
from tests.cli.foreign_server import foreign_server
from tests.graphs import picture
from tests.processes import Comfyrail, comfyrail


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps({"1": {"class_type": "\ud800"}}), "U+D800 is half a character"),
        ('{"1": NaN}', "NaN is no JSON number"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_file_that_cannot_be_sent_is_explained(
    tmp_path: Path, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "w.json"
    path.write_text(content)
    with pytest.raises(SystemExit, match="2"):
        read_workflow(path)
    shown = capsys.readouterr().err
    assert f"{path} is not JSON: " in shown
    assert said in shown


def test_text_that_cannot_be_sent_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(picture()))
    ended = comfyrail("run", str(path), "--set", '3.filename_prefix="\\ud800"')
    assert ended.returncode == 2
    assert "U+D800 is half a character" in ended.stderr


def test_endless_file_is_refused() -> None:
    ended = comfyrail("run", "/dev/zero")
    assert ended.returncode == 2
    assert "/dev/zero is larger than 64 MiB" in ended.stderr


def test_id_reaches_no_other_route(running_server: Comfyrail) -> None:
    ended = comfyrail("jobs", "show", "../../../health", "--server", running_server.url)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_state_that_does_not_exist_is_refused_by_the_server(running_server: Comfyrail) -> None:
    ended = comfyrail("jobs", "--status", "odd&limit=1", "--server", running_server.url)
    assert ended.returncode == 2
    assert "status" in ended.stderr
    assert "queued" in ended.stderr


def test_address_that_is_none_is_explained() -> None:
    ended = comfyrail("jobs", "--server", "http://[/x]")
    assert ended.returncode == 3
    assert "'http://[/x]' is no address of a server" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_server_that_is_not_comfyrail_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(picture()))
    replies = {"/health": {}, "/v1/workflows/executions": ["?"], "/v1/workers": {"workers": [1]}}
    with foreign_server(replies) as url:
        at = ["--server", url]
        said = "does not answer like a Comfyrail server"
        for command in (["jobs"], ["jobs", "show", "x"], ["run", str(path)]):
            ended = comfyrail(*command, *at, cwd=tmp_path)
            assert (ended.returncode, said in ended.stderr) == (3, True), ended.stderr
            assert "Traceback" not in ended.stderr
        ended = comfyrail("doctor", "--data", str(tmp_path), *at)
        assert (ended.returncode, said in ended.stdout) == (1, True), ended.stderr


def test_stream_that_is_none_ends_the_run(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(picture()))
    replies = {
        "/v1/workflows/execute": {"execution_id": "x"},
        "/v1/workflows/execution/x/events": b'data: {"\xff"}\n\n',
    }
    with foreign_server(replies) as url:
        ended = comfyrail("run", str(path), "--server", url, cwd=tmp_path)
    assert ended.returncode == 3
    assert "does not answer like a Comfyrail server" in ended.stderr


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("42", 42),
        ("-1.5", -1.5),
        ("true", True),
        ("null", None),
        ('["1",0]', ["1", 0]),
        ('{"a": 1.10}', {"a": 1.1}),
        ('"42"', "42"),
        ("1.10", "1.10"),
        ("007", "007"),
        ("1e3", "1e3"),
        (" 42", " 42"),
        ("NaN", "NaN"),
        ("", ""),
        ("a=b", "a=b"),
    ],
)
def test_number_is_one_only_as_json_writes_it(written: str, value: object) -> None:
    assert read_setting(f"2.text={written}") == ("2.text", value)


def test_number_that_is_text_is_made_one_where_the_input_takes_one(
    running_server: Comfyrail, tmp_path: Path
) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(picture(0xB2)))
    arguments = ["--set", "3.filename_prefix=1.10", "--set", "1.width=016"]
    at = ["--server", running_server.url, "-o", str(tmp_path)]
    ended = comfyrail("run", str(path), *arguments, *at)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"{tmp_path}/1.10_00001_.png\n"
    with Image.open(tmp_path / "1.10_00001_.png") as image:
        assert image.width == 16
