"""Pictures over the socket: previews in memory, and outputs that are nowhere else [6.2]."""

import asyncio
import json
import struct
from typing import Any

import pytest

from comfyrail.fleet.comfyui.pictures import parse_picture
from comfyrail.fleet.previews import Previews
from comfyrail.ids import JobId
from comfyrail.jobs.events import EventType
from comfyrail.jobs.states import JobState
from tests.fleet.bench import Bench, playing, silent, succeed
from tests.fleet.scripted_worker import GRAPH, ScriptedWorker

JPEG = b"\xff\xd8\xff and so on"
PNG = b"\x89PNG\r\n\x1a\n and so on"
SENDING = {
    "1": {"class_type": "Make", "inputs": {}},
    "2": {"class_type": "SaveImageWebsocket", "inputs": {"images": ["1", 0]}},
}


def plain(image: bytes, kind: int = 1) -> bytes:
    return struct.pack(">II", 1, kind) + image


def described(image: bytes, **said: Any) -> bytes:
    words = json.dumps(said).encode()
    return struct.pack(">II", 4, len(words)) + words + image


async def test_preview_is_there_while_the_job_runs_and_gone_after(bench: Bench) -> None:
    async with playing(silent) as worker:
        run = await bench.begin(await bench.connect(worker))
        await bench.until(lambda: worker.queue)
        prompt_id = run.attempt.prompt_id
        said = {"prompt_id": prompt_id, "node_id": "1", "image_type": "image/jpeg"}
        await worker.send_frame(described(JPEG, **said))
        await bench.until(lambda: bench.previews.latest(run.job_id))
        preview = bench.previews.latest(run.job_id)
        assert preview is not None
        assert (preview.node_id, preview.content_type, preview.image) == ("1", "image/jpeg", JPEG)
        await worker.send_frame(described(PNG, **said))
        await bench.until(
            lambda: (latest := bench.previews.latest(run.job_id)) and latest.number == 2
        )
        worker.succeed(prompt_id, "a.png")
        await worker.say("executing", node=None, prompt_id=prompt_id)
        assert (await bench.end(run)).state is JobState.COMPLETED
        assert bench.previews.latest(run.job_id) is None
        assert not any("jpeg" in str(event.data) for event in await bench.events(run.job_id))


async def test_progress_tells_how_many_previews_there_were(bench: Bench) -> None:
    async with playing(silent) as worker:
        run = await bench.begin(await bench.connect(worker))
        await bench.until(lambda: worker.queue)
        prompt_id = run.attempt.prompt_id
        await worker.say("executing", node="1", prompt_id=prompt_id)

        async def told() -> list[int]:
            events = await bench.events(run.job_id)
            progress = (each for each in events if each.type is EventType.PROGRESS)
            return [each.data["preview"] for each in progress]

        async def until_told(number: int) -> None:
            async with asyncio.timeout(20):
                while (await told())[-1:] != [number]:  # noqa: ASYNC110 - what another part writes
                    await asyncio.sleep(0.01)

        await until_told(0)
        said = {"prompt_id": prompt_id, "node_id": "1", "image_type": "image/jpeg"}
        for number in (1, 2):
            await worker.send_frame(described(JPEG, **said))
            await until_told(number)
        await worker.send_frame(described(b"x" * (5 << 20), **said))
        worker.succeed(prompt_id, "a.png")
        await worker.say("executing", node=None, prompt_id=prompt_id)
        assert (await bench.end(run)).state is JobState.COMPLETED
        counts = await told()
        assert counts == sorted(counts)
        assert counts[-1] == 2, "one that is refused is none"


async def test_plain_preview_belongs_to_the_prompt_that_runs(bench: Bench) -> None:
    async with playing(silent) as worker:
        connection = await bench.connect(worker)
        first, second = await bench.begin(connection), await bench.begin(connection)
        await bench.until(lambda: len(worker.queue) == 2)
        await worker.send_frame(plain(JPEG))  # nothing was said to run yet
        await worker.say("executing", node="2", prompt_id=second.attempt.prompt_id)
        await worker.send_frame(plain(JPEG))
        await bench.until(lambda: bench.previews.latest(second.job_id))
        preview = bench.previews.latest(second.job_id)
        assert preview is not None
        assert (preview.node_id, preview.number) == ("2", 1)
        assert bench.previews.latest(first.job_id) is None


async def test_worker_is_asked_for_previews_that_name_their_prompt(bench: Bench) -> None:
    async with playing(succeed) as worker:
        run = await bench.begin(await bench.connect(worker))
        await bench.end(run)
        flags = {"supports_preview_metadata": True}
        assert worker.first_messages[0] == {"type": "feature_flags", "data": flags}
        extra = worker.prompts[run.attempt.prompt_id]["extra_data"]
        assert extra == {"preview_method": "auto"}


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0",
        plain(b""),
        plain(b"GIF89a"),
        plain(b"<svg/>"),
        struct.pack(">II", 3, 1) + b"a text",
        struct.pack(">II", 2, 1) + JPEG,
        struct.pack(">II", 4, 1 << 31) + JPEG,
        struct.pack(">II", 4, 3) + b"[1]" + JPEG,
        struct.pack(">II", 4, 3) + b"}{:" + JPEG,
        described(b"no picture", prompt_id="p"),
        described(JPEG * 100, prompt_id="p" * 100_000),
    ],
)
def test_frames_that_are_no_pictures_are_passed_over(frame: bytes) -> None:
    assert parse_picture(frame) is None


def test_what_a_picture_is_said_to_be_is_not_believed() -> None:
    picture = parse_picture(described(PNG, prompt_id=5, node_id=["1"], image_type="text/html"))
    assert picture is not None
    assert (picture.content_type, picture.prompt_id, picture.node_id) == ("image/png", None, None)


def test_previews_are_bounded_in_number_and_size() -> None:
    previews = Previews(jobs_kept=2, image_limit=100, bytes_kept=150)
    jobs = [JobId(name) for name in "abc"]
    assert not previews.put(jobs[0], "1", "image/png", b"x" * 101)
    assert not previews.put(jobs[0], "1", "text/html", b"x")
    assert not previews.put(jobs[0], "1", "image/png", b"")
    for job_id in jobs:
        assert previews.put(job_id, "1", "image/png", b"x")
    assert previews.latest(jobs[0]) is None
    assert previews.put(jobs[2], "1", "image/png", b"x" * 100)
    assert previews.put(jobs[1], "1", "image/png", b"x" * 100)
    assert previews.latest(jobs[2]) is None
    previews.drop(jobs[1])
    previews.drop(jobs[1])
    assert previews.latest(jobs[1]) is None
    assert previews.put(jobs[0], "1", "image/png", b"x" * 100)
    assert previews.latest(jobs[0]) is not None


@pytest.mark.parametrize("has_metadata", [True, False])
async def test_pictures_that_only_the_socket_has_are_outputs_of_the_job(
    bench: Bench, has_metadata: bool
) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        await worker.say("executing", node="1", prompt_id=prompt_id)
        await worker.send_frame(plain(JPEG))  # a preview of the node before
        await worker.say("executing", node="2", prompt_id=prompt_id)
        for number in range(2):
            image = PNG + bytes([number])
            about = {"prompt_id": prompt_id, "node_id": "2", "image_type": "image/png"}
            await worker.send_frame(described(image, **about) if has_metadata else plain(image, 2))
        worker.end(prompt_id, "success", [["execution_success", {}]])
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(script) as worker:
        run = await bench.begin(await bench.connect(worker), graph=SENDING)
        assert (await bench.end(run)).state is JobState.COMPLETED
        found = await bench.outputs(run.job_id)
        assert [content for _, content in found] == [PNG + b"\0", PNG + b"\1"]
        names = [(each.file.node_id, each.file.kind, each.file.filename) for each, _ in found]
        assert names == [("2", "images", "picture_00001.png"), ("2", "images", "picture_00002.png")]


async def test_pictures_that_were_lost_with_the_line_cost_the_attempt(bench: Bench) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        await worker.say("executing", node="2", prompt_id=prompt_id)
        await worker.drop_sockets()
        worker.end(prompt_id, "success", [["execution_success", {}]])

    async with playing(script) as worker:
        run = await bench.begin(await bench.connect(worker), graph=SENDING)
        job = await bench.end(run)
        assert (job.state, job.retries) == (JobState.QUEUED, 1)


async def test_line_that_broke_costs_nothing_where_the_worker_keeps_the_outputs(
    bench: Bench,
) -> None:
    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        await worker.drop_sockets()
        worker.succeed(prompt_id, "a.png")

    async with playing(script) as worker:
        run = await bench.begin(await bench.connect(worker), graph=GRAPH)
        assert (await bench.end(run)).state is JobState.COMPLETED
