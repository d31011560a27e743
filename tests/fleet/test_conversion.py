"""Pictures are converted between their coming here and the end of the job [8.2]."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from comfyrail.errors import ConversionFailed
from comfyrail.fleet import conversion
from comfyrail.fleet.conversion import Conversion
from comfyrail.fleet.outputs import Fetched
from comfyrail.ids import OutputId, new_job_id
from comfyrail.jobs.job import NewOutput
from comfyrail.jobs.outcome import Lost
from comfyrail.jobs.output_config import OutputConfig
from comfyrail.jobs.states import JobState
from comfyrail.results.disk_blobs import DiskBlobStore
from tests.fleet.bench import TENANT, Bench, playing
from tests.fleet.house import open_house
from tests.fleet.scripted_worker import ScriptedWorker

WEBP = OutputConfig(format="webp")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


@dataclass
class Made:
    content_type: str = "image/webp"
    suffix: str = ".webp"

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"converted"


class SlowConverter:
    """Converts what it is asked to when `may_go` is set; refuses what is called broken."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.began = asyncio.Event()
        self.may_go = asyncio.Event()
        self.fails = False
        self.places = 2

    @asynccontextmanager
    async def place(self, owner: str) -> AsyncIterator[None]:  # noqa: ARG002 - of the protocol
        yield

    @asynccontextmanager
    async def convert(
        self, key: str, content_type: str, wanted: OutputConfig
    ) -> AsyncIterator[Made | None]:
        assert wanted == WEBP
        self.asked.append(content_type)
        self.began.set()
        await self.may_go.wait()
        if self.fails:
            raise ConversionFailed(f"{key} is broken.")
        yield Made()


def output(kind: str, content_type: str, key: str = "key") -> NewOutput:
    return NewOutput(
        OutputId(new_job_id()), "3", kind, "a.b.png", "", False, content_type, 1, "h", key
    )


@pytest.mark.parametrize(
    ("kind", "content_type", "is_converted"),
    [
        ("images", "image/png", True),
        ("images", "video/mp4", False),
        ("images", "image/svg+xml", False),
        ("gifs", "image/gif", False),
        ("audio", "audio/flac", False),
    ],
    ids=["picture", "film", "svg", "another-kind", "sound"],
)
async def test_only_pictures_are_converted(
    tmp_path: Path, kind: str, content_type: str, is_converted: bool
) -> None:
    converter = SlowConverter()
    converter.may_go.set()
    given = output(kind, content_type)
    made = await Conversion(WEBP, converter).apply(
        Fetched((given,)), DiskBlobStore(tmp_path / "blobs")
    )
    assert bool(converter.asked) == is_converted
    if is_converted:
        assert (made.outputs[0].filename, made.outputs[0].size) == ("a.b.webp", 9)
    else:
        assert made.outputs == (given,)


async def test_what_cannot_be_converted_stays_with_a_warning(tmp_path: Path) -> None:
    converter = SlowConverter()
    converter.may_go.set()
    converter.fails = True
    given = output("images", "image/png")
    made = await Conversion(WEBP, converter).apply(
        Fetched((given,)), DiskBlobStore(tmp_path / "blobs")
    )
    assert made.outputs == (given,)
    assert [fault.code for fault in made.warnings] == ["OUTPUT_NOT_CONVERTED"]
    assert "key is broken." in made.warnings[0].message


async def test_equal_pictures_of_a_job_are_converted_once(tmp_path: Path) -> None:
    converter = SlowConverter()
    converter.may_go.set()
    given = tuple(output("images", "image/png", key) for key in ("one", "two", "one", "one"))
    made = await Conversion(WEBP, converter).apply(
        Fetched(given), DiskBlobStore(tmp_path / "blobs")
    )
    assert len(converter.asked) == 2
    assert [each.filename for each in made.outputs] == ["a.b.webp"] * 4
    assert [each.id for each in made.outputs] == [each.id for each in given]


async def test_pictures_of_a_job_are_converted_in_all_places_at_once(tmp_path: Path) -> None:
    converter = SlowConverter()
    given = tuple(output("images", "image/png", str(number)) for number in range(5))
    work = asyncio.create_task(
        Conversion(WEBP, converter).apply(Fetched(given), DiskBlobStore(tmp_path / "blobs"))
    )
    async with asyncio.timeout(10):
        while len(converter.asked) < 2:  # noqa: ASYNC110 - the state of another part
            await asyncio.sleep(0.01)
    assert len(converter.asked) == 2
    converter.may_go.set()
    assert len((await work).outputs) == 5


class CrowdedConverter(SlowConverter):
    """Others have the place for so long."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.may_go.set()
        self.seconds = seconds

    @asynccontextmanager
    async def place(self, owner: str) -> AsyncIterator[None]:  # noqa: ARG002 - of the protocol
        await asyncio.sleep(self.seconds)
        yield


async def test_waiting_for_a_place_is_not_taken_off_the_jobs_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "MOST_SECONDS", 0.2)
    given = tuple(output("images", "image/png", str(number)) for number in range(4))
    made = await Conversion(WEBP, CrowdedConverter(0.2)).apply(
        Fetched(given), DiskBlobStore(tmp_path / "blobs")
    )
    assert not made.warnings


async def test_picture_that_waits_too_long_stays_and_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "MOST_WAITING_SECONDS", 0.1)
    given = output("images", "image/png")
    made = await Conversion(WEBP, CrowdedConverter(60)).apply(
        Fetched((given,)), DiskBlobStore(tmp_path / "blobs")
    )
    assert made.outputs == (given,)
    assert "The server was busy converting" in made.warnings[0].message


async def _script(worker: ScriptedWorker, prompt_id: str) -> None:
    file = {"filename": "a.png", "subfolder": "", "type": "output"}
    worker.end(prompt_id, "success", [["execution_success", {}]], {"3": {"images": [file]}})
    await worker.say("executing", node=None, prompt_id=prompt_id)


async def test_job_is_not_lost_with_its_worker_while_its_pictures_are_converted(
    bench: Bench,
) -> None:
    converter = SlowConverter()
    async with playing(_script) as worker:
        worker.files["a.png"] = PNG
        attempt = replace(await bench.attempt(timeout=1), output_config=WEBP)
        connection = await bench.connect(worker)
        run = bench.run(attempt, connection, adopted=False, converter=converter)
        async with asyncio.timeout(20):
            await converter.began.wait()
        run.session.worker_is_gone(Lost("the worker has ended"))
        await asyncio.sleep(1.2)  # its time is over too
        assert not run.task.done()
        converter.may_go.set()
        assert (await bench.end(run)).state is JobState.COMPLETED
        ((made, content),) = await bench.outputs(run.job_id)
    assert (made.file.filename, made.file.content_type) == ("a.webp", "image/webp")
    assert content == b"converted"


@pytest.mark.parametrize("status", ["success", "interrupted"])
async def test_cancel_ends_the_conversion_at_once_and_keeps_what_was_made(
    bench: Bench, status: str
) -> None:
    converter = SlowConverter()

    async def script(worker: ScriptedWorker, prompt_id: str) -> None:
        file = {"filename": "a.png", "subfolder": "", "type": "output"}
        note = "execution_success" if status == "success" else "execution_interrupted"
        said = "success" if status == "success" else "error"
        worker.end(prompt_id, said, [[note, {}]], {"3": {"images": [file]}})
        await worker.say("executing", node=None, prompt_id=prompt_id)

    async with playing(script) as worker:
        worker.files["a.png"] = PNG
        attempt = replace(await bench.attempt(), output_config=WEBP)
        run = bench.run(attempt, await bench.connect(worker), adopted=False, converter=converter)
        async with asyncio.timeout(20):
            await converter.began.wait()
        began = asyncio.get_running_loop().time()
        await bench.store.request_cancel(TENANT, run.job_id)
        job = await bench.end(run)
        assert asyncio.get_running_loop().time() - began < bench.times.stop_limit + 2
        ((made, content),) = await bench.outputs(run.job_id)
    assert job.state is (JobState.COMPLETED if status == "success" else JobState.CANCELLED)
    assert (made.file.filename, content) == ("a.png", PNG)
    assert "OUTPUT_NOT_CONVERTED" in str(await bench.events(run.job_id))


async def test_jobs_whose_pictures_are_converted_do_not_keep_their_worker_from_others(
    tmp_path: Path,
) -> None:
    converter = SlowConverter()
    async with (
        open_house(tmp_path, converter=converter) as house,
        playing(_script) as worker,
    ):
        worker.files["a.png"] = PNG
        worker_id = await house.add(worker)
        converting = [await house.submit(output_config=WEBP) for _ in range(6)]
        await house.until(lambda: len(converter.asked) == 6)
        plain = await house.submit()
        assert (await house.ended(plain)).state is JobState.COMPLETED
        assert not house.fleet.view(worker_id).load
        assert set(house.fleet.view(worker_id).current_jobs) == set(converting)
        converter.may_go.set()
        for job_id in converting:
            assert (await house.ended(job_id)).state is JobState.COMPLETED


async def test_removal_of_a_worker_does_not_wait_for_pictures_of_its_jobs(tmp_path: Path) -> None:
    converter = SlowConverter()
    async with (
        open_house(tmp_path, converter=converter) as house,
        playing(_script) as worker,
    ):
        worker.files["a.png"] = PNG
        worker_id = await house.add(worker)
        job_id = await house.submit(output_config=WEBP)
        await house.until(converter.began.is_set)
        async with asyncio.timeout(10):
            await house.fleet.remove(worker_id)
        assert (await house.ended(job_id)).state is JobState.COMPLETED
        (made,) = await house.store.list_outputs(TENANT, job_id)
        assert made.file.filename == "a.png"
