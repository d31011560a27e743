"""`comfyrail uploads`, and files given to `comfyrail run` [10.8]."""

import asyncio
import json
import random
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from comfyrail.client import Asset, ComfyrailClient, ServerUnreachable
from comfyrail.client import uploads as client_uploads
from tests.assets.parts import load_and_save, picture, pixels, png
from tests.processes import Comfyrail, comfyrail

ID = r"[0-9a-f-]{36}"


def test_files_are_added_listed_and_removed(running_server: Comfyrail, tmp_path: Path) -> None:
    for name, seed in (("one.png", 60), ("two.png", 61)):
        (tmp_path / name).write_bytes(png(seed))
    server = ("--server", running_server.url)
    added = comfyrail("uploads", "add", "one.png", "two.png", *server, cwd=tmp_path)
    assert added.returncode == 0, added.stderr
    first, second = re.findall(rf"^\w+\.png: ({ID})$", added.stdout, re.MULTILINE)
    named = comfyrail(
        *("uploads", "add", "one.png", "--name", "faces/x.png", "--expires-in", "600"),
        *server,
        cwd=tmp_path,
    )
    assert "faces/x.png" in named.stdout
    listed = comfyrail("uploads", *server).stdout
    assert first in listed
    assert "faces/x.png" in listed
    assert "image/png" in listed
    assert comfyrail("uploads", "remove", first, *server).returncode == 0
    assert first not in comfyrail("uploads", "list", "--limit", "2", *server).stdout
    again = comfyrail("uploads", "remove", first, *server)
    assert again.returncode != 0
    assert "no asset" in again.stderr
    assert comfyrail("uploads", "remove", second, *server).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing.png",), "There is no file 'nothing.png'.\n"),
        (("one.png", "one.png", "--name", "x"), "one file"),
        (("page.html",), "SVG, HTML and XML never can"),
        (("one.png", "--expires-in", "5"), "expires_in"),
    ],
)
def test_what_cannot_be_added_is_said(
    running_server: Comfyrail, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "one.png").write_bytes(png())
    (tmp_path / "page.html").write_bytes(b"<html>")
    done = comfyrail("uploads", "add", *arguments, "--server", running_server.url, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_run_gives_the_files_that_it_names(running_server: Comfyrail, tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(load_and_save("unset.png")))
    (tmp_path / "my photo.png").write_bytes(png(62, (64, 48)))
    done = comfyrail(
        *("run", "graph.json", "--set", "1.image=@my photo.png", "--output", "made"),
        *("--server", running_server.url),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    (made,) = (tmp_path / "made").iterdir()
    assert pixels(made.read_bytes()) == pixels(png(62, (64, 48)))


def _files(server: Comfyrail, name: str) -> list[dict[str, Any]]:
    status, body = server.call("GET", f"/v1/assets?name={name}")
    assert status == 200
    assert isinstance(body["assets"], list)
    return body["assets"]


def test_a_run_gives_a_file_once_and_for_a_day(running_server: Comfyrail, tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(load_and_save("unset.png")))
    command = ("run", "graph.json", "--set", "1.image=@again.png", "--output", "made")
    server = ("--server", running_server.url)
    for content in (png(63), png(63), png(64)):
        (tmp_path / "again.png").write_bytes(content)
        ended = comfyrail(*command, *server, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
    newest, first = _files(running_server, "again.png")
    assert newest["sha256"] != first["sha256"]
    life = datetime.fromisoformat(first["expires_at"]) - datetime.fromisoformat(first["created_at"])
    assert abs(life - timedelta(days=1)) < timedelta(minutes=1)


@pytest.mark.parametrize("name", ["9.image", "1.picture", "photo"])
def test_a_wrong_parameter_is_said_before_its_file_is_sent(
    running_server: Comfyrail, tmp_path: Path, name: str
) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(load_and_save("unset.png")))
    (tmp_path / "unsent.png").write_bytes(png(65))
    server = ("--server", running_server.url)
    ended = comfyrail("run", "graph.json", "--set", f"{name}=@unsent.png", *server, cwd=tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert name.rpartition(".")[2] in ended.stderr
    assert _files(running_server, "unsent.png") == []


def test_a_file_is_removed_by_its_name(running_server: Comfyrail, tmp_path: Path) -> None:
    server = ("--server", running_server.url)
    ids = []
    for seed in (66, 67):
        (tmp_path / "twice.png").write_bytes(png(seed))
        said = comfyrail("uploads", "add", "twice.png", *server, cwd=tmp_path).stdout
        ids += re.findall(ID, said)
    first, second = ids
    removed = comfyrail("uploads", "remove", "twice.png", *server)
    assert removed.returncode == 0, removed.stderr
    assert f"Removed {second}." in removed.stdout
    assert first in removed.stdout
    assert [each["asset_id"] for each in _files(running_server, "twice.png")] == [first]
    last = comfyrail("uploads", "remove", "twice.png", *server)
    assert last.stdout == f"Removed {first}.\n"
    assert comfyrail("uploads", "remove", "twice.png", *server).returncode == 2


def test_a_file_that_is_not_there_is_said_before_anything_begins(tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(json.dumps(load_and_save("x.png")))
    done = comfyrail("run", "graph.json", "--set", "1.image=@missing.png", cwd=tmp_path)
    assert done.returncode == 2
    assert "write @@" in done.stderr


async def test_a_large_file_goes_on_where_the_line_broke(
    running_server: Comfyrail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = picture("BMP") + random.Random(2).randbytes(20 << 20)
    (tmp_path / "large.bmp").write_bytes(content)
    monkeypatch.setattr(client_uploads, "RETRY_SECONDS", (0.0,))
    told: list[int] = []
    async with ComfyrailClient(running_server.url) as client:
        send = client.uploads._send
        breaks = iter([False, True, False, True])

        async def breaking(*arguments: Any) -> Any:
            session = await send(*arguments)
            if next(breaks, False):  # the part is there, but its reply is not
                raise ServerUnreachable("the line broke")
            return session

        monkeypatch.setattr(client.uploads, "_send", breaking)
        asset = await client.uploads.add(
            tmp_path / "large.bmp", told=lambda done, _: told.append(done)
        )
        assert isinstance(asset, Asset)
        chunks = [chunk async for chunk in client.download(_as_output(asset))]
        assert b"".join(chunks) == content
        assert told == sorted(told)
        await client.uploads.delete(asset.asset_id)
        found = [each.asset_id async for each in client.uploads.all()]
        assert asset.asset_id not in found
    await asyncio.sleep(0)


def _as_output(asset: Asset) -> Any:
    class Whole:
        url = asset.url
        size = asset.size

    return Whole()
