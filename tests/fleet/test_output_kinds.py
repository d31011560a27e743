"""Everything that a node reports becomes an output of the job [6.2]."""

import asyncio
import json
from typing import Any

import pytest

from comfyrail.fleet.comfyui.shown import ShownValue, WorkerFile, read_shown
from comfyrail.fleet.outputs import VALUE_LIMIT, content_type_of, judged_type
from comfyrail.fleet.session import SessionTimes
from comfyrail.jobs.states import JobState
from tests.fleet.bench import Bench, playing
from tests.fleet.scripted_worker import ScriptedWorker


def file(name: str, **rest: Any) -> dict[str, Any]:
    return {"filename": name, "subfolder": "", "type": "output", **rest}


async def made(bench: Bench, outputs: Any, **files: bytes) -> list[tuple[str, str, str, bytes]]:
    """Kind, name, content type and bytes of the outputs of a job whose history says this."""

    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        worker.end(prompt_id, "success", [["execution_success", {}]], outputs)
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(script) as worker:
        worker.files |= {name.replace("_", "."): content for name, content in files.items()}
        run = await bench.begin(await bench.connect(worker))
        assert (await bench.end(run)).state is JobState.COMPLETED
        return [
            (each.file.kind, each.file.filename, each.file.content_type, content)
            for each, content in await bench.outputs(run.job_id)
        ]


async def test_files_of_every_kind_are_fetched_in_their_order(bench: Bench) -> None:
    outputs = {
        "1": {"images": [file("a.webp"), file("b.png", type="temp")], "animated": [True]},
        "2": {"gifs": [file("c.mp4", format="video/h264-mp4", frame_rate=8.0)]},
        "3": {"audio": [file("d.flac")]},
        "4": {"3d": [file("e.glb")], "latents": [file("f.latent")]},
        "5": {"whatever": [[file("g.bin")]], "video": [file("h.webm")]},
    }
    names = ["a.webp", "b.png", "c.mp4", "d.flac", "e.glb", "f.latent", "g.bin", "h.webm"]
    contents = {name: b"\0" + name.encode() for name in names}  # no bytes of a kind that is known
    files = {name.replace(".", "_"): content for name, content in contents.items()}
    found = await made(bench, outputs, **files)
    assert [(name, content) for _, name, _, content in found] == list(contents.items())
    kinds = ["images", "images", "gifs", "audio", "3d", "latents", "whatever", "video"]
    assert [kind for kind, _, _, _ in found] == kinds
    types = [content_type for _, _, content_type, _ in found]
    assert types[0] == "image/webp"
    assert types[2:5] == ["video/mp4", "audio/flac", "model/gltf-binary"]


PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


@pytest.mark.parametrize(
    ("name", "content", "content_type"),
    [
        ("page.html", PNG, "image/png"),
        ("a.png", b"<html><script>alert(1)</script></html>", "text/html"),
        ("a.png", b"just a text", "text/plain"),
        ("table.csv", b"a;b\n1;2\n", "text/csv"),
        ("note.md", b"{really} a note", "text/markdown"),
        ("mesh.obj", b"v 0 0 0\n", "model/obj"),
        ("a.json", b'{"a": 1}', "application/json"),
        ("page.html", b"no markup", "text/plain"),
        ("odd.webp", b"\0\1\2", "image/webp"),
        ("empty.png", b"", "image/png"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_type_of_a_file_is_what_its_bytes_show(
    name: str, content: bytes, content_type: str
) -> None:
    assert judged_type(name, content, is_whole=True) == content_type


async def test_fetched_file_has_the_type_that_its_bytes_show(bench: Bench) -> None:
    outputs = {"1": {"images": [file("a.html")]}}
    assert [kind for _, _, kind, _ in await made(bench, outputs, a_html=PNG)] == ["image/png"]


async def test_texts_and_values_that_nodes_show_are_outputs_too(bench: Bench) -> None:
    outputs = {
        "1": {"text": ["first", "zweiter ü"]},
        "2": {"value": [42], "result": [{"a": [1, 2]}], "flag": [False], "nothing": [None]},
        "3": {"string": "not in a list", "nan": [float("nan")], "figures": [1, 2.5, 3]},
    }
    assert await made(bench, outputs) == [
        ("text", "text.txt", "text/plain", b"first"),
        ("text", "text_2.txt", "text/plain", "zweiter ü".encode()),
        ("value", "value.json", "application/json", b"42"),
        ("value", "result.json", "application/json", b'{"a": [1, 2]}'),
        ("value", "flag.json", "application/json", b"false"),
        ("text", "string.txt", "text/plain", b"not in a list"),
        ("value", "figures.json", "application/json", b"[1, 2.5, 3]"),
    ]


async def test_node_that_shows_thousands_of_values_does_not_fail_its_job(bench: Bench) -> None:
    outputs = {"1": {f"n{number}": [number] for number in range(3000)}, "2": {"curve": [0] * 9000}}
    found = await made(bench, outputs)
    assert len(found) == 500
    assert found[-1][1:] == ("n499.json", "application/json", b"499")


async def test_value_that_is_too_long_is_left_out_and_said_to_be(bench: Bench) -> None:
    letters = ["y"] * (VALUE_LIMIT // 4)
    outputs = {"1": {"text": ["x" * (VALUE_LIMIT + 1), "short"], "list": [letters]}}
    bench.times = SessionTimes()

    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        worker.end(prompt_id, "success", [["execution_success", {}]], outputs)
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(script) as worker:
        run = await bench.begin(await bench.connect(worker))
        assert (await bench.end(run)).state is JobState.COMPLETED
        (output,) = [content for _, content in await bench.outputs(run.job_id)]
        assert output == b"short"
        warnings = [
            event.data for event in await bench.events(run.job_id) if "warning" in event.type
        ]
        assert [data["code"] for data in warnings] == ["OUTPUT_TOO_LARGE"] * 2
        assert "node '1'" in warnings[0]["message"]


async def test_files_are_fetched_a_few_at_a_time(bench: Bench) -> None:
    under_way, most = 0, 0
    names = [f"{number}.png" for number in range(12)]

    class Counting(ScriptedWorker):
        async def _view(self, request: Any) -> Any:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            # The later ones answer first: the order must not come from the answers.
            await asyncio.sleep(0.01 if int(request.query["filename"][0]) % 2 else 0.03)
            under_way -= 1
            return await super()._view(request)

    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        worker.succeed(prompt_id, *names)
        await worker.say("executing", node=None, prompt_id=prompt_id)

    worker = Counting(script)
    await worker.start()
    try:
        worker.files |= {name: name.encode() for name in names}
        run = await bench.begin(await bench.connect(worker))
        assert (await bench.end(run)).state is JobState.COMPLETED
    finally:
        await worker.stop()
    found = [content.decode() for _, content in await bench.outputs(run.job_id)]
    assert found == names
    assert 1 < most <= 4


async def test_usual_job_takes_three_calls(bench: Bench) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        await worker.say("execution_start", prompt_id=prompt_id)
        await worker.say("executing", node="1", prompt_id=prompt_id)
        worker.succeed(prompt_id, "a.png")
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(script) as worker:
        connection = await bench.connect(worker)
        worker.calls.clear()
        run = await bench.begin(connection)
        await bench.end(run)
        prompt_id = run.attempt.prompt_id
        assert worker.calls == ["POST /prompt", f"GET /history/{prompt_id}", "GET /view"]


@pytest.mark.parametrize(
    "outputs", [None, [], 5, {"1": 5}, {"1": {"images": 5}}, {"1": {"a": [[[[[[[]]]]]]]}}]
)
def test_outputs_that_make_no_sense_do_no_harm(outputs: Any) -> None:
    for shown in read_shown(outputs):
        assert isinstance(shown, ShownValue | WorkerFile)


def test_names_from_workers_are_cut() -> None:
    (found,) = read_shown({"n" * 9999: {"k" * 9999: [5]}})
    assert isinstance(found, ShownValue)
    assert len(found.node_id) + len(found.name) < 500
    (kept,) = read_shown({"1": {"k" * 9999: [file("a")]}})
    assert isinstance(kept, WorkerFile)
    assert len(kept.kind) < 250


def test_kinds_of_files_do_not_depend_on_the_machines_own_table() -> None:
    assert content_type_of("A.WEBP") == "image/webp"
    assert content_type_of("x.unheard-of") == "application/octet-stream"
    assert json.dumps(content_type_of("")) == '"application/octet-stream"'
