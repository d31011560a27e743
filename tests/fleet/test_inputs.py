"""Input files are sent to workers that do not see the server's folder, once, by content [6.1]."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from comfyrail.errors import RequestError, WorkerUnreachable
from comfyrail.fleet.comfyui import uploads
from comfyrail.fleet.comfyui.client import ComfyClient
from comfyrail.fleet.comfyui.uploads import CHUNK_BYTES
from comfyrail.fleet.inputs import WorkerInputs
from comfyrail.jobs.states import JobState
from comfyrail.workflow.catalog import NodeCatalog, parse_object_info
from tests.fleet.bench import TENANT, Bench, playing, silent, succeed

OBJECT_INFO = {
    "Load": {"input": {"required": {"image": [["sample.png"], {"image_upload": True}]}}},
    "LoadMade": {
        "input": {
            "required": {
                "image": ["COMBO", {"image_upload": True, "image_folder": "output"}],
            }
        }
    },
    "Load3D": {"input": {"required": {"model_file": ["COMBO", {"file_upload": True}]}}},
    "Grow": {
        "input": {
            "required": {
                "files": [
                    "COMFY_AUTOGROW_V3",
                    {
                        "template": {
                            "prefix": "file",
                            "min": 1,
                            "max": 4,
                            "input": {"required": {"file": ["COMBO", {"video_upload": True}]}},
                        }
                    },
                ]
            }
        }
    },
    "Other": {"input": {"required": {"image": ["STRING", {}]}}},
}


def catalog() -> NodeCatalog:
    return parse_object_info(OBJECT_INFO)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "input"
    (made / "sub").mkdir(parents=True)
    (made / "3d").mkdir()
    (made / "a.PNG").write_bytes(b"picture")
    (made / "sub" / "b.mp4").write_bytes(b"film")
    (made / "3d" / "c.glb").write_bytes(b"model")
    (tmp_path / "secret.png").write_bytes(b"secret")
    return made


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def load(name: Any, class_type: str = "Load", port: str = "image") -> dict[str, Any]:
    return {"1": {"class_type": class_type, "inputs": {port: name, "other": 5}}}


def named(content: bytes, suffix: str, subfolder: str = "comfyrail") -> str:
    return f"{subfolder}/{hashlib.sha256(content).hexdigest()[:32]}{suffix}"


async def test_file_goes_to_the_worker_under_the_name_of_its_content(
    folder: Path, http: aiohttp.ClientSession
) -> None:
    inputs = WorkerInputs(folder, catalog)
    async with playing(silent) as worker:
        client = ComfyClient(worker.url, http)
        graph = load("a.PNG")
        made = await inputs.prepare(graph, client)
        expected = named(b"picture", ".png")
        assert made["1"] == {"class_type": "Load", "inputs": {"image": expected, "other": 5}}
        assert graph == load("a.PNG")
        assert worker.inputs == {("comfyrail", expected.split("/")[1]): b"picture"}
        again = await inputs.prepare(load("a.PNG [input]"), client)
        assert again["1"]["inputs"]["image"] == expected
        assert worker.uploads == 1


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (load("sub/b.mp4", "Grow", "files.file0"), named(b"film", ".mp4")),
        (load("3d/c.glb", "Load3D", "model_file"), named(b"model", ".glb", "3d/comfyrail")),
        (load({"__value__": "a.PNG"}), named(b"picture", ".png")),
    ],
)
async def test_every_kind_of_upload_input_is_understood(
    folder: Path, http: aiohttp.ClientSession, graph: dict[str, Any], expected: str
) -> None:
    async with playing(silent) as worker:
        made = await WorkerInputs(folder, catalog).prepare(graph, ComfyClient(worker.url, http))
        assert expected in made["1"]["inputs"].values()


@pytest.mark.parametrize(
    "graph",
    [
        load("absent.png"),
        load("../secret.png"),
        load("/etc/passwd"),
        load("link.png"),
        load("sub"),
        load("a\0.png"),
        load("a.PNG [output]"),
        load("x" * 5000),
        load(5),
        load(["2", 0]),
        load("a.PNG", "Other"),
        load("a.PNG", "Unknown"),
        load("a.PNG", "LoadMade"),
        {"1": {"class_type": "Load"}},
        {"1": {"class_type": ["Load"], "inputs": {"image": "a.PNG"}}},
    ],
)
async def test_what_names_no_file_of_the_folder_stays_as_it_is(
    folder: Path, http: aiohttp.ClientSession, graph: dict[str, Any]
) -> None:
    (folder / "link.png").symlink_to(folder.parent / "secret.png")
    async with playing(silent) as worker:
        made = await WorkerInputs(folder, catalog).prepare(graph, ComfyClient(worker.url, http))
        assert made == graph
        assert worker.inputs == {}


async def test_several_at_once_send_one_file_once(
    folder: Path, http: aiohttp.ClientSession
) -> None:
    (folder / "same.png").write_bytes(b"picture")
    inputs = WorkerInputs(folder, catalog)
    async with playing(silent) as worker:
        worker.delay = 0.05
        client = ComfyClient(worker.url, http)
        names = ["a.PNG", "same.png"] * 4
        await asyncio.gather(*(inputs.prepare(load(name), client) for name in names))
        assert worker.uploads == 1


async def test_changed_file_is_sent_anew(folder: Path, http: aiohttp.ClientSession) -> None:
    inputs = WorkerInputs(folder, catalog)
    async with playing(silent) as worker:
        client = ComfyClient(worker.url, http)
        await inputs.prepare(load("a.PNG"), client)
        (folder / "a.PNG").write_bytes(b"another")
        os.utime(folder / "a.PNG", (1, 1))
        made = await inputs.prepare(load("a.PNG"), client)
        assert made["1"]["inputs"]["image"] == named(b"another", ".png")
        assert worker.uploads == 2


async def test_worker_that_came_back_is_asked_what_it_still_has(bench: Bench, folder: Path) -> None:
    inputs = WorkerInputs(folder, catalog)
    async with playing(silent) as worker:
        connection = await bench.connect(worker)

        async def drop() -> None:
            opened = connection.client.times_opened
            await worker.drop_sockets()
            await bench.until(lambda: connection.client.times_opened > opened)

        await inputs.prepare(load("a.PNG"), connection.client)
        await drop()
        await inputs.prepare(load("a.PNG"), connection.client)
        assert worker.uploads == 1
        await drop()
        worker.inputs.clear()  # as when a container was made anew
        await inputs.prepare(load("a.PNG"), connection.client)
        assert worker.uploads == 2


async def test_large_file_is_never_in_memory_whole(
    folder: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 40 * CHUNK_BYTES + 17
    with (folder / "large.png").open("wb") as file:
        file.truncate(size)
    reads: list[int] = []
    opened = Path.open

    class CountedFile:
        def __init__(self, file: Any) -> None:
            self._file = file
            self.seek, self.close = file.seek, file.close

        def read(self, most: int) -> Any:
            reads.append(most)
            return self._file.read(most)

    monkeypatch.setattr(Path, "open", lambda *args: CountedFile(opened(*args)))
    async with playing(silent) as worker:
        await WorkerInputs(folder, catalog).prepare(
            load("large.png"), ComfyClient(worker.url, http)
        )
        (content,) = worker.inputs.values()
        assert len(content) == size
        assert len(reads) > 80  # hashed once before, once on its way
        assert max(reads) <= CHUNK_BYTES


async def test_file_that_changes_on_its_way_never_arrives_under_a_wrong_name(
    folder: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "a.PNG"
    inputs = WorkerInputs(folder, catalog)
    async with playing(silent) as worker:
        client = ComfyClient(worker.url, http)
        asked = client.has_input

        async def change_meanwhile(*args: Any) -> bool:
            path.write_bytes(b"CHANGED")  # of the same length, after it was hashed
            os.utime(path, (2, 2))
            return await asked(*args)

        monkeypatch.setattr(client, "has_input", change_meanwhile)
        made = await inputs.prepare(load("a.PNG"), client)
        assert made["1"]["inputs"]["image"] == named(b"CHANGED", ".png")
        assert list(worker.inputs.values()) == [b"CHANGED"]


async def test_unreadable_file_is_told_of(folder: Path, http: aiohttp.ClientSession) -> None:
    class Broken(WorkerInputs):
        async def _send(self, *_: Any) -> Any:
            raise PermissionError(13, "Permission denied")

    async with playing(silent) as worker:
        with pytest.raises(RequestError, match=r"'a\.PNG' cannot be read: Permission denied"):
            await Broken(folder, catalog).prepare(load("a.PNG"), ComfyClient(worker.url, http))


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (413, b"too much", "INPUT_TOO_LARGE"),
        (500, b"<html>Server got itself in trouble", "INPUT_UPLOAD_FAILED"),
        (200, b"<html>hello", "INPUT_UPLOAD_FAILED"),
        (200, b'{"name": 5}', "INPUT_UPLOAD_FAILED"),
        (200, b'{"name": "", "subfolder": ""}', "INPUT_UPLOAD_FAILED"),
        (200, b"[" * 100_000, "INPUT_UPLOAD_FAILED"),
    ],
)
async def test_worker_that_does_not_take_a_file_is_a_clear_fault_of_the_job(
    bench: Bench, folder: Path, status: int, body: bytes, code: str
) -> None:
    bench.inputs = WorkerInputs(folder, catalog)
    async with playing(succeed) as worker:
        worker.refuse_upload = (status, body)
        connection = await bench.connect(worker)
        run = await bench.begin(connection, graph=load("a.PNG"), max_retries=0)
        job = await bench.end(run)
        assert job.state is JobState.FAILED
        assert job.fault is not None
        assert job.fault.code == code
        assert "a.PNG" in job.fault.message
        assert worker.submitted == []


async def test_job_runs_with_the_names_that_its_files_have_on_the_worker(
    bench: Bench, folder: Path
) -> None:
    bench.inputs = WorkerInputs(folder, catalog)
    async with playing(succeed) as worker:
        run = await bench.begin(await bench.connect(worker), graph=load("a.PNG"))
        assert (await bench.end(run)).state is JobState.COMPLETED
        sent = worker.prompts[run.attempt.prompt_id]["prompt"]
        assert sent["1"]["inputs"]["image"] == named(b"picture", ".png")


async def test_cancel_breaks_off_an_upload(bench: Bench, folder: Path) -> None:
    bench.inputs = WorkerInputs(folder, catalog)
    async with playing(succeed) as worker:
        connection = await bench.connect(worker)
        worker.is_frozen = True
        run = await bench.begin(connection, graph=load("a.PNG"))
        await bench.until(lambda: "HEAD /view" in worker.calls)
        await bench.store.request_cancel(TENANT, run.job_id)
        assert (await bench.end(run)).state is JobState.CANCELLED
        worker.is_frozen = False
        assert worker.submitted == []


async def test_worker_that_stalls_during_an_upload_is_given_up(
    folder: Path, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "STALL_SECONDS", 0.05)
    async with playing(silent) as worker:
        client = ComfyClient(worker.url, http)

        async def freeze(*_: Any) -> bool:
            worker.is_frozen = True
            return False

        monkeypatch.setattr(client, "has_input", freeze)
        with pytest.raises(WorkerUnreachable):
            await WorkerInputs(folder, catalog).prepare(load("a.PNG"), client)
        worker.is_frozen = False


def test_refusal_says_what_to_do() -> None:
    refusal = uploads.explain_refusal("http://w", "a.png", 413, b"")
    assert (refusal.category, "--max-upload-size" in refusal.message) == ("validation", True)
