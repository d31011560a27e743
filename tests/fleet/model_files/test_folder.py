"""A folder of models that workers share: who may be there, who goes first, who fetches."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from comfyrail.errors import DriverRefused, WorkerUnreachable
from comfyrail.fleet.model_files.manifest import ModelFile, find_fault
from comfyrail.fleet.model_files.paths_file import write_paths_file
from tests.fleet.model_files.file_server import FileServer, serving
from tests.fleet.model_files.parts import models_folder

CONTENT = os.urandom(100_000)

OTHER_PROCESS = """
import asyncio, json, sys
from pathlib import Path
import aiohttp, msgspec
from comfyrail.clock import SystemClock
from comfyrail.fleet.model_files.folder import ModelFiles
from comfyrail.fleet.model_files.manifest import ModelFile

async def main():
    async with aiohttp.ClientSession() as http:
        files = ModelFiles(Path(sys.argv[1]), http, SystemClock())
        manifest = msgspec.convert(json.loads(sys.argv[2]), tuple[ModelFile, ...])
        print("ready", flush=True)
        await files.ensure(manifest)
        print("done", flush=True)
        sys.stdin.read()

asyncio.run(main())
"""


# Names


@pytest.mark.parametrize(
    "name",
    [
        "../a",
        "/etc/passwd",
        "a/../../b",
        "a//b",
        "",
        ".",
        "a/",
        ".hidden",
        "a\\b",
        "c:a",
        "a\nb",
        "a\0b",
        "x" * 300,
        "a.part",
        "a /b",
        "/".join(["abc"] * 400),
    ],
)
@pytest.mark.parametrize("field", ["name", "folder"])
async def test_names_that_could_lead_elsewhere_are_refused(
    tmp_path: Path, name: str, field: str
) -> None:
    line = FileServer(CONTENT).model(url="http://127.0.0.1:1/a", **{field: name})
    fault = find_fault(msgspec.convert([line], list[ModelFile]))
    assert fault is not None
    async with models_folder(tmp_path) as models:
        with pytest.raises(DriverRefused, match="list of models"):
            await models.fetch(line)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://user:pw@host/a", "ftp://host/a", "models/a", "http://"]
)
def test_urls_that_are_not_of_the_web_are_refused(url: str) -> None:
    line = FileServer(CONTENT).model(url=url)
    assert find_fault(msgspec.convert([line], list[ModelFile]))[0] == "[0].url"  # type: ignore[index]


def test_one_name_for_two_contents_is_refused() -> None:
    lines = [
        FileServer(CONTENT).model(url="http://127.0.0.1/a"),
        FileServer(b"other").model(url="http://127.0.0.1/b"),
    ]
    fault = find_fault(msgspec.convert(lines, list[ModelFile]))
    assert fault is not None
    assert "twice" in fault[1]


@pytest.mark.parametrize("field", ["sha256", "size"])
def test_values_that_cannot_be_are_refused_when_they_are_read(field: str) -> None:
    wrong: dict[str, Any] = {"sha256": "abc", "size": -1}
    line = {**FileServer(CONTENT).model(), field: wrong[field]}
    with pytest.raises(msgspec.ValidationError, match=field):
        msgspec.convert([line], list[ModelFile])


async def test_names_with_folders_in_them_are_fine(tmp_path: Path) -> None:
    async with serving(FileServer(CONTENT)) as server, models_folder(tmp_path) as models:
        await models.fetch(server.model("sdxl/größe 1.safetensors"))
        assert models.read("sdxl/größe 1.safetensors") == CONTENT


async def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "checkpoints").symlink_to(outside)
    async with serving(FileServer(CONTENT)) as server, models_folder(folder) as models:
        with pytest.raises(DriverRefused, match="by a link"):
            await models.fetch(server.model())
        with pytest.raises(DriverRefused, match="by a link"):
            await models.fetch(server.model("deeper/a.safetensors"))
    assert not list(outside.iterdir())


async def test_a_link_in_the_place_of_a_part_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "models"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "a.safetensors.part").symlink_to(victim)
    async with serving(FileServer(CONTENT)) as server, models_folder(folder) as models:
        with pytest.raises(WorkerUnreachable, match="models folder"):
            await models.fetch(server.model())
    assert victim.read_text() == "precious"


# What is there already


async def test_a_file_of_the_operators_own_is_used_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "a.safetensors").write_bytes(CONTENT)
    async with serving(FileServer(CONTENT)) as server, models_folder(tmp_path) as models:
        await models.fetch(server.model())
        assert not server.requests


async def test_a_file_of_the_operators_own_with_other_content_is_left_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "checkpoints").mkdir()
    own = tmp_path / "checkpoints" / "a.safetensors"
    async with serving(FileServer(CONTENT)) as server, models_folder(tmp_path) as models:
        for content in (b"mine", bytes(len(CONTENT))):
            own.write_bytes(content)
            with pytest.raises(DriverRefused, match="Rename or remove it"):
                await models.fetch(server.model())
            assert own.read_bytes() == content
        own.unlink()
        own.mkdir()
        with pytest.raises(DriverRefused, match="is no file"):
            await models.fetch(server.model())


async def test_a_fetched_file_gives_way_to_the_new_content_of_its_manifest(tmp_path: Path) -> None:
    server = FileServer(CONTENT)
    async with serving(server), models_folder(tmp_path) as models:
        await models.fetch(server.model())
        server.content, server.etag = CONTENT[::-1], '"two"'
        await models.fetch(server.model())
        assert models.read() == CONTENT[::-1]


async def test_a_fetched_file_that_somebody_changed_is_noticed(tmp_path: Path) -> None:
    async with serving(FileServer(CONTENT)) as server, models_folder(tmp_path) as models:
        await models.fetch(server.model())
        (tmp_path / "checkpoints" / "a.safetensors").write_bytes(b"other")
        with pytest.raises(DriverRefused, match="content differs"):
            await models.fetch(server.model())


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 5}', '{"../../x": {}}'])
async def test_an_index_that_is_broken_counts_as_empty(tmp_path: Path, content: str) -> None:
    async with serving(FileServer(CONTENT)) as server, models_folder(tmp_path) as models:
        await models.fetch(server.model())
        (tmp_path / ".comfyrail" / "index.json").write_text(content)
        await models.fetch(server.model())
        assert len(server.requests) == 1


# The limit


async def test_the_least_recently_used_goes_first_and_only_what_was_fetched(
    tmp_path: Path,
) -> None:
    server = FileServer(CONTENT)
    async with serving(server), models_folder(tmp_path, limit_bytes=350_000) as models:
        await models.fetch(server.model("found"))
        own = tmp_path / "checkpoints" / "own"
        own.write_bytes(CONTENT)
        for name in ("one", "two", "found"):
            await models.fetch(server.model(name))
        await models.fetch(server.model("one"))
        await models.fetch(server.model("own"))
        await models.fetch(server.model("three"))
        assert models.names() == {"found", "one", "three", "own"}
        await models.fetch(server.model("four"), server.model("found"))
        assert models.names() == {"found", "four", "three", "own"}


async def test_a_file_in_use_stays_and_goes_when_it_is_let_go(tmp_path: Path) -> None:
    server = FileServer(CONTENT)
    async with serving(server), models_folder(tmp_path, limit_bytes=250_000) as models:
        held = await models.ensure(server.model("one"))
        assert held.paths == ("checkpoints/one",)
        await models.fetch(server.model("two"))
        await models.fetch(server.model("three"))
        assert models.names() == {"one", "three"}
        with pytest.raises(WorkerUnreachable, match="in use"):
            await models.fetch(server.model("four"), server.model("five"))
        await held.release()
        await held.release()
        await models.fetch(server.model("four"), server.model("five"))
        assert models.names() == {"four", "five"}


async def test_a_list_that_can_never_fit_is_for_a_person_to_mend(tmp_path: Path) -> None:
    server = FileServer(CONTENT)
    async with serving(server), models_folder(tmp_path, limit_bytes=150_000) as models:
        with pytest.raises(DriverRefused, match="200,000 bytes and 'model_limit' allows"):
            await models.fetch(server.model("one"), server.model("two"))


async def test_a_part_that_nobody_wants_any_more_goes_too(tmp_path: Path) -> None:
    server = FileServer(CONTENT, cuts=[50_000, *([0] * 9)])
    async with serving(server), models_folder(tmp_path, limit_bytes=150_000) as models:
        with pytest.raises(WorkerUnreachable):
            await models.fetch(server.model("one"))
        assert models.names() == {"one.part"}
        server.cuts.clear()
        await models.fetch(server.model("two"))
        assert models.names() == {"two"}


async def test_a_disk_without_room_is_told(tmp_path: Path) -> None:
    line = FileServer(CONTENT).model(url="http://127.0.0.1:1/a", size=1 << 50)
    async with models_folder(tmp_path) as models:
        with pytest.raises(WorkerUnreachable, match=r"No space left|bytes are free"):
            await models.fetch(line)


async def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    server = FileServer(CONTENT)
    async with serving(server), models_folder(tmp_path / "file" / "models") as models:
        with pytest.raises(WorkerUnreachable, match="cannot be used"):
            await models.fetch(server.model())


# One at a time


async def test_callers_who_want_the_same_file_share_one_download(tmp_path: Path) -> None:
    server = FileServer(CONTENT)
    async with (
        serving(server),
        models_folder(tmp_path) as models,
        models_folder(tmp_path) as others,
    ):
        calls = [models, others, models, others]
        held = await asyncio.gather(*(each.ensure(server.model()) for each in calls))
        for each in held:
            await each.release()
        assert len(server.requests) == 1


async def test_processes_who_want_the_same_file_share_one_download(tmp_path: Path) -> None:
    server = FileServer(CONTENT, gate=asyncio.Event())
    async with serving(server), models_folder(tmp_path, limit_bytes=150_000) as models:
        manifest = json.dumps([server.model("one")])
        words = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path), manifest]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        both = [await asyncio.create_subprocess_exec(*words, **pipes) for _ in range(2)]
        for each in both:
            assert await each.stdout.readline() == b"ready\n"  # type: ignore[union-attr]
        assert server.gate is not None
        server.gate.set()
        for each in both:
            while (line := await each.stdout.readline()) != b"done\n":  # type: ignore[union-attr]
                assert line
        assert len(server.requests) == 1
        # They still hold it, so that it cannot be pushed out; one that is killed lets go.
        with pytest.raises(WorkerUnreachable, match="in use"):
            await models.fetch(server.model("two"))
        for each in both:
            each.kill()
            await each.wait()
        await models.fetch(server.model("two"))
        assert models.names() == {"two"}


async def test_progress_is_shown_while_a_file_is_on_its_way(tmp_path: Path) -> None:
    server = FileServer(CONTENT, gate=asyncio.Event())
    async with serving(server), models_folder(tmp_path) as models:
        fetching = asyncio.create_task(models.fetch(server.model()))
        async with asyncio.timeout(20):
            while not server.requests:  # noqa: ASYNC110 - the server's own state
                await asyncio.sleep(0.005)
        (progress,) = models.files.progress()
        assert (progress.path, progress.received, progress.size) == (
            "checkpoints/a.safetensors",
            0,
            len(CONTENT),
        )
        assert server.gate is not None
        server.gate.set()
        await fetching
        assert not models.files.progress()


# What ComfyUI is told


def test_a_comfyui_is_told_of_every_folder(tmp_path: Path) -> None:
    lines = [
        FileServer(CONTENT).model(url="http://h/a"),
        FileServer(CONTENT).model("b", folder="loras/deep", url="http://h/b"),
    ]
    manifest = msgspec.convert(lines, list[ModelFile])
    path = write_paths_file(tmp_path / "worker", tmp_path / "models", manifest)
    assert yaml.safe_load(path.read_text()) == {
        "comfyrail": {
            "base_path": str(tmp_path / "models"),
            "checkpoints": "checkpoints",
            "loras": "loras",
        }
    }
